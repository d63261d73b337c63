"""The queue of conversations that wait for a worker, in PostgreSQL.

A job of the queue is a conversation, not a message: the messages wait in the store. Its lock is the address,
so that one worker at a time has a conversation. It is queued at most once, however many messages come. A
worker that begins a job reads the store after that. So a message that is on record before its conversation is
put on the queue is found, whether that made a job or there was one.

Each worker shows by a heartbeat that it lives. The jobs of one whose heart has stopped are put on the queue
again by any other, as new jobs. Whoever takes such a job up takes the lease of the conversation too, see
`pixi.store.statements.leases`. So a worker that was only slow, and goes on, can record nothing more of its
turn, and what is not on record is not done.

A conversation may be what workers die of. So a job counts, as its `attempts`, the workers that died within a
minute after they began it. After the first it is begun again at once, then after pauses that double, until
its messages are too old to be answered.

Beside the jobs there are signals, for processes that are at work just now. A process that gets none reads the
store, and knows all the same.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, cast, get_args
from zlib import crc32

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager, NotificationCallback
from procrastinate.worker import Worker as JobWorker
from psycopg import AsyncConnection, errors
from psycopg import Error as DatabaseError

from pixi.app.cluster.tables import check_tables, make_tables
from pixi.app.logs import TRACE_HEADERS
from pixi.core.errors import PixiError, StoreError
from pixi.core.spending import how_many
from pixi.settings.rules import Rules
from pixi.store.postgres.address import Address, read_address

_log = logging.getLogger("pixi.queue")

Signal = Literal["look", "stop", "places", "forgot", "asked", "expected", "said", "fails"]
"""`look`: messages of a conversation came or changed; `stop`: its reply is to end; `places`: read again what
people chose for channels; `forgot`: drop what is remembered of a person (the store itself tells this);
`asked`: a worker is to ask a person this question; `expected`: a gateway will hear the click on it; `said`:
what was clicked; `fails`: a server of models does not answer."""

Answer = Callable[[str, int], Awaitable[None]]
"""Answers a conversation. The number says how often it was put off before."""

MAIN = "main"
"""The queue of all conversations whose personas have none of their own."""

_TASK = "answer"

BEAT_SECONDS = 1.0
STALLED_SECONDS = 3.5
"""After so long without a heartbeat a worker is taken for dead. Others look for such each second."""
_DEADLY_SECONDS = 60.0  # within which a worker dies of what it began
_MOST_DOUBLED = 5  # times that the pause of a second before a conversation is begun again doubles
_LOOK_SECONDS = 1.0  # between two looks for workers that have died
_LATE_SECONDS = STALLED_SECONDS - BEAT_SECONDS  # since the last look; then others may have missed beats, too
_POLL_SECONDS = 1.0  # after which a job is found of which no notice came
_AGAIN_SECONDS = 1.0  # until a database that is away is tried again
_READY_SECONDS = 10.0  # in which signals are heard
_QUEUED_SECONDS = 120.0  # that a message may wait for a worker in any case
_CLOCK_SECONDS = 30.0  # that the clocks of two machines may differ
_NEVER = 86_400.0  # seconds; instead of the heartbeat of procrastinate, which ends too early
_CONNECTIONS = 4
_COUNT_DEATH = """
    WITH died AS (
        SELECT lock, CASE WHEN (
                SELECT max(at) FROM procrastinate_events WHERE job_id = job.id AND type = 'started'
            ) > now() - make_interval(secs => %(deadly)s) THEN attempts + 1 ELSE 1 END AS deaths
        FROM procrastinate_jobs AS job WHERE id = %(id)s AND status = 'doing'
    ), paused AS (
        SELECT lock, deaths, CASE deaths WHEN 1 THEN 0 ELSE 2 ^ least(deaths - 1, %(doubled)s) END AS seconds
        FROM died
    )
    UPDATE procrastinate_jobs AS next
    SET attempts = deaths, scheduled_at = now() + make_interval(secs => seconds)
    FROM paused WHERE next.lock = paused.lock AND status = 'todo'
    RETURNING deaths, seconds
"""
_FREE = """
    SELECT pg_notify(
        'procrastinate_queue_v1#' || queue_name, json_build_object('type', 'job_inserted', 'job_id', id)::text
    )
    FROM procrastinate_jobs WHERE lock = %(lock)s AND status = 'todo'
