"""The way of one message from Discord to the act and back, counted in hops: changes from file to file.

A whole bot runs in this process, against a loopback Discord and a scripted model. `sys.setprofile` shows
each call. Where one reaches a station (the store, the model's server, Discord), the files of Pixi on the call
stack are the way there, from the frame that discord.py called first. A task goes on where it was created, so
its way begins with the way of its creator; and so does what the network calls in the context of a task.
"""

import asyncio
import contextvars
import sys
import tempfile
from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pixi
from benchmarks.report import Figure, progress
from tests.end_to_end.bot import scene
from tests.servers.scripted_openai import Reply, Until, finish, head, stream

GOAL_FROM_WORDS = 12
_HOSTED = f"{Path(pixi.__file__).parent}/"

RECORDED = "the message is on record"
BEGUN = "the turn is on record"
ASKED = "the model is asked"
INTENDED = "what is to be posted is on record"
POSTED = "it is posted to Discord"
SETTLED = "that it was posted is on record"
ENDED = "the turn is closed on record"
STATIONS = (RECORDED, BEGUN, ASKED, INTENDED, POSTED, SETTLED, ENDED)
_IN_THE_STORE = {  # by the method that is called
    "receive": RECORDED,
    "begin_turn": BEGUN,
    "intend": INTENDED,
    "settle": SETTLED,
    "end_turn": ENDED,
}

_T = TypeVar("_T")

Way = tuple[str, ...]
"""Files below the package, in order; each is another than the one before."""

_SOCKET = "models/connections.py"
_begun: contextvars.ContextVar[Way] = contextvars.ContextVar("begun", default=())


@dataclass(slots=True)
class Watch:
    """Notes the way to each station, when it is reached first.

    Attributes:
        ways: by station, in the order in which they were reached.
        listens: set when somebody waits for the model's words.
    """

    ways: dict[str, Way] = field(default_factory=dict)
    listens: asyncio.Event = field(default_factory=asyncio.Event)
    _start: Way | None = None  # the way to the frame that takes the message from the gateway

    def create(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        /,
        **options: Any,
    ) -> asyncio.Task[_T]:
        """Make a task, and remember where it was created: a task factory."""
        context = options.pop("context", None) or contextvars.copy_context()
        context.run(_begun.set, self._way(sys._getframe(1)))
        return asyncio.Task(work, loop=loop, context=context, **options)

    def profile(self, frame: FrameType, event: str, arg: object) -> None:
        """Look at each call: what `sys.setprofile` is given."""
        if event == "call" and (station := self._station(frame)) and station not in self.ways:
            way = self._way(frame)
            self.ways[station] = way[shared(way, self._start or ()) :]

    def _station(self, frame: FrameType) -> str:
        """Say which station is reached by a call; "" for none."""
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name == "parse_message_create" and file.endswith("discord/state.py"):
            self._start = self._start or self._way(frame)
            return ""
        if self._start is None:
            return ""
        if name == "read" and file == f"{_HOSTED}models/reply.py":
            self.listens.set()
        if file.startswith(f"{_HOSTED}store/"):
            return _IN_THE_STORE.get(name, "")
        if name == "_request" and file.endswith("aiohttp/client.py"):
            method, url = frame.f_locals["method"], str(frame.f_locals["str_or_url"])
            if method == "POST" and url.endswith("/chat/completions"):
                return ASKED
            if method == "POST" and url.endswith("/messages"):
                return POSTED
        return ""

    def _way(self, frame: FrameType | None) -> Way:
        files: list[str] = []
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_HOSTED):
                files.append(file.removeprefix(_HOSTED))
            frame = frame.f_back
        way = list(_begun.get())
        for file in reversed(files):
            if not way or way[-1] != file:
                way.append(file)
        return tuple(way)


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many files two ways have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def hops(ways: dict[str, Way]) -> tuple[int, int, int]:
    """Count the hops from Discord to the act, from the model's words to it, and back to the turn's end."""
    there, back = ways[POSTED], ways[ENDED]
    common = shared(there, back)
    words = there[::-1].index(_SOCKET) if _SOCKET in there else 0
    return len(there) - 1, words, (len(there) - common) + (len(back) - common)


async def measure() -> dict[str, Way]:
    """Have one message answered by a whole bot; gives the way to each station."""
    watch, loop = Watch(), asyncio.get_running_loop()
    loop.set_task_factory(watch.create)
    with tempfile.TemporaryDirectory() as folder:
        said = stream("[SEND: hey Mo]", finish())
        apart = Reply((head(transfer_encoding="chunked"), Until(watch.listens), *said.steps[1:]))
        async with scene(Path(folder), "[SEND: hello]", apart) as here, here.bot() as service:
            await here.ask("are you awake?")  # what is done at the first message alone is not of interest
            await here.said("hello")
            await service.engine.settled()
            with _watched(watch):
                await here.ask()
                await here.said("hello", "hey Mo")
                await service.engine.settled()
    loop.set_task_factory(None)
    return watch.ways


@contextmanager
def _watched(watch: Watch) -> Iterator[None]:
    sys.setprofile(watch.profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def in_lines(ways: dict[str, Way]) -> Iterator[str]:
    """Tell the ways: each station with its hops, and the files that the way before did not pass."""
    before: Way = ()
    for station, way in ways.items():
        common = shared(before, way)
        yield f"{station}: {len(way) - 1} hops"
        if common:
            yield f"    … {way[common - 1]}"
        yield from (f"    {file}" for file in way[common:])
        before = way
    there, words, back = hops(ways)
    yield f"from Discord to the act: {there} hops, {words} of them from the model's words on"
    yield f"from there until the turn is closed: {back} hops"


def run(quick: bool) -> list[Figure]:
    """Measure."""
    ways = asyncio.run(measure())
    progress("\n".join(in_lines(ways)))
    there, words, back = hops(ways)
    return [
        Figure(
            name="Hops from file to file: from Discord to the act; from the model's words to it; back",
            goal=f"as few as can be; ≤ {GOAL_FROM_WORDS} from the model's words",
            ours=f"{there}; {words}; {back}",
            met=words <= GOAL_FROM_WORDS,
        )
    ]
