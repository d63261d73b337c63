"""Who lives in a channel: what was chosen for it, for what it belongs to, or the default."""

from collections.abc import Sequence
from dataclasses import replace

from pixi.channels.discord.address import ConversationAddress
from pixi.channels.discord.backend import BotBackend
from pixi.store.kept import Place


def channel_config(backend: BotBackend, bot: int, where: Sequence[int]) -> Place:
    """What holds in a channel: the first place for which somebody chose.

    Where nobody chose there who lives in it, those live in it who were chosen for what it belongs to.

    Args:
        house: where choices are kept.
        bot: id of the bot's own user.
        where: ids of the channel, of the parent of a thread, and of the guild, in this order, as far as
            there are any.
    """
    places = [backend.place(str(ConversationAddress(bot, each))) for each in where]
    place = next((place for place in places if place != Place()), Place())
    living = next((each.personas for each in places if each.personas), ())
    return replace(place, personas=living)


def channel_personas(backend: BotBackend, bot: int, where: Sequence[int]) -> tuple[str, ...]:
    """Names of the personas that live in a channel, the first speaker first; see `channel_config`.

    Names that are on the shelf no more are left out; where none is left, it is the default persona.
    """
    here = tuple(name for name in channel_config(backend, bot, where).personas if name in backend.personas)
    return here or (backend.default_persona,)
