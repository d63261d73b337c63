"""The screen of personas: their files, what a model is told by them, and talks with texts not saved yet."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from pixi.app.checking import PersonaForm, missing_in, persona_form, with_missing
from pixi.app.service import BotService
from pixi.app.studio.draft_talk import DraftTalks
from pixi.app.studio.persona_files import (
    Commit,
    commits_of,
    create_file,
    diff_of,
    find_file,
    name_of,
    personas_in,
    read_text,
    save_text,
    why_read_only,
)
from pixi.app.studio.rows import operator_route
from pixi.channels.http.feed import HttpChannel
from pixi.core.llm import estimate_text, estimate_tools
from pixi.core.persona import Persona
from pixi.core.prompt import fill, prefix
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.core.untrusted import display_path, prompt_name
from pixi.engine.capabilities import Capabilities, capabilities_of, missing_names
from pixi.engine.context import prompt_template
from pixi.personas.files import LARGEST, BrokenPersona, Found, LoadedPersona

_LONGEST = 100_000  # characters of a section that are shown


class PersonaFault(Struct):
    """Something that is wrong, or hardly meant. `line` counts from 1; None: it belongs to none.

    Attributes:
        stops: the file is no persona before this is mended.
    """

    line: int | None
    text: str
    stops: bool


class PromptSection(Struct):
    """A part of the prompt. `title`: its heading there, "" for the persona's own words."""

    title: str
    text: str
    tokens: int


class OfferedTool(Struct):
    """A tool that the model is told of."""

    name: str
    tokens: int


class Prompt(Struct):
    """The prompt of a persona before the talk.

    Attributes:
        sections: its parts, in order.
        tools: which it is offered; of many, some are chosen for each turn.
        tokens: of all of it, estimated.
        context_tokens: how many the model can hold.
        model: that it is written for.
        small: the short prompt for tiny models.
    """

    sections: list[PromptSection]
    tools: list[OfferedTool]
    tokens: int
    context_tokens: int
    model: str
    small: bool


def examined(service: BotService, path: Path, text: str) -> Found:
    """Look at a text as if the file held it, with the faults that `personas --check` would tell of."""
    if len(text.encode("utf-8", "replace")) > LARGEST:
        return BrokenPersona(
            path, (f"{display_path(path)}: this is too large for a persona; keep it under 256 KB.",)
        )
    for each in personas_in(service.settings, {path: text}):
        if each.path == path:
            return with_names(service, each)
    return BrokenPersona(
        path, (f"{display_path(path)}: another persona of an earlier folder has its names.",)
    )


def with_names(service: BotService, found: Found) -> Found:
    """Add what the persona names and what is not there."""
    loaded = found if isinstance(found, LoadedPersona) else found.loaded
    if loaded is None:
        return found
    missing = missing_in(loaded, service.engine.commands, service.engine.tools, service.library)
    return with_missing(found, missing, service.settings)


def problems_of(found: Found) -> list[PersonaFault]:
    """List what is wrong with a file, by line."""
    if isinstance(found, LoadedPersona):
        return [PersonaFault(remark.line, remark.text, stops=False) for remark in found.remarks]
    start = re.escape(display_path(found.path))
    problems = []
    for fault in found.faults:
        placed = re.match(rf"{start}:(?:(\d+):)? ?(.*)", fault, re.DOTALL)
        line = int(placed[1]) if placed and placed[1] else None
        problems.append(PersonaFault(line, placed[2] if placed else fault, stops=True))
    return sorted(problems, key=lambda problem: problem.line or 0)


def prompt_of(service: BotService, persona: Persona, person: str) -> Prompt:
    """Write the prompt as a talk over HTTP with this person begins. Names that are not there are left out."""
    model = service.model
    known = _with_known_names(service, persona)
    able = capabilities_of(
        known,
        service.engine.commands,
        service.engine.tools,
        small=model.traits.small,
        searches=model.traits.searches,
        abilities=HttpChannel().abilities,
    )
    sections = [*_sections(known, able, person or "somebody", small=model.traits.small)]
    tools = [OfferedTool(each.name, estimate_tools([each])) for each in able.schemas]
    if not model.traits.tools:
        tools = []
    return Prompt(
        sections,
        tools,
        tokens=sum(each.tokens for each in sections) + sum(each.tokens for each in tools),
        context_tokens=model.traits.context_tokens,
        model=model.name,
        small=model.traits.small,
    )


