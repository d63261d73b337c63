"""What the server asks of those who built it: the one door from HTTP to everything else."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pixi.core.channel import Channel, OpenChannel
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.spending import QuotaUsage, UsageReport, UsageScope
from pixi.store.store import Store


class Backend(Protocol):
    """Personas, conversations and records. Conversations go by their addresses, see `access.address_of`.

    Properties are read anew each time: settings and personas may change while the server runs. Methods raise
    `StoreError` where the store cannot be read or written, and nothing else unless it says so.
    """

    @property
    def personas(self) -> Mapping[str, Persona]:
        """All there are, by the names of their files."""
        ...

    @property
    def default_persona(self) -> str:
        """The name of the one who answers where nobody named another."""
        ...

    @property
    def store(self) -> Store:
        """Keeps everything that must outlive the process."""
        ...

    def sees(self, conversation: str, /) -> bool:
        """Whether the model that writes in a conversation can be shown pictures."""
        ...

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record. One that is known already is ignored."""
        ...

    async def settled(self, conversation: str) -> None:
        """Return when nothing of the conversation is left to be answered."""
        ...

    async def stop(self, conversation: str) -> bool:
        """End the reply that is being written; False where there is none."""
        ...

    async def reset(self, conversation: str) -> None:
        """Forget what was said in a conversation."""
        ...

    async def rewind(self, conversation: str, turn: int) -> None:
        """Take a turn and all after it out of a conversation; what was said stays on record beside it."""
        ...

    async def restore(self, conversation: str, branch: str) -> None:
        """Put turns back that were taken out of a conversation, in place of what came since then."""
        ...

    async def take_back(self, conversation: str) -> tuple[Message, ...]:
        """Take the last messages to the persona out of a conversation, with their answer; gives them."""
        ...

    async def withdraw(self, conversation: str, message_id: str) -> None:
        """Take a message back that waits for its answer: none is begun."""
        ...

    async def forget(self, person: str) -> int:
        """Forget a person everywhere; gives how many conversations changed."""
        ...

    async def shares(self, payer: UsageScope) -> Sequence[QuotaUsage]:
        """What was used today of all that is limited for somebody where they are."""
        ...

    async def bill(self) -> UsageReport:
        """What everybody used today and in this month."""
        ...

    def model_of(self, conversation: str, /) -> str:
        """The name of the model that writes in a conversation."""
        ...

    async def resume(self, prefix: str, open_channel: OpenChannel) -> None:
        """Finish what processes left half-done that have ended, and answer what still waits."""
        ...

    async def helper_answer(self, prompt: str) -> str | None:
        """Answer a task of a program by the helper model; None: there is none but the persona's own."""
        ...
