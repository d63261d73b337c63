"""A worker: takes conversations from the queue, has the engine answer them, and posts over REST."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from pixi.app.cluster.queue import ConversationQueue, Signal, still_answered
from pixi.app.cluster.shared_rates import SharedRates
from pixi.app.service import BotService
from pixi.channels.discord.backend import parse_address, prefix_of
from pixi.channels.discord.bot import Bot
from pixi.channels.discord.outgoing.approvals import SharedQuestion
from pixi.core.channel import Channel, OpenChannel
from pixi.core.errors import PixiError, Reporter, StoreError
from pixi.toolbox.foreign import foreign

_log = logging.getLogger("pixi.queue")

DRAIN_SECONDS = 5.0
"""How long replies may be finished that people see being written, when a worker is told to end."""

LEAVE_SECONDS = 10.0
"""How long a worker waits, after that, to give its conversations back: the database may be away."""

_OTHERS = 5  # times that a conversation is left to other workers, since its persona is not here
_OTHERS_SECONDS = 2.0
_GATEWAY_SECONDS = 3.0  # in which a gateway says that it will hear a click


class Worker:
    """Answers conversations that gateways put on a queue.

    Args:
        service: what answers.
        queue: where conversations come from, and go back to.
        open_channel: opens the channel of a conversation.
        bot: what the addresses of its conversations begin with.
        tell_bot: is told `expected` and `said`, for questions to people, and `forgot`.
    """

    def __init__(
        self,
        service: BotService,
        queue: ConversationQueue,
        open_channel: OpenChannel,
        bot: str,
        tell_bot: Callable[[Signal, str], None],
    ) -> None:
        self._service = service
        self._queue = queue
        self._open = open_channel
        self._bot = bot
        self._tell_bot = tell_bot
        self._ends = False  # what is left of a conversation is for other workers
        self._telling: set[asyncio.Task[None]] = set()

    async def run(self, *, concurrency: int, queues: Sequence[str] = ()) -> None:
        """Answer up to `concurrency` conversations side by side, of some queues or of all, until cancelled.

        Then what people see being written is finished, and the rest goes back to the queue.
        """
        self._service.breakers.opened = self._tell_failing
        async with self._queue.hearing(self.heed):
            working = asyncio.create_task(
                self._queue.work(self.answer, bot=self._bot, concurrency=concurrency, queues=queues)
            )
            try:
                await asyncio.wait([working])
                working.result()
            finally:
                self._ends = True
                working.cancel()  # no more are begun
                await self._service.engine.drain(DRAIN_SECONDS)
                await asyncio.wait([working], timeout=LEAVE_SECONDS)
                if not working.done():
                    _log.warning("the database is away; other workers take up what was begun here")

    async def answer(self, conversation: str, times: int = 0) -> None:
        """Answer a conversation; returns when nothing is left to be done there, or others are to do it.

        `times` says how often it was left to others. What fails is told in the log, and done again when
        somebody writes, or a gateway looks for what still waits.
        """
        service = self._service
        since = still_answered(service.rules)
        try:
            persona = parse_address(conversation).persona
            if persona not in service.personas and times < _OTHERS:
                _log.warning("persona %r cannot answer on this worker; others are to try", persona)
                # Here, and not by a time on the queue: the clock of this machine may be wrong.
                await asyncio.sleep(_OTHERS_SECONDS)
                await self._queue.put(conversation, times=times + 1)
                return
            await service.ready_models(conversation)
            with foreign(f"answering {conversation}"):
                await service.engine.answer(conversation, since, self._channel)
        except PixiError as error:
            _log.warning("conversation %s could not be answered: %s", conversation, error)
        if self._ends:
            await self._hand_back(conversation, since)

    def _tell_failing(self, place: str) -> None:
        telling = asyncio.create_task(self._queue.signal_all("fails", place))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _channel(self, conversation: str) -> Channel | None:
        channel = await self._open(conversation)
        if channel is None:
            _log.info("conversation %s is gone: nothing is answered there", conversation)
        return channel

    async def _hand_back(self, conversation: str, since: float) -> None:
        """Let another worker do what is left to be done."""
        try:
            if conversation in await self._service.store.unanswered(conversation, since):
                await self._queue.put(conversation)
        except StoreError as error:
            _log.warning("conversation %s was not handed back: %s", conversation, error)

    async def heed(self, signal: Signal, text: str) -> None:
        """Follow a signal; what it is about, mostly a conversation, is the text.

        Raises:
            StoreError: the store could not be read.
        """
        engine = self._service.engine
        match signal:
            case "look":
                for talk in engine.busy:
                    if text in (talk, ""):
                        await self._look(talk)
            case "stop":
                await engine.stop(text)
            case "places":
                await self._service.read_places()
            case "forgot":
                self._tell_bot(signal, text)
                await engine.forgotten(text)
            case "fails":
                self._service.breakers.suspect(text)
            case "expected" | "said":
                self._tell_bot(signal, text)

    async def _look(self, conversation: str) -> None:
        """Take what other processes recorded in a conversation."""
        try:
            await self._open(conversation)  # it knows who wrote what
            await self._service.engine.look(conversation)
        except PixiError as error:
            _log.warning("conversation %s was not looked at again: %s", conversation, error)


@asynccontextmanager
async def open_worker(
    service: BotService, queue: ConversationQueue, *, token: str, tell: Reporter
) -> AsyncGenerator[Worker, None]:
    """Log in to Discord, to post there alone.

    Args:
        service: what answers.
        queue: where conversations come from.
        token: the bot's.
        tell: is told, in one line each, what the operator should know.

    Raises:
        ConfigError: the token or the address of the server is wrong.
        PixiError: Discord does not let the bot in for another reason.
    """

    expected: dict[str, asyncio.Event] = {}

    async def share(question: SharedQuestion) -> bool:
        known = expected[question.token] = asyncio.Event()
        try:
            await queue.signal_all("asked", msgspec.json.encode(question).decode())
            async with asyncio.timeout(_GATEWAY_SECONDS):
                await known.wait()
        except TimeoutError:
            _log.warning("no gateway is there to hear what a person clicks: nobody is asked")
            return False
        finally:
            del expected[question.token]
        return True

    def tell_bot(signal: Signal, text: str) -> None:
        token, _, said = text.partition(" ")
        if signal == "expected" and token in expected:
            expected[token].set()
        elif signal == "said" and bot.approvals is not None:
            bot.approvals.answered(token, "yes" if said == "yes" else "no")
        elif signal == "forgot":
            bot.forget(text)

    statuses = service.metrics.discord_statuses if service.metrics.begun else None
    api_url = service.settings.discord.api_url
    rates = service.engine.tools.rates
    rates.shared = SharedRates(queue.session, queue.address).use
    bot = Bot(service, token=token, api_url=api_url, tell=tell, share=share, statuses=statuses, rates=rates)
    async with bot.posting() as open_channel:
        yield Worker(service, queue, open_channel, prefix_of(bot.user_id), tell_bot)
