"""The screen Health: how the process does, findings of doctor, and the end of the log."""

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count, islice
from typing import Annotated, Literal

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from pixi.app.cluster.state import RunningProcess, read_processes, read_state
from pixi.app.doctor.checks import Check, checks
from pixi.app.doctor.servers import Finding
from pixi.app.health import Vitals
from pixi.app.logs import harmless_value, message_of, time_of, trace_of
from pixi.app.service import BotService
from pixi.app.studio.mcp import McpEntry, mcp_entries
from pixi.app.studio.rows import operator_route
from pixi.core.masking import SecretRedactor
from pixi.core.routes import AddonRoute, Caller
from pixi.core.untrusted import escaped_lines
from pixi.store.opening import is_postgres

KEPT = 1_000
"""Lines."""

_LONGEST = 20_000  # characters of a traceback or a message

_MARGIN = 2_000  # characters that are not shown beside a cut, which may go through a secret
_CUT = _LONGEST + _MARGIN

Level = Literal["debug", "info", "warning", "error", "critical"]


class LogLine(Struct):
    """A line of the log, shown with secrets masked. `number` counts up from the start of the server."""

    number: int
    time: str
    level: str
    logger: str
    message: str
    traceback: str


class LogTail(logging.Handler):
    """Keeps the last lines, until it is closed. Takes them from any thread.

    Secrets are hidden where a line is shown: those that are known by then, and not while somebody logs.

    Args:
        mask: hides secrets in them.
        told: given each line as it comes, while `followed` says that somebody wants it.
    """

    def __init__(
        self, mask: SecretRedactor, told: Callable[[LogLine], None], followed: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._mask = mask
        self._told = told
        self._followed = followed
        self._lines: deque[LogLine] = deque(maxlen=KEPT)
        self._numbers = count(1)
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, and tell of it."""
        line = LogLine(
            number=next(self._numbers),
            time=time_of(record.created),
            level=record.levelname.lower(),
            logger=record.name,
            message=message_of(record)[:_CUT],
            traceback=trace_of(record)[-_CUT:],
        )
        self._lines.append(line)
        if self._followed():
            self._told(self._shown(line))

    def lines(self, asked: "LogQuery") -> list[LogLine]:
        """Return the last lines that are asked for, oldest first."""
        ranks, words = logging.getLevelNamesMapping(), asked.words.casefold()
        shown = (
            self._shown(line)
            for line in reversed(list(self._lines))
            if ranks.get(line.level.upper(), 0) >= ranks[asked.level.upper()]
            and line.logger.startswith(asked.name)
        )
        found = (line for line in shown if words in f"{line.message}\n{line.traceback}".casefold())
        return list(islice(found, asked.limit))[::-1]

    def _shown(self, line: LogLine) -> LogLine:
        message, trace = self._harmless(line.message), self._harmless(line.traceback)
        if len(line.message) == _CUT:
            message = message[:-_MARGIN]
        if len(line.traceback) == _CUT:
            trace = trace[_MARGIN:]
        logger = self._harmless(line.logger)
        return replace(line, logger=logger, message=message[:_LONGEST], traceback=trace[-_LONGEST:])

    def _harmless(self, text: str) -> str:
        return str(harmless_value(text, self._mask))

    def close(self) -> None:
        """Keep no more."""
        logging.getLogger().removeHandler(self)
        super().close()


_HEALTH = "/api/studio/health"
_CHECK_SECONDS = 120.0
"""Time for one check: a server may not answer, a store may have many gigabytes."""

_CLUSTER_SECONDS = 3.0  # between two questions to the server of the store, whoever looks on
_ANSWER_SECONDS = 5.0  # for its answer


class DoctorForm(Struct):
    """Findings of the checks so far.

    Attributes:
        running: they go on.
        done, total: checks.
        findings: in the order of the report.
        ended: when the last run ended, in seconds since the epoch; None: none did.
    """

    running: bool
    done: int
    total: int
    findings: list[Finding]
    ended: float | None


class QueueForm(Struct):
    """Conversations that wait for a worker, and how long the oldest has waited."""

    waiting: int
    oldest_seconds: float
    stalled: int


class ClusterForm(Struct):
    """All processes on one PostgreSQL server, as it shows them.

    Attributes:
        queue: None where no gateway and no worker was ever started, or the part `cluster` is not installed.
        why: why nothing is known; "": it is.
    """

    processes: Sequence[RunningProcess]
    queue: QueueForm | None = None
    why: str = ""


class HealthForm(Struct):
    """The state of health, but for the log. `cluster`: None where the store is a file."""

    vitals: Vitals
    doctor: DoctorForm
    mcp: list[McpEntry]
    cluster: ClusterForm | None = None


class LogQuery(Struct):
    """A filter of log lines: of at least a level, by the begin of the logger's name, with some words."""

    level: Level = "info"
    name: Annotated[str, Meta(max_length=100)] = ""
    words: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=KEPT)] = 200


