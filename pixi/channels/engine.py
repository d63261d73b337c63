"""Protocols of what answers, for channels, which do not know it: terminals, Discord and HTTP."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pixi.core.channel import Channel, OpenChannel
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.spending import QuotaUsage, UsageReport, UsageScope
from pixi.models.model import Model
from pixi.store.kept import LookedBack, TurnRecord
from pixi.store.store import Store

ForgetListener = Callable[[str, Sequence[str]], None]
"""Is told the id of a person who was forgotten, or "" where a conversation was reset, and the addresses of
conversations that lost words. It drops what it holds of them."""


class Intake(Protocol):
    """Takes what people do: each message is answered once, in order, by one process at a time.

    Where one process is all, that is the engine. In parts it is a `Recorder`, for workers that answer.
    Conversations go by their addresses. Methods raise `StoreError` where the store cannot be read or written.
    """

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record. A known one is ignored."""
        ...

    async def edit(self, conversation: str, message_id: str, text: str) -> None:
        """Pass on that a message was edited. Nothing happens for one that was answered."""
        ...

    async def withdraw(self, conversation: str, message_id: str) -> None:
        """Take a message back: the reply to it ends at once, or is never begun."""
        ...

    async def stop(self, conversation: str) -> bool:
        """Stop the reply that is being written, if there is one; what was delivered stands."""
        ...

    async def reset(self, conversation: str) -> None:
        """Forget the conversation."""
        ...

    async def forget(self, person: str) -> int:
        """Forget a person everywhere; gives how many conversations changed."""
        ...

    async def drain(self, seconds: float) -> None:
        """Take nothing more; let messages that people see being written be finished, within this time."""
        ...


class ChannelEngine(Intake, Protocol):
    """The engine, as far as channels ask it. `pixi.engine.engine.Engine` is the one that there is."""

    async def forgotten(self, person: str) -> None:
        """Drop what is held of a person whom another process has just forgotten."""
        ...

    on_forget: list[ForgetListener]

    @property
    def model(self) -> Model:
        """The model that writes."""
        ...

    @property
    def persona(self) -> Persona:
        """The persona that answers."""
        ...

    async def owned_elsewhere(self, conversation: str) -> bool:
        """Tell whether another window or program has the conversation, be it idle or not."""
        ...

    async def own(self, conversation: str, *, seconds: float = 0.0) -> None:
        """Have the conversation here; a reply that is being written elsewhere is waited for, that long.

        Raises:
            LeaseHeld: it took longer.
        """
        ...

    async def take_over(self, conversation: str) -> None:
        """Have the conversation here, at once; a reply that is being written elsewhere is cut."""
        ...

    async def resume(self, prefix: str, since: float, open_channel: OpenChannel) -> None:
        """Finish what was left half-done, and answer what waits; returns when that is done."""
        ...

    async def waiting(self, conversation: str) -> Sequence[Message]:
        """Return the messages that wait for an answer, oldest first."""
        ...

    async def settled(self, conversation: str) -> None:
        """Return when nothing of the conversation is left to be done."""
        ...

    async def rewind(self, conversation: str, turn: int) -> None:
        """Take a turn and all after it out of a conversation; what was said stays on record beside it."""
        ...

    async def take_back(self, conversation: str) -> Sequence[Message]:
        """Take the last messages, which were answered together, and their answer out of the conversation.

        Gives the messages; none: nobody has said anything. A reply that is being written is stopped.
        """
        ...

    async def last_asked(self, conversation: str) -> Sequence[Message]:
        """Return the messages that `take_back` would take out."""
        ...

    async def branches(self, conversation: str) -> Sequence[str]:
        """Addresses of what was taken out of the conversation, oldest first; `turns` tells what it was."""
        ...

    async def restore(self, conversation: str, branch: str) -> None:
        """Put back what was taken out, in place of what came since then, which is taken out instead."""
        ...

    async def shares(self, payer: UsageScope) -> Sequence[QuotaUsage]:
        """Return today's use of all limits of somebody where they are."""
        ...

    async def bill(self) -> UsageReport:
        """Return the use of today and of this month."""
        ...

    async def turns(self, conversation: str, limit: int) -> Sequence[TurnRecord]:
        """Return the last turns of a conversation, oldest first."""
        ...

    async def look_back(self, turn: int) -> LookedBack | None:
        """Return a turn that is over, with what stands on record of how it was asked; None: there is none."""
        ...

    async def export(self, person: str) -> dict[str, Any]:
        """Export the data of a person, as plain data."""
        ...


class HttpBackend(Protocol):
    """The door from the HTTP server to everything else. Conversations go by the addresses of `address_of`.

    Properties are read anew each time: settings and personas may change while the server runs. Methods raise
    `StoreError` where the store cannot be read or written, and nothing else unless it says so.
    """

    @property
    def engine(self) -> ChannelEngine:
        """Return the engine; `receive` and `resume` below see to its models first."""
        ...

    @property
    def personas(self) -> Mapping[str, Persona]:
        """Return all personas, by the names of their files."""
        ...

    @property
    def default_persona(self) -> str:
        """Return the name of the persona that answers where nobody named another."""
        ...

    @property
    def store(self) -> Store:
        """Return the database."""
        ...

    def sees(self, conversation: str, /) -> bool:
        """Return whether the model that writes in a conversation can be shown pictures."""
        ...

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record. One that is known already is ignored."""
        ...

    def model_of(self, conversation: str, /) -> str:
        """Return the name of the model that writes in a conversation."""
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