"""


def still_answered(rules: Rules) -> float:
    """Return when a waiting message must have been sent, at the earliest, to be answered: seconds since 1970.

    Some time on the queue is no fault of the message, also where nothing old is answered.
    """
    return time.time() - max(_QUEUED_SECONDS, rules.catch_up_minutes * 60)


class ConversationQueue:
    """Puts conversations on the queue, has them answered, and sends signals. Made by `open_queue`.

    Attributes:
        names: of the queues: `MAIN`, and the personas that have one of their own.
        address: of the database and the schema of its tables, which are those of the store.
    """

    def __init__(self, app: App, address: Address, own: Iterable[str] = ()) -> None:
        self.names = (MAIN, *own)
        self._app = app
        self._connector = cast("PsycopgConnector", app.connector)
        self.address = address
        self._channel = address.signals  # those of other stores are others
        self._beside: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """Lend a connection whose search path leads to the tables, until the block is left.

        Raises:
            psycopg.Error: none can be had.
        """
        async with self._connector.pool.connection() as session:
            yield session

    def _name_of(self, conversation: str) -> str:
        """Return the name of a conversation's queue in the database."""
        persona = conversation.split(":", 3)[-1]
        return _name(conversation, persona if persona in self.names[1:] else MAIN)

    async def put(self, conversation: str, *, times: int = 0) -> None:
        """Have a conversation answered by a worker; once, if it waits on the queue already.

        A worker that has it just now is told to look.

        Args:
            conversation: its address. What is to be answered is on record.
            times: how often it was put off before.

        Raises:
            StoreError: the database does not take it.
        """
        job = self._app.configure_task(
            _TASK, queue=self._name_of(conversation), lock=conversation, queueing_lock=conversation
        )
        number = 0  # of the job that is made here
        given: dict[str, Any] = {"conversation": conversation, "times": times}
        if headers := TRACE_HEADERS.get():  # else there is no word of it: older workers know none
            given["trace"] = {**headers, "queued_at": str(time.time_ns())}
        try:
            number = await job.defer_async(**given)
        except AlreadyEnqueued:
            pass  # whoever takes it up finds this message too
        except ConnectorException as error:
            raise _no_answer(self.address, error) from error
        await self.signal("look", conversation, besides=number)

    async def move(self, conversation: str) -> None:
        """Have a conversation wait in its present queue: the settings may have changed since it was queued.

        Raises:
            StoreError: the database does not answer.
        """
        try:
            await self._connector.execute_query_async(
                "UPDATE procrastinate_jobs SET queue_name = %(queue)s"
                " WHERE lock = %(lock)s AND status = 'todo' AND queue_name <> %(queue)s",
                queue=self._name_of(conversation),
                lock=conversation,
            )
        except ConnectorException as error:
            raise _no_answer(self.address, error) from error

    async def signal(self, signal: Signal, conversation: str, *, besides: int = 0) -> None:
        """Tell the worker that has a conversation, if one has, by another job than `besides`.

        Should that fail, it finds it in the store later.
        """
        with suppress(ConnectorException):
            await self._connector.execute_query_async(
                "SELECT pg_notify(%(channel)s, %(payload)s) FROM procrastinate_jobs"
                " WHERE lock = %(lock)s AND status = 'doing' AND id <> %(besides)s",
                channel=self._channel,
                payload=f"{signal} {conversation}",
                lock=conversation,
                besides=besides,
            )

    async def signal_all(self, signal: Signal, text: str = "") -> None:
        """Tell all processes. A text of more than 7,900 bytes is not told, nor while the database is away."""
        with suppress(ConnectorException):
            await self._connector.execute_query_async(
                "SELECT pg_notify(%(channel)s, %(payload)s)",
                channel=self._channel,
                payload=f"{signal} {text}",
            )

    @asynccontextmanager
    async def hearing(self, heard: Callable[[Signal, str], Awaitable[None]]) -> AsyncGenerator[None, None]:
        """Pass signals on, each in a task of its own, until the block is left.

        None is missed in it. Where the connection is lost for a while, `look` without a conversation follows:
        any may have changed.

        Raises:
            StoreError: the database does not answer.
        """
        ready = asyncio.Event()
        listening = asyncio.create_task(self._listen(heard, ready))
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await ready.wait()
        except TimeoutError:
            listening.cancel()
            raise StoreError(f"The queue in {self.address} does not answer.") from None
        try:
            yield
        finally:
            tasks = [listening, *self._beside]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _listen(self, heard: Callable[[Signal, str], Awaitable[None]], ready: asyncio.Event) -> None:
        while True:
            try:
                async with await AsyncConnection.connect(self.address.conninfo, autocommit=True) as session:
                    await session.execute(f"LISTEN {self._channel}".encode())
                    if ready.is_set():
                        self._do_beside(heard("look", ""))
                    ready.set()
                    async for notice in session.notifies():
                        signal, _, conversation = notice.payload.partition(" ")
                        if signal in get_args(Signal):
                            self._do_beside(heard(cast("Signal", signal), conversation))
            except DatabaseError as error:
                _log.warning("the connection for signals is lost, and made again: %s", _reason(error))
            await asyncio.sleep(_AGAIN_SECONDS)

    def _do_beside(self, work: Awaitable[None]) -> None:
        async def done() -> None:
            try:
                await work
            except PixiError as error:
                _log.warning("a signal could not be followed: %s", error)

        task = asyncio.get_running_loop().create_task(done())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def work(self, answer: Answer, *, bot: str, concurrency: int, queues: Sequence[str] = ()) -> None:
        """Have a bot's conversations answered, so many side by side, until cancelled.

        Then no more are begun, and it returns when those that were begun have ended.

        Args:
            answer: answers a conversation.
            bot: what the addresses of its conversations begin with.
            concurrency: how many are answered at a time; more for a while, after the database was away.
            queues: of `names`, from which they are taken; none: from all.
        """

        async def task(
            conversation: str,
            times: int = 0,
            trace: Mapping[str, str] | None = None,
            **later: object,  # of a newer version, which may be left aside
        ) -> None:
            TRACE_HEADERS.set(trace or {})
            await answer(conversation, times)

        self._app.task(name=_TASK)(task)
        taken = [_name(bot, each) for each in queues or self.names]
        looking = asyncio.create_task(self._look_for_dead())
        runs: set[asyncio.Task[None]] = set()
        try:
            while True:
                worker = _JobWorker(self._app, taken, concurrency)
                run = asyncio.create_task(self._run(worker))
                runs.add(run)
                run.add_done_callback(runs.discard)
                ending = asyncio.create_task(worker.ending.wait())
                try:
                    await asyncio.wait([run, ending], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    ending.cancel()
                if run.done():
                    run.result()
                _log.warning("the database of the queue is away; trying again")
                await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            begun = [looking, *runs]
            for each in begun:
                each.cancel()
            await asyncio.wait(begun)

    async def _run(self, worker: "_JobWorker") -> None:
        """Work until cancelled, or the database goes away; then until the jobs that were begun have ended."""
        beating = asyncio.create_task(self._beat(worker))
        try:
            with suppress(ConnectorException):
                await worker.run()  # type: ignore[no-untyped-call]
        finally:
            beating.cancel()
            await asyncio.wait([beating])

    async def _beat(self, worker: JobWorker) -> None:
        """Show that a worker lives, until cancelled.

        Its own heartbeat stops as soon as it is told to end, while replies are still being finished.
        """
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            if worker.worker_id is not None:
                with suppress(ConnectorException):
                    await self._app.job_manager.update_heartbeat(worker.worker_id)

    async def _look_for_dead(self) -> None:
        """Take up what dead workers had, each second, until cancelled.

        When the database was away, or this process stood still, all hearts seem to have stopped. So where a
        look was late, the living may beat first. Should the database only be slow, ever later looks count.
        """
        seen, late = time.monotonic(), _LATE_SECONDS
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with suppress(ConnectorException, StoreError):
                if await self.take_up(seen + late):
                    late = _LATE_SECONDS
                else:
                    late += 1.0
                    await asyncio.sleep(STALLED_SECONDS)
                seen = time.monotonic()

    async def take_up(self, deadline: float = math.inf) -> bool:
        """Put the conversations of workers that have died on the queue again.

        Args:
            deadline: by `time.monotonic()`. What the database tells later of workers does not count.

        Returns:
            False if it told that after the deadline, and nothing was done.

        Raises:
            StoreError: the database does not take them.
            ConnectorException: it does not answer.
        """
        jobs = self._app.job_manager
        stalled = await jobs.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS)
        if time.monotonic() > deadline:
            return False
        for job in stalled:
            assert job.lock is not None  # it is the conversation
            TRACE_HEADERS.set(cast("Mapping[str, str]", job.task_kwargs.get("trace", {})))
            await self.put(job.lock)  # first: whoever dies in between has lost nothing
            told = await self._count_death(job)
            await jobs.finish_job(job, Status.FAILED, delete_job=True)
            _log.warning("the worker of conversation %s has died or stands still%s", job.lock, told)
        return True

    async def _count_death(self, job: Job) -> str:
        """Count the death of the worker that had a job, for the next job there; return what is to be told."""
        died = await self._connector.execute_query_all_async(
            _COUNT_DEATH, id=job.id, doubled=_MOST_DOUBLED, deadly=_DEADLY_SECONDS + STALLED_SECONDS
        )
        return "".join(
            f" ({how_many(each['deaths'], 'time')} on end; it is begun again in {each['seconds']:.0f} s)"
            for each in died
        )


