"""The stage of `pixi-persona demo`: plays the script through the engine, and keeps what there is to see.

The words are a script, so that the demo needs no model, no network and no settings. All else is what
answers in a talk: the parser, the engine, a database of the shipped documents, the memory of a store. The
left half shows the stream as the script writes it. A command lights up when the engine reports its act, and
only then.

Time is the time of the event loop, so a test can hold it.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pixi.core.events import Noted, Reacted, Sent, ToolAnswered, ToolCalled, TurnEvent
from pixi.core.llm import Delta, Request, Text
from pixi.testing import RecordingChannel, ScriptedModel

if TYPE_CHECKING:
    from pixi.engine.engine import Engine
    from pixi.knowledge.database import DirectoryDatabase

TOKEN_SECONDS = 1 / 40
"""A token is four characters here, as text has on average."""

_DATABASE = "pancakes"
_TYPING_SECONDS = 0.8  # until a person's message stands there

_FIRST_TOLD = "A model writes text with commands in brackets. Each one acts as soon as its bracket closes."

_COMMAND = re.compile(r"\[(?P<name>[A-Z]+): [^\]]*\]?|<tool-call(?:[^/]|/(?!tool-call>))*(?:/tool-call>)?")


class Scene(NamedTuple):
    """A scene: a person's message, the replies of the model round by round, and what there is to see.

    `seconds` is how long the scene takes, with the time to read it.
    """

    said: str
    rounds: tuple[str, ...]
    told: str
    seconds: float


SCENES = (
    Scene(
        "blueberry pancakes, first try!!",
        (
            "[NOTE: first try, and they rose!! no advice now, just joy]\n[REACT: 🥞]\n[SEND: omg]\n"
            "[SEND: look at those edges]\n[SEND: save me one??]",
        ),
        "A private thought first, then a reaction, then three short messages, all in one reply.",
        6.5,
    ),
    Scene(
        "@Sam are you bringing the speakers tonight?",
        ("[NOTE: that one is for Sam. i stay out of it]",),
        "A thought, and no message: staying silent is an answer too.",
        4.5,
    ),
    Scene(
        "how thin should crêpe batter be?",
        (
            "[SEND: one sec, my notebook]\n"
            '<tool-call tool="query_pancakes_database">'
            '{"query": "How much milk is in a crêpe batter?"}</tool-call>',
            "[NOTE: found it, in my own words then]\n[SEND: like cream! twice as much milk as flour]\n"
            "[SEND: and an egg for every 60 g of flour]",
        ),
        "It says it will look, reads a folder of documents, and answers. Quotes are word for word.",
        8.0,
    ),
    Scene(
        "i can't have milk though",
        (
            "[NOTE: that changes every recipe. keep it]\n"
            '<tool-call tool="remember">{"fact": "cannot have milk"}</tool-call>',
            "[REACT: 💛]\n[SEND: oat milk it is. i'll remember]",
        ),
        "It remembers people, keeps private what is private, and forgets when asked.",
        6.0,
    ),
)


@dataclass
class DemoState:
    """The visible state of the demo.

    Attributes:
        stream: what the model wrote in this scene.
        acted: when each command of the stream was carried out, in order, in seconds of the loop's clock.
        chat: the rows of the chat, each a kind (`person`, `persona`, `tool`) and its text.
        told: what the scene shows, in a line.
        writing: the model is writing.
        typing: a person is.
        began: when the first scene began, in seconds of the loop's clock; None: it has not.
    """

    stream: str = ""
    acted: list[float] = field(default_factory=list)
    chat: list[tuple[str, str]] = field(default_factory=list)
    told: str = _FIRST_TOLD
    writing: bool = False
    typing: bool = False
    began: float | None = None

    def commands(self) -> Iterator[re.Match[str]]:
        """Yield the commands of the stream, the last one perhaps unfinished."""
        return _COMMAND.finditer(self.stream)

    def take(self, event: TurnEvent, now: float) -> None:
        """Show an act of the engine."""
        match event:
            case Noted():
                self.acted.append(now)
            case Sent(text):
                self.acted.append(now)
                self.chat.append(("persona", text))
            case Reacted(emoji):
                self.acted.append(now)
                at = max(place for place, (kind, _) in enumerate(self.chat) if kind == "person")
                self.chat[at] = ("person", f"{self.chat[at][1]}  {emoji}")
            case ToolCalled(_, name, arguments):
                self.acted.append(now)
                looks = f"looks up “{arguments.get('query')}” in pancakes"
                remembers = f"remembers: Mo {arguments.get('fact')}"
                self.chat.append(("tool", remembers if name == "remember" else looks))
            case ToolAnswered(_, "query_pancakes_database", True, result):
                for fact in json.loads(result)["relevant"][:1]:
                    title, line = fact["source"]["title"], fact["source"]["line"]
                    sentence = " ".join(fact["fact"].split()).partition(". ")[0].rstrip(".")
                    self.chat.append(("tool", f"“{sentence}.” ({title}, line {line})"))
            case _:
                pass


class _Chat(RecordingChannel):
    """A channel that shows the stage what happens in it."""

    def __init__(self, stage: DemoState, happened: Callable[[], None]) -> None:
        super().__init__("demo:chat")
        self._stage = stage
        self._happened = happened

    def show(self, event: TurnEvent) -> None:
        super().show(event)
        self._stage.take(event, asyncio.get_running_loop().time())
        self._happened()


class _Script(ScriptedModel):
    """A model with a script that shows the stage each piece as it writes it."""

    def __init__(self, stage: DemoState) -> None:
        super().__init__()
        self._stage = stage

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        async with aclosing(super().stream(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Text):
                    self._stage.stream += delta.text
                yield delta


@asynccontextmanager
async def open_pancakes() -> AsyncGenerator["DirectoryDatabase", None]:
    """Open the shipped database of pancakes, read whole; nothing of it is kept afterwards."""
    await asyncio.to_thread(import_module, "pixi.knowledge.database")  # beside the first frames
    from pixi.knowledge.database import DirectoryDatabase
    from pixi.knowledge.registry import shipped_folder

    with TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        folder = shipped_folder() / _DATABASE
        database = await DirectoryDatabase.open(folder, name=_DATABASE, cache=Path(cache))
        try:
            await database.ready()  # a second or so; then no scene waits for it
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def _engine(script: ScriptedModel, database: "DirectoryDatabase") -> AsyncGenerator["Engine", None]:
    """Open an engine with the shipped Pixi, a database, and a store in memory."""
    for part in ("pixi.engine.engine", "pixi.addons.knowledge", "pixi.addons.memory", "pixi.store.sqlite"):
        await asyncio.to_thread(import_module, part)
    from pixi.addons import memory
    from pixi.addons.knowledge import knowledge_of
    from pixi.engine.engine import Engine
    from pixi.knowledge.retrieval import RetrievalAgent
    from pixi.personas.files import load_persona, shipped_folder
    from pixi.store.opening import open_store

    persona = load_persona(shipped_folder() / "pixi.md").persona
    persona = replace(persona, databases=(database.name,), pace="off")
    store = await open_store("sqlite://")
    addons = knowledge_of(database, RetrievalAgent(None), database.name), memory.setup_with(store)
    try:
        async with Engine(model=script, persona=persona, store=store, addons=addons) as engine:
            yield engine
    finally:
        await store.close()


async def play(
    stage: DemoState, database: "DirectoryDatabase", happened: Callable[[], None], *, timed: bool = True
) -> None:
    """Let the scenes happen on the stage, one after the other.

    Args:
        stage: is changed.
        database: the one that the script looks into, see `open_pancakes`.
        happened: called after a person's message, and after each act of the engine.
        timed: False: nothing is waited for.
    """
    clock = asyncio.get_running_loop().time
    script, channel = _Script(stage), _Chat(stage, happened)
    async with _engine(script, database) as engine:
        for scene in SCENES:
            began = clock()
            stage.began = stage.began or began
            stage.stream, stage.acted, stage.told = "", [], scene.told
            stage.typing = True
            await asyncio.sleep(_TYPING_SECONDS * timed)
            stage.typing = False
            stage.chat.append(("person", scene.said))
            happened()
            await asyncio.sleep(TOKEN_SECONDS * 8 * timed)
            script.add(*(list(_tokens(text, timed=timed)) for text in scene.rounds))
            stage.writing = True
            await engine.receive(channel.message(scene.said), channel)
            await engine.settled()
            stage.writing = False
            await asyncio.sleep(max(0.0, began + scene.seconds - clock()) * timed)


def _tokens(text: str, *, timed: bool) -> Iterator[str | float]:
    for start in range(0, len(text), 4):
        yield text[start : start + 4]
        if timed:
            yield TOKEN_SECONDS
    if timed:
        yield TOKEN_SECONDS * 10
