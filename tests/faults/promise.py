"""The promise, checked as a whole: whatever goes wrong ends in a reply or in one clear notice.

A whole engine stands here on a real store file, and asks a real server over sockets. A fault is played;
then it is seen to that

- people got the reply, or one word in character, and the operator one notice;
- the model was asked no more often than is right, and never more than three times for one thing;
- nothing is left half-done: no task, thread, connection, file, lock, open turn or act of unknown outcome;
- the next message is answered as ever, and the history tells what people saw.
"""

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pixi.core.events import Failed
from pixi.core.llm import AssistantLine
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.engine import Engine
from pixi.engine.context import Role
from pixi.models.deadlines import Deadlines
from pixi.models.faults import Retries
from pixi.models.server_model import ServerModel
from pixi.store.opening import open_store
from pixi.store.store import Store
from pixi.testing import RecordingChannel
from pixi.toolbox.addon import Addon
from tests.faults.ground import Ground
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream, usage
from tests.waiting import within

SORRY = "brb, ink spilled"
FINE = "all fine again"
MOST_ATTEMPTS = 3
QUICK = Deadlines(first=0.4, gap=0.4, turn=1.5)


@dataclass(slots=True)
class Scene:
    """An engine in trouble.

    Attributes:
        path: of the store.
        mended: the server is well again.
        model: whom the engine asks; another one may take its place.
    """

    path: Path
    store: Store
    engine: Engine
    server: ScriptedOpenAI
    channel: RecordingChannel
    model: ServerModel
    mended: bool = False
    models: list[ServerModel] = field(default_factory=list)

    async def ask(self, text: str) -> None:
        """Somebody writes, and waits until nothing is left to be answered."""
        await self.engine.receive(self.channel.message(text), self.channel)
        async with within("rest"):
            await self.engine.settled()

    @property
    def notices(self) -> list[str]:
        """What the operator, or who sits at the terminal, was told went wrong."""
        return [event.text for event in self.channel.events if isinstance(event, Failed)]

    def heals(self) -> None:
        """The server is well again, and found again if it was not."""
        self.mended = True
        self.use(self.server.base_url)

    def use(self, base_url: str, *, deadlines: Deadlines = QUICK) -> None:
        """Ask at this address from now on."""
        self.model = _model(base_url, deadlines)
        self.models.append(self.model)

    async def lives_on(self, *said: str, rest: Sequence[str] = ()) -> None:
        """The next message is answered as ever; the model is told what people saw of the last reply.

        Of its `rest`, what had closed comes before the answer.
        """
        before, notices, asked = list(self.channel.sent), len(self.notices), len(self.server.requests)
        self.heals()
        await self.ask("are you well?")
        assert self.channel.sent in [[*before, *rest[:number], FINE] for number in range(len(rest) + 1)]
        assert len(self.notices) == notices
        assert len(self.server.requests) == asked + 1
        lines = self.server.requests[-1].json()["messages"]
        assert "are you well?" in str(lines[-1])
        told = [line["content"] for line in lines if line["role"] == "assistant"]
        assert all(any(text in str(each) for each in told) for text in said), told

    async def is_at_rest(self) -> None:
        """No turn is open, and of each act it is known what became of it."""
        saved = await self.store.load(self.channel.conversation)
        assert saved.unfinished == ()
        assert not any(message.addressed for message in saved.waiting)
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            (open_acts,) = db.execute("SELECT count(*) FROM effects WHERE outcome IS NULL").fetchone()
            (open_turns,) = db.execute("SELECT count(*) FROM turns WHERE finish IS NULL").fetchone()
        assert (open_acts, open_turns) == (0, 0)

    async def said_before(self) -> list[str]:
        """What the history says that the persona said."""
        saved = await self.store.load(self.channel.conversation)
        return [line.text for line in saved.lines if isinstance(line, AssistantLine)]


def well(_: Seen) -> Reply:
    """The reply of a server that is well."""
    return stream(f"[SEND: {FINE}]", finish(), usage(50, 8))


def in_turn(*replies: Reply) -> Callable[[Seen], Reply]:
    """These, one after the other; the last one again and again."""
    left = list(replies)
    return lambda _: left[0] if len(left) == 1 else left.pop(0)


