"""People in a DM, in channels and in guilds, and a persona whose model calls the tools of memory."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pixi.addons import memory
from pixi.core.channel import Question
from pixi.core.events import Verdict
from pixi.core.llm import ToolCall, ToolLine, UserLine
from pixi.core.message import Author, Rights, Venue
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.store.store import Store
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import Scene, scene

PIXI = Persona("Pixi", "You are Pixi.", tools=("remember", "recall", "forget"))
MO, ANN, BOSS, ROOT = Author("11", "Mo"), Author("12", "ann"), Author("13", "boss"), Author("14", "root")

VENUES = {
    "dm": Venue(),
    "group": Venue("", "some"),
    "general": Venue("g", "all"),
    "games": Venue("g", "all"),
    "mods": Venue("g", "some"),
    "secret": Venue("g", "some"),
    "lobby": Venue("h", "all"),
}
POWERS = {BOSS.id: Rights(manager=True), ROOT.id: Rights(manager=True, operator=True)}


class Place(RecordingChannel):
    """Where everybody who is asked says the same."""

    verdict: Verdict = "yes"

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Remember the question; gives the verdict."""
        self.questions.append(question)
        return self.verdict


@dataclass
class Talks:
    """An engine, and the places where people talk with it."""

    here: Scene
    store: Store
    places: dict[str, Place] = field(default_factory=dict)

    def place(self, name: str, who: Author) -> Place:
        """A channel; the DM of each person is one of its own."""
        key = f"{name}:{who.id}" if name == "dm" else name
        if key not in self.places:
            self.places[key] = Place(f"test:{key}", venue=VENUES[name])
            if VENUES[name].guild:
                self.places[key].powers = dict(POWERS)
        return self.places[key]

    async def say(self, who: Author, where: str, text: str = "hello") -> str:
        """Somebody writes and is answered; gives the new user line that the model was shown."""
        self.here.model.add("[SEND: ok]")
        await self._say(who, where, text)
        return self.user_line()

    async def call(self, who: Author, where: str, tool: str, **arguments: object) -> str:
        """Somebody writes, the model calls a tool; gives what it was answered."""
        self.here.model.add([ToolCall("c1", tool, json.dumps(arguments))], "[SEND: ok]")
        await self._say(who, where, "please")
        last = self.here.model.requests[-1].lines[-1]
        assert isinstance(last, ToolLine), last
        return last.text

    async def together(self, whos: list[Author], where: str, tool: str, **arguments: object) -> str:
        """Several write at once and are answered in one turn, in which the model calls a tool."""
        self.here.model.add([ToolCall("c1", tool, json.dumps(arguments))], "[SEND: ok]")
        self.here.engine.settings.gather_seconds = 0.05
        for who in whos:
            channel = self.place(where, who)
            await self.here.engine.receive(channel.message("please", author=who, group=True), channel)
        await self.here.engine.settled()
        self.here.engine.settings.gather_seconds = 0.0
        last = self.here.model.requests[-1].lines[-1]
        assert isinstance(last, ToolLine), last
        return last.text

    def user_line(self) -> str:
        """The last one that the model was shown."""
        lines = self.here.model.requests[-1].lines
        return next(line.text for line in reversed(lines) if isinstance(line, UserLine))

    def shown_in(self, *, since: int = 0) -> str:
        """All that the model was shown from a request on."""
        return "\n".join(line.text for one in self.here.model.requests[since:] for line in one.lines)

    async def _say(self, who: Author, where: str, text: str) -> None:
        channel = self.place(where, who)
        group = VENUES[where].audience != "one"
        await self.here.engine.receive(channel.message(text, author=who, group=group), channel)
        await self.here.engine.settled()


@asynccontextmanager
async def talks(
    *, persona: Persona = PIXI, traits: Traits | None = None, store: Store | None = None
) -> AsyncIterator[Talks]:
    """Talk with a persona that remembers."""
    kept = store or await SqliteStore.open(":memory:")
    model = ScriptedModel(traits=traits or Traits(context_tokens=100_000))
    try:
        async with scene(model, persona=persona, store=kept, addons=[memory.setup_with(kept)]) as here:
            yield Talks(here, kept)
    finally:
        await kept.close()