def _name(address: str, queue: str) -> str:
    """Return the name of a queue in the database: bots that share a store have queues of their own.

    It stands in the name of a channel for notices, which has room for 63 bytes.
    """
    platform, bot, *_ = address.split(":")
    return f"{platform}:{bot}" if queue == MAIN else f"{platform}:{bot}:{crc32(queue.encode()):08x}"


class _JobWorker(JobWorker):
    """Procrastinate's worker, with an event that is set when it begins no more jobs.

    It ends when it loses the database. The next one, with a number of its own, begins jobs meanwhile. A job
    that was given to this one, in an answer that did not arrive, is free once it has ended.
    """

    def __init__(self, app: App, queues: Sequence[str], concurrency: int) -> None:
        super().__init__(
            app,
            queues=queues,
            concurrency=concurrency,
            delete_jobs="always",
            install_signal_handlers=False,
            fetch_job_polling_interval=_POLL_SECONDS,
            update_heartbeat_interval=_NEVER,
            stalled_worker_timeout=STALLED_SECONDS,
        )
        self.ending = asyncio.Event()

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        self.ending.set()
        await super()._shutdown(side_tasks)


class _Jobs(JobManager):
    """Procrastinate's access to its jobs, but for how one ends.

    A job that is over must go, or its conversation would never be free again: a database that is away is
    waited for. And a job that was taken from a worker, which was slow, is not the worker's to end. A job that
    waited for the lock is told of like a new one, or nobody would look for it at once.
    """

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        while True:
            try:
                await super().finish_job(job, status, delete_job)
                return await self.connector.execute_query_async(_FREE, lock=job.lock)
            except ConnectorException as error:
                if isinstance(error.__cause__, errors.RaiseException):
                    return None
            await asyncio.sleep(_AGAIN_SECONDS)

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        while True:
            with suppress(ConnectorException):  # else nobody would listen any more
                await super().listen_for_jobs(on_notification=on_notification, queues=queues)
            await asyncio.sleep(_AGAIN_SECONDS)