def _with_known_names(service: BotService, persona: Persona) -> Persona:
    missing = missing_names(persona, service.engine.commands, service.engine.tools)
    gone = {(each.key, each.name) for each in missing}

    def there(key: str, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if (key, name) not in gone)

    return replace(
        persona,
        commands=None if persona.commands is None else there("commands", persona.commands),
        tools=there("tools", persona.tools),
        confirm=there("confirm", persona.confirm),
        databases=there("databases", persona.databases),
    )


def _sections(persona: Persona, able: Capabilities, person: str, *, small: bool) -> Iterator[PromptSection]:
    template = prompt_template(small=small)
    system, *turns = prefix(template, persona, able.help, person=person, small=small, unserved=able.unserved)
    if small:
        yield _section("", system.text)
        if turns:
            yield _section("Examples", "\n\n".join(line.text for line in turns))
        return
    text, title = system.text, ""
    # The persona's own words may hold such headings, too: they are looked for behind those words.
    names = {"user": prompt_name(person), "char": persona.name, "persona": persona.name}
    begin, place = 0, len(fill(persona.prompt, names).strip())
    for heading in (line for line in template.split("\n") if line.startswith("## ")):
        found = text.find(f"\n\n{heading}\n", place)
        if found < 0:
            continue  # there is nothing to say below it
        yield _section(title, text[begin:found])
        title = heading.removeprefix("## ")
        begin = place = found + 2 + len(heading)
    yield _section(title, text[begin:])


def _section(title: str, text: str) -> PromptSection:
    text = text.strip()
    return PromptSection(title, text[:_LONGEST], estimate_text(text) if text else 0)


_LIST = "/api/studio/personas"
_ONE = f"{_LIST}/{{name}}"

Text = Annotated[str, Meta(max_length=300_000)]
TalkName = Annotated[str, Meta(min_length=1, max_length=64)]


class PersonaEntry(Struct):
    """A file in the list.

    Attributes:
        id: the file's name without its ending: what stands in paths.
        own: it lies in the operator's own folder.
        live: the service answers as this file says.
        default: it answers where nobody is named.
        persona: as `pixi-persona personas --json` tells of it.
    """

    id: str
    own: bool
    live: bool
    default: bool
    persona: PersonaForm


class PersonaList(Struct):
    """The persona files, in the order in which they are found. `folder`: the operator's own."""

    personas: list[PersonaEntry]
    folder: str


class PersonaFile(Struct):
    """A file.

    Attributes:
        text: with line ends as a line feed; "" where `unreadable` says why there is none.
        digest: of the file's bytes; to be sent back with what is saved.
        read_only: why it cannot be saved here; "" where it can.
        unreadable: why there is no text.
        live: the service answers as this file says.
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
    """The result of reading a text. `prompt` is missing where it is no persona.

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
    """A choice of a talk."""

    talk: TalkName


class CommitList(Struct):
    """The commits that changed a file, the newest first; none where git does not know it."""

    commits: list[Commit]


