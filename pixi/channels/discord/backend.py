"""The interface of the bot's backend: the one door from Discord to everything else.

Conversations go by the text of their `ConversationAddress`, channels by that of an address without a persona.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pixi.channels.engine import Intake
from pixi.core.channel import Channel, OpenChannel
from pixi.core.errors import PixiError
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.spending import QuotaUsage, UsageEntry, UsageScope
from pixi.settings.rules import Rules
from pixi.store.kept import ChannelConfig, Tally
from pixi.store.store import Store

_KIND = "discord"

ALL_ADDRESSES = f"{_KIND}:"
"""The begin of every address on Discord."""


class ConversationAddress(Struct, frozen=True):
    """The address of a persona's talk. Channels, threads and DMs all count as channels; a guild never does.

    Attributes:
        bot: id of the bot's own user, so that two bots can share one store.
        channel: id of the channel.
        persona: the name of the persona's file; empty: the channel itself.
    """

    bot: int
    channel: int
    persona: str = ""

    def __str__(self) -> str:
        return f"{_KIND}:{self.bot}:{self.channel}:{self.persona}"


def prefix_of(bot: int) -> str:
    """Return what the addresses of a bot begin with."""
    return f"{_KIND}:{bot}:"


def parse_address(text: str) -> ConversationAddress:
    """Return the address that was written so.

    Raises:
        PixiError: it is none of Discord's.
    """
    kind, _, rest = text.partition(":")
    bot, _, rest = rest.partition(":")
    channel, colon, persona = rest.partition(":")
    if kind != _KIND or not (bot.isdecimal() and channel.isdecimal() and colon):
        raise PixiError(f"{text!r} is no address on Discord.")
    return ConversationAddress(int(bot), int(channel), persona)


class BotStatus(Struct, frozen=True):
    """The state of the program.

    Attributes:
        version: of Pixi.
        up_seconds: since the start.
        talking: conversations in which a reply is being written.
        today: what the turns of the last 24 hours came to.
        month: what was used in this month, by everybody.
        month_dollars: how many dollars may be; None: any number.
        shares: what was used today of all that is limited for whoever asks.
        searches: of the month, each way of searching the web by itself.
    """

    version: str
    up_seconds: float
    talking: int
    today: Tally
    month: UsageEntry
    month_dollars: float | None
    shares: tuple[QuotaUsage, ...]
    searches: tuple[UsageEntry, ...] = ()


class BotBackend(Protocol):
    """Personas, models, conversations and records. Conversations go by `str(ConversationAddress)`.

    Properties are read anew each time: settings and personas may change while the bot runs. Methods
    raise `StoreError` where the store cannot be read or written, and nothing else unless it says so.
    """

    @property
    def engine(self) -> Intake:
        """Answers in conversations, or has them answered, and forgets people.

        `receive` and `resume` see to the models first."""
        ...

    @property
    def rules(self) -> Rules:
        """Return the rules that the operator decided."""

    @property
    def personas(self) -> Mapping[str, Persona]:
        """All there are, by the names of their files, which addresses and choices hold."""

    @property
    def default_persona(self) -> str:
        """The name of the one who answers where nobody chose another."""

    @property
    def models(self) -> Sequence[str]:
        """Names of the models that a channel may choose from; the first is the default."""

    @property
    def store(self) -> Store:
        """Keeps what was said and done, and how far each channel was read."""

    def sees(self, channel: str) -> bool:
        """Return whether the model that writes in that channel can be shown pictures."""

    # Talking.

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record. One that is known already is ignored."""

    async def resume(self, prefix: str, open_channel: OpenChannel) -> None:
        """Finish what processes left half-done that have ended, and answer what still waits, in the
        conversations whose addresses begin with `prefix`."""

    # What people chose for a channel. `channel` is an `ConversationAddress` without a persona.

    def place(self, channel: str) -> ChannelConfig:
        """Return what holds there; the default where nobody chose."""

    async def set_place(self, channel: str, place: ChannelConfig) -> None:
        """Keep what somebody chose."""

    # Records.

    async def status(self, payer: UsageScope) -> BotStatus:
        """Tell how the program is doing, and what is left for who asks."""


# What people chose for a channel.


def channel_config(backend: BotBackend, bot: int, where: Sequence[int]) -> ChannelConfig:
    """Return what holds in a channel: the first choice that somebody made for it or what it belongs to.

    Where no personas were chosen there, those chosen for what it belongs to are in it.

    Args:
        backend: where choices are kept.
        bot: id of the bot's own user.
        where: ids of the channel, of the parent of a thread, and of the guild, in this order, as far as
            there are any.
    """
    places = [backend.place(str(ConversationAddress(bot, each))) for each in where]
    place = next((place for place in places if place != ChannelConfig()), ChannelConfig())
    personas = next((each.personas for each in places if each.personas), ())
    return replace(place, personas=personas)


def channel_personas(backend: BotBackend, bot: int, where: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the personas of a channel, the first speaker first; see `channel_config`.

    Names whose files are gone are left out; where none is left, it is the default persona.
    """
    here = tuple(name for name in channel_config(backend, bot, where).personas if name in backend.personas)
    return here or (backend.default_persona,)