@asynccontextmanager
async def open_queue(url: str, own: Iterable[str] = ()) -> AsyncGenerator[ConversationQueue, None]:
    """Open the queue in the database of a store that was opened before. Missing tables are made.

    Args:
        url: of the store.
        own: the personas that have queues of their own.

    Raises:
        StoreError: that cannot be done.
    """
    address = read_address(url)
    connector = PsycopgConnector(
        conninfo=address.conninfo,
        kwargs={"options": f"-c search_path={address.schema}"},
        # Each call is one statement, and takes one round trip.
        configure=lambda session: session.set_autocommit(True),
        min_size=1,
        max_size=_CONNECTIONS,
    )
    app = App(connector=connector, import_paths=())
    app.job_manager = _Jobs(connector)
    try:
        async with app.open_async():
            await make_tables(app)
            asked = "SELECT extract(epoch FROM clock_timestamp())::float AS now"
            if fault := clock_fault((await connector.execute_query_one_async(asked))["now"]):
                _log.warning("%s", fault)
            queue = ConversationQueue(app, address, own)
            try:
                async with queue.session() as session:
                    await check_tables(session, address)
            except DatabaseError as error:
                raise _no_answer(address, error) from error
            yield queue
    except ConnectorException as error:
        raise StoreError(f"The queue in {address} cannot be used: {_reason(error)}.") from error


def clock_fault(now: float) -> str:
    """Compare the clock here with the database server's, which shows `now`; return what is wrong, or "".

    By a wrong clock messages seem old, and are left alone.
    """
    ahead = time.time() - now
    if abs(ahead) <= _CLOCK_SECONDS:
        return ""
    way = "ahead of" if ahead > 0 else "behind"
    return f"the clock here is {abs(ahead):.0f} seconds {way} the database server's: set it right"


def _no_answer(address: Address, error: BaseException) -> StoreError:
    return StoreError(f"The queue in {address} does not answer: {_reason(error)}.")


def _reason(error: BaseException) -> str:
    lines = str(error.__cause__ or error).splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__
