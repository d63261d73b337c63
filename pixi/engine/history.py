"""The past of a conversation: read from the store when needed, kept until it is outdated."""

import asyncio

from msgspec.structs import replace

from pixi.core.channel import Channel
from pixi.core.conversation import Conversation
from pixi.core.llm import estimate_all
from pixi.core.message import Message
from pixi.engine.context import PersonaSession
from pixi.engine.recovery import finish_turns
from pixi.store.kept import SavedConversation


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
