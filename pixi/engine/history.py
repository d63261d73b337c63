"""What a conversation knows of its past: read from the store when needed, kept until it is outdated."""

from dataclasses import replace

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation
from pixi.core.message import Message
from pixi.core.tokens import estimate_all
from pixi.engine.context import PersonaSession
from pixi.engine.recovery import Recovery
from pixi.store.kept import SavedConversation


class History:
    """The window of a conversation, as a session shows it.

    Attributes:
        generation: counts resets, as the store knows it.
        revision: tells what was taken out of the store after the window was read.
    """

    __slots__ = ("_name", "_session", "_window", "generation", "revision")

    def __init__(self, name: str) -> None:
        self._name = name
        self._session: PersonaSession | None = None  # for which the window was read
        self._window: Conversation | None = None
        self.generation = self.revision = 0

    @property
    def is_known(self) -> bool:
        """Whether there is a window, in any session."""
        return self._window is not None

    def window(self, session: PersonaSession) -> Conversation | None:
        """The window in this session; None where it must be read."""
        return self._window if self._session is session else None

    async def read(
        self, session: PersonaSession, message: Message, channel: Channel | None
    ) -> tuple[Conversation, SavedConversation]:
        """Read it; gives the window, and what the store knows.

        `message` is one that is to be answered: what stands before the history depends on its author.

        Raises:
            StoreError: it could not be read.
        """
        saved = await self.recover(session, channel)
        traits = session.role.model.traits
        self._window = Conversation(
            replace(saved.bounds, context_tokens=traits.context_tokens),
            saved.turns,
            prefix_tokens=estimate_all(session.prefix(message)) + session.tool_tokens,
            summary="" if traits.small else saved.summary,  # a long prompt makes a small model babble
            names=session.capabilities.names,
        )
        self._session = session
        self.generation, self.revision = saved.generation, saved.revision
        return self._window, saved

    async def recover(self, session: PersonaSession, channel: Channel | None) -> SavedConversation:
        """End what an earlier process left half-done; gives what then is known.

        Raises:
            StoreError: it could not be read or recorded.
        """
        shared = session.shared
        return await Recovery(
            shared.store,
            self._name,
            names=session.capabilities.names,
            stamp=session.stamp,
            context_tokens=session.role.model.traits.context_tokens,
            channel=channel,
            since=shared.clock().timestamp() - shared.settings.finish_seconds,
            is_left_over=shared.is_left_over,
            sorry=next(iter(session.role.persona.when_broken), ""),
        ).run()

    def forget(self) -> None:
        """It is outdated."""
        self._window = self._session = None
