"""What a conversation knows of its past: read from the store when needed, kept until it is outdated."""

from dataclasses import replace

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation
from pixi.core.message import Message
from pixi.core.tokens import estimate_all
from pixi.engine.recovery import Recovery
from pixi.engine.stage import Stage
from pixi.store.kept import SavedConversation


class History:
    """The window of a conversation, as it is shown on a stage.

    Attributes:
        generation: counts resets, as the store knows it.
        revision: tells what was taken out of the store after the window was read.
    """

    __slots__ = ("_name", "_stage", "_window", "generation", "revision")

    def __init__(self, name: str) -> None:
        self._name = name
        self._stage: Stage | None = None  # for which the window was read
        self._window: Conversation | None = None
        self.generation = self.revision = 0

    @property
    def is_known(self) -> bool:
        """Whether there is a window, on whatever stage."""
        return self._window is not None

    def window(self, stage: Stage) -> Conversation | None:
        """The window on this stage; None where it must be read."""
        return self._window if self._stage is stage else None

    async def read(
        self, stage: Stage, message: Message, channel: Channel | None
    ) -> tuple[Conversation, SavedConversation]:
        """Read it; gives the window, and what the store knows.

        `message` is one that is to be answered: what stands before the history depends on its author.

        Raises:
            StoreError: it could not be read.
        """
        saved = await self.recover(stage, channel)
        traits = stage.role.model.traits
        self._window = Conversation(
            replace(saved.bounds, context_tokens=traits.context_tokens),
            saved.turns,
            prefix_tokens=estimate_all(stage.prefix(message)) + stage.tool_tokens,
            summary="" if traits.small else saved.summary,  # a long prompt makes a small model babble
            names=stage.repertoire.names,
        )
        self._stage = stage
        self.generation, self.revision = saved.generation, saved.revision
        return self._window, saved

    async def recover(self, stage: Stage, channel: Channel | None) -> SavedConversation:
        """End what an earlier process left half-done; gives what then is known.

        Raises:
            StoreError: it could not be read or recorded.
        """
        shared = stage.shared
        return await Recovery(
            shared.store,
            self._name,
            names=stage.repertoire.names,
            stamp=stage.stamp,
            context_tokens=stage.role.model.traits.context_tokens,
            channel=channel,
            since=shared.clock().timestamp() - shared.conduct.finish_seconds,
            is_left_over=shared.is_left_over,
            sorry=next(iter(stage.role.persona.when_broken), ""),
        ).run()

    def forget(self) -> None:
        """It is outdated."""
        self._window = self._stage = None