@asynccontextmanager
async def trouble(
    folder: Path,
    reply: Callable[[Seen], Reply],
    *,
    base_url: str = "",
    addons: Sequence[Callable[[Addon], object]] = (),
    tools: tuple[str, ...] = (),
    limits: Limits | None = None,
    deadlines: Deadlines = QUICK,
    channel: RecordingChannel | None = None,
    sorry: tuple[str, ...] = (SORRY,),
    clock: Callable[[], datetime] = lambda: datetime(2026, 1, 1, 12, tzinfo=UTC),  # as the messages are sent
) -> AsyncGenerator[Scene, None]:
    """An engine whose server answers like this until it is mended; at the end nothing may be left of it.

    Args:
        folder: for the store.
        reply: what the server answers while it is unwell.
        base_url: where the model is looked for at first; empty: where it is.
        tools: those that the persona uses.
        sorry: what it says when its model fails.
    """
    persona = Persona("Pixi", "You are Pixi.", when_broken=sorry, tools=tools)
    async with ScriptedOpenAI(choose=lambda seen: well(seen) if scene.mended else reply(seen)) as server:
        ground = Ground.now()
        path = folder / "pixi.db"
        store = await open_store(f"sqlite:///{path}")
        model = _model(base_url or server.base_url, deadlines)
        engine = Engine(
            model=model,
            persona=persona,
            store=store,
            limits=limits,
            addons=addons,
            clock=clock,
            resolver=lambda _: Role(persona, scene.model),
        )
        place = channel or RecordingChannel()
        scene = Scene(path, store, engine, server, place, model, models=[model])
        try:
            async with engine:
                yield scene
                await scene.is_at_rest()
                left = [task for task in asyncio.all_tasks() - ground.tasks if not _is_servers(task)]
                assert not left, f"tasks that nobody ended: {left}"
        finally:
            for each in scene.models:
                await each.close()
            await store.close()
        await nobody_holds(server.requests)
        await ground.is_left_as_it_was()
        _nobody_locks(path)


async def nobody_holds(requests: Sequence[Seen]) -> None:
    """Wait until each connection was given back."""
    async with within("the end of each connection"):
        for request in requests:
            await request.gone.wait()


async def the_promise_is_kept(
    scene: Scene,
    *,
    said: Sequence[str],
    notice: str = "",
    asked: int,
    remembered: Sequence[str] = (),
    goes_on: bool = False,
) -> None:
    """Ask, and see that it ended as it should; then see that the talk goes on.

    Args:
        said: all that people see.
        notice: what the one notice says, as a pattern; empty: there is none.
        asked: how many requests the server got.
        remembered: what the model is later told that was said.
        goes_on: the reply is whole but for what the notice tells.
    """
    await scene.ask("hello")
    assert scene.channel.sent == list(said)
    assert len(scene.server.requests) == asked
    _no_more_attempts_than_promised(scene.server.requests)
    if notice:
        (told,) = scene.notices
        assert re.search(notice, told), told
        assert "\n" not in told
        assert "Traceback" not in told
    else:
        assert scene.notices == []
    (ended,) = scene.channel.ended
    assert (ended.finish == "error") == (bool(notice) and not goes_on)
    await scene.is_at_rest()
    await scene.lives_on(*remembered)


def _no_more_attempts_than_promised(requests: Sequence[Seen]) -> None:
    same = Counter(request.body for request in requests)
    assert max(same.values(), default=0) <= MOST_ATTEMPTS


def _is_servers(task: asyncio.Task[object]) -> bool:
    """Whether it is the far end of a connection that is kept for the next request."""
    return str(getattr(task.get_coro(), "__qualname__", "")).startswith(ScriptedOpenAI.__name__)


def _model(base_url: str, deadlines: Deadlines) -> ServerModel:
    retries = Retries(attempts=MOST_ATTEMPTS, base=0.001)
    return ServerModel("scripted", base_url=base_url, deadlines=deadlines, retries=retries)


def _nobody_locks(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        db.execute("ROLLBACK")
