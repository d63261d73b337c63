"""The past of a conversation: its window, and the summary of what fell out of that.

`History` reads the window from the store when it is needed, and keeps it until it is outdated. What soon
falls out of the window becomes part of a summary: one `Summarizer` asks the helper model to fold old turns
into what the persona remembers, for all conversations of an engine; the `HistoryCompaction` of each sees when
there is something to fold.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from pixi.core.channel import Channel
from pixi.core.conversation import Bounds, Conversation, as_summary, portions, question, told
from pixi.core.errors import ModelError, PixiError, StoreError
from pixi.core.llm import Request, SystemLine, UserLine, estimate_all, estimate_text
from pixi.core.message import Message
from pixi.core.prompt import fill
from pixi.core.spending import Count, UsageScope
from pixi.core.untrusted import prompt_name
from pixi.engine.context import EngineContext, PersonaSession, template
from pixi.engine.recovery import finish_turns
from pixi.models.model import Model, ask
from pixi.store.kept import Fold, SavedConversation
from pixi.toolbox.foreign import foreign

_log = logging.getLogger("pixi.engine")

Helper = Callable[[], Awaitable[Model]]
"""Gives the helper model, opened when it is first asked for. It stays its builder's to close."""


class History:
    """The window of a conversation, as a session shows it.

    Attributes:
        generation: counts resets, as the store knows it.
        revision: tells what was taken out of the store after the window was read.
        lease: the number of the lease under which the window was read. Under another one somebody else may
            have written meanwhile, and the store begins no turn.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._session: PersonaSession | None = None  # for which the window, or what it is made of, was read
        self._window: Conversation | None = None
        self._instructions = ""  # that stand before the window
        # What `recover` gave, until the window is made of it: whoever asked holds what waits in it.
        self._recovered: SavedConversation | None = None
        self._tried: dict[int, float] = {}  # since when turns that were left half-done are
        self.generation = self.revision = self.lease = 0

    @property
    def is_known(self) -> bool:
        """True if there is a window, in any session, or the turns that one is made of."""
        return self._window is not None or self._recovered is not None

    def window(self, session: PersonaSession, message: Message) -> Conversation | None:
        """Return the window in this session, behind the prompt for a message; None where it must be read."""
        is_same = self._session is session and self._instructions == message.instructions
        return self._window if is_same else None

    async def read(
        self, session: PersonaSession, message: Message, channel: Channel | None
    ) -> tuple[Conversation, SavedConversation | None]:
        """Own the conversation and read the window; gives it, and what the store knows.

        None: nothing is read, for `recover` was asked just before, and what it gave holds.
        `message` is one that is to be answered: what stands before the history depends on its author.

        Raises:
            LeaseHeld: another process answers here just now.
            ChannelLost: a turn was left half-done, and the channel is away: nobody knows how far it came.
            StoreError: it could not be read.
        """
        recovered = self._recovered if self._session is session else None
        saved = recovered or await self.recover(session, channel)
        self._recovered = None
        self._window = self._shown(session, message, saved)
        self._session, self._instructions = session, message.instructions
        self.generation, self.revision = saved.generation, saved.revision
        return self._window, None if recovered else saved

    async def glance(self, session: PersonaSession, message: Message) -> Conversation:
        """Give the window as it is now, without a claim to it: nothing is recovered, and nothing kept.

        Raises:
            StoreError: it could not be read.
        """
        if (known := self.window(session, message)) is not None:
            return known
        traits = session.role.model.traits
        saved = await session.shared.store.load(self._name, traits.context_tokens)
        return self._shown(session, message, saved)

    async def recover(
        self, session: PersonaSession, channel: Channel | None, *, take: bool = False
    ) -> SavedConversation:
        """Own the conversation and end what was left half-done in it; gives what then is known.

        The window is to be read anew. `take`: also from a process that has a turn under way there.

        Raises:
            LeaseHeld: another process answers here just now.
            ChannelLost: the channel is away, and nobody knows how far a turn came.
            StoreError: it could not be read or recorded.
        """
        self.forget()
        store = session.shared.store
        context_tokens = session.role.model.traits.context_tokens
        leasing = asyncio.ensure_future(store.lease(self._name, take=take))
        loading = asyncio.ensure_future(store.load(self._name, context_tokens))  # behind it, in one go
        try:
            self.lease = await leasing
        except BaseException:
            loading.cancel()
            raise
        # Awaited as it is: through another future, what is recorded after it would be heard of before.
        saved = await loading
        # None is under way here; one under a later lease is another's, who took the conversation just now.
        left = [turn for turn in saved.unfinished if turn.lease <= self.lease]
        if left:
            await finish_turns(left, self._name, session, channel, lease=self.lease, since=self._tried)
            saved = await store.load(self._name, context_tokens)
        self._recovered, self._session = saved, session
        return saved

    def forget(self) -> None:
        """Let the window be read again: it is outdated."""
        self._window = self._session = self._recovered = None

    def _shown(self, session: PersonaSession, message: Message, saved: SavedConversation) -> Conversation:
        traits = session.role.model.traits
        return Conversation(
            replace(saved.bounds, context_tokens=traits.context_tokens),
            saved.turns,
            prefix_tokens=estimate_all(session.prefix(message)) + session.tool_tokens,
            summary="" if traits.small else saved.summary,  # a long prompt makes a small model babble
            names=session.capabilities.names,
        )


_SECONDS = 120.0  # for one summary, all that is asked for it together
_REST_SECONDS = 300.0  # after the helper failed: a talk goes on without, and it is not asked at each turn
_AT_ONCE = 2  # summaries that are written side by side
_PORTIONS = 4  # of turns, each a request; of more than that only the latest are read
_LARGEST_PORTION = 12_000  # tokens
_READ_SHARE = 0.6  # of the helper's context, for what it is to read: its tokens are only estimated
_WORDS_PER_TOKEN = 0.6
_ROOM = 1.25  # a reply may be so much longer than it should before the rest is left out
_LONGEST = 16  # characters for each token that it should have: what goes on is not read to its end
_SMALLEST_PORTION = 256  # tokens


class Summarizer:
    """Writes summaries for all conversations of an engine.

    What people wrote is shown to the helper as data, and what it answers stands in the persona's prompt as
    data: the worst that anybody can do is to be remembered as they want.

    Args:
        helper: the model that writes.
    """

    def __init__(self, helper: Helper) -> None:
        self._helper = helper
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._not_before = 0.0  # on the loop's clock
        self._trouble = ""

    @property
    def resting(self) -> bool:
        """True if the helper failed a moment ago."""
        return asyncio.get_running_loop().time() < self._not_before

    async def summary(self, fold: Fold, persona: str, tokens: int, count: Count) -> str:
        """Write what the persona remembers once the turns are folded in; "" where the helper could not.

        Errors of the helper are logged, once until it works again; meanwhile it is `resting`.

        Args:
            persona: the name.
            tokens: how long it may be.
            count: told what each request used.
        """
        try:
            async with self._gate, asyncio.timeout(_SECONDS):
                with foreign("the helper model"):
                    text = await self._written(fold, persona, tokens, count)
        except TimeoutError:
            self._failed(f"it took longer than {_SECONDS:.0f} seconds")
        except PixiError as error:
            self._failed(str(error))
        else:
            self._trouble = ""
            return text
        self._not_before = asyncio.get_running_loop().time() + _REST_SECONDS
        return ""

    async def _written(self, fold: Fold, persona: str, tokens: int, count: Count) -> str:
        model = await self._helper()
        if model.traits.small:
            raise ModelError(f"{model.name} is too small for that; name a larger one in [helper_model].")
        name, words = prompt_name(persona), int(tokens * _WORDS_PER_TOKEN)
        instruction = fill(template("summary.md"), {"name": name, "words": str(words)})
        room = int(model.traits.context_tokens * _READ_SHARE - estimate_text(instruction) - 2 * tokens)
        if room < _SMALLEST_PORTION:
            raise ModelError(f"{model.name} holds too few tokens for that; see context_tokens.")
        turns = [told(turn.lines, persona) for turn in fold.turns]
        summary = fold.summary
        for portion in portions(turns, min(room, _LARGEST_PORTION), _PORTIONS):
            request = Request((SystemLine(instruction), UserLine(question(summary, portion))))
            reply = await ask(model, request, count, longest=tokens * _LONGEST)
            summary = as_summary(reply, int(tokens * _ROOM))
            if not summary:
                raise ModelError(f"{model.name} wrote nothing.")
        return summary

    def _failed(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            why = " ".join(why.split())
            _log.warning("what falls out of a talk was not written down by the helper model: %s", why)


class HistoryCompaction:
    """Keeps the summary of one conversation: in a task of its own, for which no reply ever waits.

    Args:
        name: the conversation's address.
        shared: the store, which keeps the summaries, and the ledger: once the month's dollars are used up,
            nothing is folded.
        summarizer: writes the summaries; None: nobody does.
        lock: held while a turn is answered: a summary comes in between two.
        outdated: called once there is a new summary, and the window is to be read again.
    """

    __slots__ = ("_lock", "_name", "_nothing_before", "_outdated", "_shared", "_summarizer", "_task")

    def __init__(
        self,
        name: str,
        shared: EngineContext,
        summarizer: Summarizer | None,
        *,
        lock: asyncio.Lock,
        outdated: Callable[[], None],
    ) -> None:
        self._name = name
        self._shared = shared
        self._summarizer = summarizer
        self._lock = lock
        self._outdated = outdated
        self._task: asyncio.Task[None] | None = None
        self._nothing_before = 0  # a turn: nothing before it is left to be folded

    @property
    def busy(self) -> bool:
        """True if a summary is being written."""
        return self._task is not None

    def consider(self, persona: str, tokens: int, window: Conversation, generation: int) -> None:
        """Begin to fold, if something is to be folded and nothing is being folded.

        Args:
            persona: the name of the one who remembers.
            tokens: how long the summary may be; 0: none is wanted.
            window: knows which turns soon fall out.
            generation: of the conversation in the store.
        """
        summarizer = self._summarizer
        if not tokens or self.busy or summarizer is None or summarizer.resting:
            return
        bounds = window.to_fold()
        if bounds is not None and bounds.first_turn > self._nothing_before:
            work = self._fold(summarizer, persona, tokens, bounds, generation)
            self._task = asyncio.create_task(work)
            self._task.add_done_callback(self._ended)  # also of one that is stopped before it begins

    async def cancel(self) -> None:
        """Give up what is being folded; returns when that has ended."""
        while self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None

    async def _fold(
        self, summarizer: Summarizer, persona: str, tokens: int, bounds: Bounds, generation: int
    ) -> None:
        store, ledger = self._shared.store, self._shared.ledger
        with suppress(StoreError):  # it is tried again, and the turn that fails at the store tells of it
            if await ledger.over(UsageScope(), ()) is not None:
                return  # no more is to be spent this month
            fold = await store.begin_fold(self._name, generation, bounds.first_turn)
            if fold is None:
                self._nothing_before = bounds.first_turn
                return
            summary = await summarizer.summary(fold, persona, tokens, ledger.count)
            if not summary:
                return
            async with self._lock:
                if await store.end_fold(self._name, fold, bounds, summary):
                    self._outdated()
