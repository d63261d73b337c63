"""The screen Persona: files of personas, what is wrong with each, its prompt, and a talk to try it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from pixi.app.household import Household
from pixi.app.studio.persona_files import (
    PersonaText,
    create_file,
    find_file,
    name_of,
    personas_in,
    read_text,
    save_text,
    why_read_only,
)
from pixi.app.studio.persona_history import Commit, commits_of, diff_of
from pixi.app.studio.persona_prompt import (
    PersonaFault,
    PersonaForm,
    Prompt,
    form_of,
    looked_at,
    problems_of,
    prompt_of,
    with_names,
)
from pixi.app.studio.persona_talk import DraftTalks
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.personas.files import LoadedPersona, shown
from pixi.personas.shelf import Found

_LIST = "/api/studio/personas"
_ONE = f"{_LIST}/{{name}}"

Text = Annotated[str, Meta(max_length=300_000)]
TalkName = Annotated[str, Meta(min_length=1, max_length=64)]


class PersonaEntry(Struct):
    """A file in the list.

    Attributes:
        id: the file's name without its ending: what stands in paths.
        own: it lies in the operator's own folder.
        live: the house answers as this file says.
        default: it answers where nobody is named.
        persona: as `pixi-persona personas --json` tells of it.
    """

    id: str
    own: bool
    live: bool
    default: bool
    persona: PersonaForm


class PersonaList(Struct):
    """All files, in the order in which they are found. `folder`: the operator's own."""

    personas: list[PersonaEntry]
    folder: str


class PersonaFile(Struct):
    """A file.

    Attributes:
        text: with line ends as a line feed; "" where `unreadable` says why there is none.
        digest: of the file's bytes; to be sent back with what is saved.
        read_only: why it cannot be saved here; "" where it can.
        unreadable: why there is no text.
        live: the house answers as this file says.
        why: why it does not, as far as that is known.
    """

    id: str
    file: str
    text: str
    digest: str
    read_only: str
    unreadable: str
    live: bool
    why: str


class TryRequest(Struct, forbid_unknown_fields=True):
    """A text that is not saved."""

    text: Text


class Examined(Struct):
    """What a text comes to. `prompt` is missing where it is no persona.

    Attributes:
        problems: by line; also in `persona`, as the command line tells of them.
    """

    problems: list[PersonaFault]
    persona: PersonaForm
    prompt: Prompt | None


class SaveRequest(Struct, forbid_unknown_fields=True):
    """A text that is to be saved, in place of the one with this digest."""

    text: Text
    digest: str


class NewRequest(Struct, forbid_unknown_fields=True):
    """A new file. `like`: the name of one that it is to be a copy of."""

    id: Annotated[str, Meta(max_length=100)]
    like: str = ""


class PersonaSayRequest(Struct, forbid_unknown_fields=True):
    """Say something to a text. `talk`: a name of the page's own for a talk that it goes on with."""

    text: Text
    message: Annotated[str, Meta(min_length=1, max_length=8_000)]
    talk: TalkName


class DraftTalkQuery(Struct):
    """Which talk."""

    talk: TalkName


class CommitList(Struct):
    """The commits that changed a file, the newest first; none where git does not know it."""

    commits: list[Commit]


class CommitDiff(Struct):
    """What a commit changed in a file, as a unified diff."""

    diff: str


def routes(house: Household) -> Sequence[AddonRoute]:
    """Return the routes."""
    screen = _PersonaScreen(house)
    house.closing.push_async_callback(screen.talks.close)
    draft = f"{_ONE}/draft"
    return (
        AddonRoute("GET", _LIST, screen.list, "List files of personas", "operate", None, PersonaList),
        AddonRoute("POST", _LIST, screen.create, "Make a persona", "operate", NewRequest, PersonaFile),
        AddonRoute("GET", _ONE, screen.read, "Read a persona's file", "operate", None, PersonaFile),
        AddonRoute("PUT", _ONE, screen.save, "Save a persona's file", "operate", SaveRequest, PersonaFile),
        AddonRoute("POST", draft, screen.examine, "Look at a text", "operate", TryRequest, Examined),
        AddonRoute(
            "POST",
            f"{draft}/talk",
            screen.say,
            "Talk to a text",
            "operate",
            PersonaSayRequest,
            dict[str, Any],
            streams=True,
        ),
        AddonRoute("DELETE", f"{draft}/talk", screen.end, "End such a talk", "operate", DraftTalkQuery),
        AddonRoute("GET", f"{_ONE}/history", screen.history, "List its commits", "operate", None, CommitList),
        AddonRoute(
            "GET", f"{_ONE}/history/{{commit}}", screen.diff, "Read a commit", "operate", None, CommitDiff
        ),
    )