class CommitDiff(Struct):
    """A commit's change to a file, as a unified diff."""

    diff: str


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes."""
    screen = _PersonaScreen(service)
    service.closing.push_async_callback(screen.talks.close)
    draft = f"{_ONE}/draft"
    return (
        operator_route("GET", _LIST, screen.list, "List files of personas"),
        operator_route("POST", _LIST, screen.create, "Make a persona"),
        operator_route("GET", _ONE, screen.read, "Read a persona's file"),
        operator_route("PUT", _ONE, screen.save, "Save a persona's file"),
        operator_route("POST", draft, screen.examine, "Look at a text"),
        operator_route("POST", f"{draft}/talk", screen.say, "Talk to a text"),
        operator_route("DELETE", f"{draft}/talk", screen.end, "End such a talk"),
        operator_route("GET", f"{_ONE}/history", screen.history, "List its commits"),
        operator_route("GET", f"{_ONE}/history/{{commit}}", screen.diff, "Read a commit"),
    )


class _PersonaScreen:
    """Answers the routes. What reads and writes files does so in threads."""

    def __init__(self, service: BotService) -> None:
        self._service = service
        self._saving = asyncio.Lock()
        self.talks = DraftTalks(service)

    async def list(self, caller: Caller, asked: None) -> PersonaList:
        """Answer with all files."""
        service = self._service

        def entries() -> list[PersonaEntry]:
            return [self._entry(with_names(service, each)) for each in personas_in(service.settings)]

        return PersonaList(await asyncio.to_thread(entries), display_path(service.settings.persona.folder))

    async def read(self, caller: Caller, asked: None) -> PersonaFile:
        """Answer with a file."""
        return await asyncio.to_thread(self._read, caller.path["name"])

    async def create(self, caller: Caller, asked: NewRequest) -> PersonaFile:
        """Make a file, and answer with it."""
        async with self._saving:
            await asyncio.to_thread(create_file, self._service.settings, asked.id, asked.like)
            why = await self._taken()
        return await asyncio.to_thread(self._read, asked.id, why)

    async def save(self, caller: Caller, asked: SaveRequest) -> PersonaFile:
        """Save a file and have the bot read it; answer with it as it lies there, and whether it is live."""
        name = caller.path["name"]
        async with self._saving:
            await asyncio.to_thread(save_text, self._service.settings, name, asked.text, asked.digest)
            why = await self._taken()
        return await asyncio.to_thread(self._read, name, why)

    async def examine(self, caller: Caller, asked: TryRequest) -> Examined:
        """Answer with what a text comes to."""
        found = await asyncio.to_thread(self._examined, caller.path["name"], asked.text)
        loaded = found if isinstance(found, LoadedPersona) else found.loaded
        prompt = None if loaded is None else prompt_of(self._service, loaded.persona, caller.name)
        return Examined(problems_of(found), persona_form(found), prompt)

    async def say(self, caller: Caller, asked: PersonaSayRequest) -> AsyncGenerator[dict[str, Any], None]:
        """Say something to a text, and yield what it does."""
        found = await asyncio.to_thread(self._examined, caller.path["name"], asked.text)
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
        found = await asyncio.to_thread(find_file, self._service.settings, caller.path["name"])
        return found.path

    def _examined(self, name: str, text: str) -> Found:
        return examined(self._service, find_file(self._service.settings, name).path, text)

    async def _taken(self) -> str:
        """Have the service read its files again; give why it does not go by them, as far as it is known."""
        if self._service.reload is None:
            return "The files are not watched here: it holds from the next start."
        return await self._service.reload()

    def _entry(self, found: Found) -> PersonaEntry:
        service, name = self._service, name_of(found)
        own = found.path.parent == service.settings.persona.folder
        return PersonaEntry(
            name, own, self._live(found), name == service.persona_set.default, persona_form(found)
        )

    def _live(self, found: Found) -> bool:
        there = self._service.persona_set.personas.get(found.path.stem)
        return isinstance(found, LoadedPersona) and there == found.persona

    def _read(self, name: str, why: str = "") -> PersonaFile:
        service = self._service
        found = find_file(service.settings, name)
        text, digest, unreadable = "", "", ""
        try:
            read = read_text(found.path)
            text, digest = read.text, read.digest
        except RouteError as error:
            if error.status == 404:
                raise
            unreadable = error.detail
        live = self._live(found)
        return PersonaFile(
            id=name,
            file=display_path(found.path),
            text=text,
            digest=digest,
            read_only=why_read_only(service.settings, found.path),
            unreadable=unreadable,
            live=live,
            why="" if live else self._why_not(found, why),
        )

    def _why_not(self, found: Found, why: str) -> str:
        """Say why the service does not answer as a file says."""
        if not isinstance(found, LoadedPersona):
            return "\n".join(found.faults)
        its = [fault for fault in self._service.persona_set.faults if display_path(found.path) in fault]
        return "\n".join(its) or why or "The program has not read it yet."
