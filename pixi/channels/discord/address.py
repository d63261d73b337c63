"""Addresses: a conversation of one persona in one channel, as one word that can be read again."""

from dataclasses import dataclass

from pixi.core.errors import PixiError

_KIND = "discord"


@dataclass(frozen=True, slots=True)
class ConversationAddress:
    """Where a persona talks. Channels, threads and DMs all count as channels; a guild never does.

    Attributes:
        bot: id of the bot's own user, so that two bots can share one store.
        channel: id of the channel.
        persona: the name of the persona on its shelf; empty: the channel itself.
    """

    bot: int
    channel: int
    persona: str = ""

    def __str__(self) -> str:
        return f"{_KIND}:{self.bot}:{self.channel}:{self.persona}"


def prefix_of(bot: int) -> str:
    """What the addresses of a bot begin with."""
    return f"{_KIND}:{bot}:"


def parse_address(text: str) -> ConversationAddress:
    """The address that was written so.

    Raises:
        PixiError: it is none of Discord's.
    """
    kind, _, rest = text.partition(":")
    bot, _, rest = rest.partition(":")
    channel, colon, persona = rest.partition(":")
    if kind != _KIND or not (bot.isdecimal() and channel.isdecimal() and colon):
        raise PixiError(f"{text!r} is no address on Discord.")
    return ConversationAddress(int(bot), int(channel), persona)
