"""The tools of a server's history: what an archive is asked through them, and what a model is told."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pixi.addons import server_history
from pixi.core.channel import ArchivedMessage, ArchiveQuery, Asker, ForumPost, FoundMessages, FoundPosts, Way
from pixi.core.errors import ChannelError
from pixi.core.llm import ToolCall, ToolLine
from pixi.core.message import Abilities, Author
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import Scene, scene

PIXI = Persona("Pixi", "You are Pixi.")
MO, ANA = Author("11", "Mo"), Author("12", "Ana")
NOON = 1_772_366_400.0  # the first of March 2026, UTC
SAID = ArchivedMessage("Ana", "#kitchen", NOON, "190 °C", "https://discord.com/channels/1/2/3")
POST = ForumPost(
    title="It sticks",
    place="#questions",
    at=NOON,
    link="https://discord.com/channels/1/4",
    tags=("solved",),
    solved=True,
    answers=2,
    first=SAID,
    best=(SAID,),
)


@dataclass
class Notebook:
    """A `pixi.core.channel.Archive` that writes down what it is asked."""

    found: FoundMessages = field(default_factory=lambda: FoundMessages((SAID,)))
    refuses: str = ""
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def search(self, query: ArchiveQuery, asking: Asker) -> FoundMessages:
        return self._answer(query, asking)

    async def pins(self, place: str, asking: Asker, *, limit: int) -> FoundMessages:
        return self._answer(place, asking, limit)

    async def posts(self, query: ArchiveQuery, asking: Asker) -> FoundPosts:
        found = self._answer(query, asking)
        return FoundPosts((POST,) if found.messages else (), found.partial)

    async def read(self, where: str, asking: Asker, *, way: Way, limit: int) -> FoundMessages:
        return self._answer(where, asking, way, limit)

    def _answer(self, *asked: Any) -> FoundMessages:
        self.asked.append(asked)
        if self.refuses:
            raise ChannelError(self.refuses)
        return self.found


@asynccontextmanager
async def desk(notebook: Notebook | None) -> AsyncIterator[Scene]:
    """A persona that is talked to where there is an archive, or none."""
    model = ScriptedModel(traits=Traits(context_tokens=100_000))
    channel = RecordingChannel(abilities=Abilities(archive=notebook is not None), archive=notebook)
    async with scene(model, persona=PIXI, channel=channel, addons=[server_history.setup]) as here:
        yield here


async def called(here: Scene, tool: str, *people: Author, **arguments: object) -> str:
    """What the model is answered when it calls a tool."""
    here.model.add([ToolCall("c1", tool, json.dumps(arguments))], "[SEND: ok]")
    here.engine.settings.gather_seconds = 0.05 if len(people) > 1 else 0.0
    for person in people or (MO,):
        await here.say("please", author=person)
    await here.engine.settled()
    last = here.model.requests[-1].lines[-1]
    assert isinstance(last, ToolLine)
    return last.text


TOLD = {
    "author": "Ana",
    "where": "#kitchen",
    "when": "2026-03-01 12:00 UTC",
    "text": "190 °C",
    "link": "https://discord.com/channels/1/2/3",
}


async def test_a_search_is_asked_for_as_the_model_says_it_and_told_with_links() -> None:
    notebook = Notebook()
    async with desk(notebook) as here:
        told = await called(
            here,
            "search_messages",
            words=" heat ",
            channel="kitchen",
            author="Ana",
            after="2026-03-01",
            before="2026-03-02T10:00+02:00",
            limit=3,
        )
    ((query, asking),) = notebook.asked
    assert query == ArchiveQuery("heat", "kitchen", "Ana", NOON + 20 * 3_600, NOON - 12 * 3_600, 3)
    assert asking.people == ("11",)
    assert json.loads(told) == {"messages": [TOLD]}


async def test_all_who_are_answered_in_a_turn_ask_together() -> None:
    notebook = Notebook()
    async with desk(notebook) as here:
        await called(here, "read_pins", MO, ANA)
    ((place, asking, limit),) = notebook.asked
    assert (place, asking.people, limit) == ("", ("11", "12"), 10)


async def test_messages_are_read_round_one() -> None:
    notebook = Notebook()
    async with desk(notebook) as here:
        told = await called(here, "read_messages", where=SAID.link, way="before", limit=2)
    ((where, _, way, limit),) = notebook.asked
    assert (where, way, limit) == (SAID.link, "before", 2)
    assert json.loads(told) == {"messages": [TOLD]}


async def test_posts_are_told_with_their_answers() -> None:
    async with desk(Notebook()) as here:
        told = json.loads(await called(here, "search_forum", words="sticks"))
    answer = {"author": "Ana", "text": "190 °C", "link": SAID.link}
    assert told == {
        "posts": [
            {
                "title": "It sticks",
                "forum": "#questions",
                "when": "2026-03-01 12:00 UTC",
                "tags": ["solved"],
                "solved": True,
                "answers": 2,
                "link": "https://discord.com/channels/1/4",
                "first_message": answer,
                "best_answers": [answer],
            }
        ]
    }


@pytest.mark.parametrize("tool", ["search_messages", "search_forum", "read_pins", "read_messages"])
async def test_where_nothing_is_found_or_not_everything_was_looked_at_that_is_told(tool: str) -> None:
    needed = (
        {"where": "kitchen"} if tool == "read_messages" else {} if tool == "read_pins" else {"words": "a"}
    )
    notebook = Notebook(FoundMessages((), "Not everything could be looked through."))
    async with desk(notebook) as here:
        note = json.loads(await called(here, tool, **needed))["note"]
        assert note.endswith("Not everything could be looked through.")
        assert note != "Not everything could be looked through."
        notebook.found = FoundMessages((SAID,), "Not everything could be looked through.")
        assert (
            json.loads(await called(here, tool, **needed))["note"]
            == "Not everything could be looked through."
        )
        notebook.refuses = "There is no such channel."
        assert "There is no such channel." in await called(here, tool, **needed)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "Give words to look for, or an author."),
        ({"words": "  "}, "Give words to look for, or an author."),
        ({"words": "a", "before": "yesterday"}, "'yesterday' is no day: write it as 2026-03-31."),
        ({"words": "a", "after": "9" * 99}, "is no day: write it as 2026-03-31."),
        ({"words": "a", "limit": 500}, "limit"),
    ],
)
async def test_what_cannot_be_looked_for_is_said_so(arguments: dict[str, object], told: str) -> None:
    notebook = Notebook()
    async with desk(notebook) as here:
        assert told in await called(here, "search_messages", **arguments)
    assert notebook.asked == []


async def test_what_was_looked_up_is_not_told_any_more_where_somebody_was_forgotten(tmp_path: Path) -> None:
    """It may tell of anybody, by whatever name: where who is forgotten was overheard, it goes."""
    store = await SqliteStore.open(tmp_path / "pixi.db")
    model = ScriptedModel(traits=Traits(context_tokens=100_000))
    channel = RecordingChannel(abilities=Abilities(archive=True), archive=Notebook())
    async with scene(
        model, persona=PIXI, channel=channel, addons=[server_history.setup], store=store
    ) as here:
        await here.say("by the way", author=Author("13", "Zed"), addressed=False)
        await called(here, "search_messages", words="heat")
        assert "190" in here.model.requests[-1].lines[-1].text
        await here.engine.settled()
        await here.engine.forget("13")
        here.model.add("[SEND: ok]")
        await here.talk("and now?")
        told = "\n".join(line.text for line in here.history())
        assert "190 °C" not in told
        assert "please" in told, "what Mo said stays"
    await store.close()


async def test_they_are_offered_only_where_there_is_an_archive() -> None:
    async with desk(Notebook()) as here:
        here.model.add("[SEND: ok]")
        await here.talk("hi")
        offered = {tool.name: tool for tool in here.model.requests[-1].tools}
        assert set(offered) == {"search_messages", "search_forum", "read_pins", "read_messages"}
        assert all(tool.description for tool in offered.values())
    async with desk(None) as here:
        here.model.add("[SEND: ok]")
        await here.talk("hi")
        assert here.model.requests[-1].tools == ()
