"""The interface of the server's backend: the one door from HTTP to everything else."""

from collections.abc import Mapping
from typing import Protocol

from pixi.channels.engine import ChannelEngine
from pixi.core.channel import Channel, OpenChannel
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.store.store import Store


class Backend(Protocol):
    """Personas, conversations and records. Conversations go by their addresses, see `access.address_of`.

    Properties are read anew each time: settings and personas may change while the server runs. Methods raise
    `StoreError` where the store cannot be read or written, and nothing else unless it says so.
    """

    @property
    def engine(self) -> ChannelEngine:
        """Answers in conversations, and forgets people; `receive` and `resume` see to the models first."""
        ...

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
        """Return whether the model that writes in a conversation can be shown pictures."""
        ...

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record. One that is known already is ignored."""
        ...

    def model_of(self, conversation: str, /) -> str:
        """The name of the model that writes in a conversation."""
        ...

    async def resume(self, prefix: str, open_channel: OpenChannel) -> None:
        """Finish what processes left half-done that have ended, and answer what still waits."""
        ...

    async def unready(self) -> str:
        """Say why no reply can be begun just now, in a line that strangers may read; "" where one can."""
        ...

    async def scraped(self, accept: str, /) -> tuple[bytes, str]:
        """Return the metrics in the form that an `Accept` header asks for, and the type of that form."""
        ...

    async def helper_answer(self, prompt: str) -> str | None:
        """Answer a task of a program by the helper model; None: there is none but the persona's own."""
        ...