class LogForm(Struct):
    """Lines, oldest first. `kept`: how many are kept at most."""

    lines: list[LogLine]
    kept: int


async def _cluster(url: str) -> ClusterForm:
    """Ask a PostgreSQL server who is connected, and what waits."""
    import psycopg

    from pixi.store.postgres.address import read_address, store_error

    address = read_address(url)
    conninfo = psycopg.conninfo.make_conninfo(address.conninfo, options=f"-c search_path={address.schema}")
    try:
        async with (
            asyncio.timeout(_ANSWER_SECONDS),
            await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as session,
        ):
            processes = await read_processes(session, address)
            found = await session.execute("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")
            if await found.fetchone() != (True,) or not find_spec("procrastinate"):
                return ClusterForm(processes)
            state = await read_state(session, address)
            return ClusterForm(processes, QueueForm(state.waiting, state.oldest_seconds, state.stalled))
    except TimeoutError:
        return ClusterForm([], why=f"The server did not answer within {_ANSWER_SECONDS:g} seconds.")
    except psycopg.Error as error:
        return ClusterForm([], why=str(store_error(error, address)))


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes. From now on the end of the log is kept, until the service is closed."""
    screen = _HealthScreen(service)
    service.closing.push_async_callback(screen.close)
    return (
        operator_route("GET", _HEALTH, screen.health, "See how the bot is doing"),
        operator_route("POST", f"{_HEALTH}/doctor", screen.examine, "Check everything"),
        operator_route("GET", "/api/studio/log", screen.log, "Read the log's end"),
    )


class _HealthScreen:
    """Answers the routes."""

    def __init__(self, service: BotService) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._doctor = DoctorForm(False, 0, 0, [], None)
        self._run: asyncio.Task[None] | None = None
        self._cluster = ClusterForm([])
        self._asked = float("-inf")  # when the server was, for the last time
        self._asking = asyncio.Lock()
        self._tail = LogTail(service.mask, self._tell_line, lambda: service.hub.followed)
        service.closing.callback(self._tail.close)

    async def health(self, caller: Caller, asked: None) -> HealthForm:
        """Answer with how everything is now."""
        url, cluster = self._service.settings.store.url, None
        # On Windows the driver of PostgreSQL cannot wait on the loop that a server runs on.
        if is_postgres(url) and sys.platform != "win32":
            async with self._asking:
                if time.monotonic() - self._asked >= _CLUSTER_SECONDS:
                    self._cluster, self._asked = await _cluster(url), time.monotonic()
            cluster = self._cluster
        return HealthForm(self._service.vitals(), self._doctor, await mcp_entries(self._service), cluster)

    async def examine(self, caller: Caller, asked: None) -> DoctorForm:
        """Begin to check everything, unless that is under way."""
        if self._run is None or self._run.done():
            every = checks()
            self._doctor = DoctorForm(True, 0, len(every), [], self._doctor.ended)
            self._tell_doctor()
            self._run = asyncio.create_task(self._check(every))
        return self._doctor

    async def log(self, caller: Caller, asked: LogQuery) -> LogForm:
        """Answer with the end of the log."""
        return LogForm(await asyncio.to_thread(self._tail.lines, asked), KEPT)

    async def close(self) -> None:
        """End what runs."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run])

    async def _check(self, every: Sequence[Check]) -> None:
        """Run the checks in a thread with a loop of its own: what is answered meanwhile waits for none."""
        begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]] = []
        settings = self._service.settings

        def tell(findings: Sequence[Finding], *, done: bool) -> None:
            self._loop.call_soon_threadsafe(self._found, findings, done)

        async def run() -> None:
            begun.append((asyncio.get_running_loop(), asyncio.current_task()))
            for check in every:
                try:
                    async with asyncio.timeout(_CHECK_SECONDS):
                        async for finding in check(settings):
                            tell([finding], done=False)
                except TimeoutError:
                    text = f"a check took longer than {_CHECK_SECONDS:g} seconds, and was left"
                    tell([Finding(False, "doctor", text)], done=False)
                tell([], done=True)

        try:
            await asyncio.to_thread(lambda: asyncio.run(run()))
        finally:
            for loop, task in begun:
                if task is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            self._doctor.running, self._doctor.ended = False, time.time()
            self._tell_doctor()

    def _found(self, findings: Sequence[Finding], done: bool) -> None:
        redact = self._service.mask.redact
        for each in findings:
            text = escaped_lines(redact(" ".join(each.text.split())))
            self._doctor.findings.append(Finding(each.ok, each.subject, text))
        self._doctor.done += done
        self._tell_doctor()

    def _tell_doctor(self) -> None:
        self._service.hub.publish("health", to_builtins(self._doctor))

    def _tell_line(self, line: LogLine) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody looks on any more
            self._loop.call_soon_threadsafe(self._service.hub.publish, "log", to_builtins(line))