class _PersonaScreen:
    """Answers the routes. What reads and writes files does so in threads."""

    def __init__(self, house: Household) -> None:
        self._house = house
        self._saving = asyncio.Lock()
        self.talks = DraftTalks(house)

    async def list(self, caller: Caller, asked: None) -> PersonaList:
        """Answer with all files."""
        house = self._house

        def entries() -> list[PersonaEntry]:
            return [self._entry(with_names(house, each)) for each in personas_in(house.settings)]

        return PersonaList(await asyncio.to_thread(entries), shown(house.settings.persona.folder))

    async def read(self, caller: Caller, asked: None) -> PersonaFile:
        """Answer with a file."""
        return await asyncio.to_thread(self._read, caller.path["name"])

    async def create(self, caller: Caller, asked: NewRequest) -> PersonaFile:
        """Make a file, and answer with it."""
        async with self._saving:
            await asyncio.to_thread(create_file, self._house.settings, asked.id, asked.like)
            why = await self._taken()
        return await asyncio.to_thread(self._read, asked.id, why)

    async def save(self, caller: Caller, asked: SaveRequest) -> PersonaFile:
        """Save a file and have the house read it; answer with it as it lies there, and whether it is live."""
        name = caller.path["name"]
        async with self._saving:
            await asyncio.to_thread(save_text, self._house.settings, name, asked.text, asked.digest)
            why = await self._taken()
        return await asyncio.to_thread(self._read, name, why)

    async def examine(self, caller: Caller, asked: TryRequest) -> Examined:
        """Answer with what a text comes to."""
        found = await asyncio.to_thread(self._looked_at, caller.path["name"], asked.text)
        loaded = found if isinstance(found, LoadedPersona) else found.loaded
        prompt = None if loaded is None else prompt_of(self._house, loaded.persona, caller.name)
        return Examined(problems_of(found), form_of(found), prompt)

    async def say(self, caller: Caller, asked: PersonaSayRequest) -> AsyncGenerator[dict[str, Any], None]:
        """Say something to a text, and yield what it does."""
        found = await asyncio.to_thread(self._looked_at, caller.path["name"], asked.text)
        if not isinstance(found, LoadedPersona):
            raise RouteError(422, "It cannot answer so", "\n".join(found.faults))
        talk = await self.talks.at(caller, asked.talk, found.persona)
        async with aclosing(talk.say(asked.message)) as events:
            async for event in events:
                yield event

    async def end(self, caller: Caller, asked: DraftTalkQuery) -> None:
        """End a talk."""
        await self.talks.end(caller, asked.talk)

    async def history(self, caller: Caller, asked: None) -> CommitList:
        """Answer with the commits of a file."""
        return CommitList(await commits_of(await self._path(caller)))

    async def diff(self, caller: Caller, asked: None) -> CommitDiff:
        """Answer with what a commit changed."""
        return CommitDiff(await diff_of(await self._path(caller), caller.path["commit"]))

    async def _path(self, caller: Caller) -> Path:
        found = await asyncio.to_thread(find_file, self._house.settings, caller.path["name"])
        return found.path

    def _looked_at(self, name: str, text: str) -> Found:
        return looked_at(self._house, find_file(self._house.settings, name).path, text)

    async def _taken(self) -> str:
        """Have the house read its files again; give why it does not go by them, as far as it is known."""
        if self._house.look is None:
            return "The files are not watched here: it holds from the next start."
        return await self._house.look()

    def _entry(self, found: Found) -> PersonaEntry:
        house, name = self._house, name_of(found)
        own = found.path.parent == house.settings.persona.folder
        return PersonaEntry(name, own, self._live(found), name == house.cast.default, form_of(found))

    def _live(self, found: Found) -> bool:
        there = self._house.cast.personas.get(found.path.stem)
        return isinstance(found, LoadedPersona) and there == found.persona

    def _read(self, name: str, why: str = "") -> PersonaFile:
        house = self._house
        found = find_file(house.settings, name)
        read, unreadable = None, ""
        try:
            read = read_text(found.path)
        except RouteError as error:
            if error.status == 404:
                raise
            unreadable = error.detail
        live = self._live(found)
        return PersonaFile(
            name,
            shown(found.path),
            read.text if isinstance(read, PersonaText) else "",
            read.digest if isinstance(read, PersonaText) else "",
            why_read_only(house.settings, found.path),
            unreadable,
            live,
            "" if live else self._why_not(found, why),
        )

    def _why_not(self, found: Found, why: str) -> str:
        """Say why the house does not answer as a file says."""
        if not isinstance(found, LoadedPersona):
            return "\n".join(found.faults)
        its = [fault for fault in self._house.cast.faults if shown(found.path) in fault]
        return "\n".join(its) or why or "The house has not read it yet."
