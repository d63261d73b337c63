"""Gives the channels of Discord in which personas speak, by what was heard there or by address alone."""

import logging
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import discord

from pixi.channels.discord.address import parse_address
from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.outgoing.channel import DiscordChannel
from pixi.channels.discord.outgoing.context import Approvals, PostingContext, RecentMessages
from pixi.channels.discord.outgoing.identities import Webhooks
from pixi.channels.discord.outgoing.profile import Profiles
from pixi.channels.discord.places import guild_id_of
from pixi.channels.discord.requests import UNKNOWN_CHANNEL, DiscordRefused, send_request
from pixi.core.errors import ChannelElsewhere, ChannelError, PixiError

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

_Spoken = (
    discord.TextChannel
    | discord.VoiceChannel
    | discord.StageChannel
    | discord.Thread
    | discord.DMChannel
    | discord.GroupChannel
)
_SECONDS = 30.0  # for asking about a channel


class DiscordChannels:
    """The voices of one bot. A channel lives as long as somebody holds it, and costs nothing after that.

    Args:
        client: the bot; its requests are all that is needed of it.
        house: rules and personas.
        recent: what was heard lately.
        approvals: asks people for their yes; None: nobody can be asked.
    """

    def __init__(
        self,
        client: discord.Client,
        backend: BotBackend,
        recent: RecentMessages,
        approvals: Approvals | None = None,
        *,
        elsewhere: bool = False,
    ) -> None:
        self._webhooks = Webhooks(client, backend)
        self._profiles = Profiles(client, backend)
        self._shared = PostingContext(client, backend, recent, self._webhooks, approvals, elsewhere)
        self._alive: WeakValueDictionary[tuple[int, str], DiscordChannel] = WeakValueDictionary()

    def channel(self, target: "MessageableChannel", persona: str) -> DiscordChannel:
        """Where a persona speaks in a channel, thread or DM."""
        self._shared.prepare()
        channel = self._alive.get((target.id, persona))
        if channel is None:
            channel = self._alive[target.id, persona] = DiscordChannel(self._shared, target, persona)
        elif not isinstance(target, discord.PartialMessageable):
            channel.target = target  # it may be known better now
        return channel

    def excuse(self, target: "MessageableChannel", persona: str) -> None:
        """Tell people there that what was said to this persona cannot be answered now."""
        self.channel(target, persona).excuse()

    async def open(self, address: str) -> DiscordChannel | None:
        """The channel of an address; None where it is gone, or is not ours.

        A channel that Discord does not tell about now can be spoken in all the same.

        Raises:
            ChannelElsewhere: it belongs to a shard of another process; or where there are such, and nobody
                knows where it belongs, it may.
        """
        try:
            wanted = parse_address(address)
        except PixiError:
            return None
        client = self._shared.client
        if client.user is not None and client.user.id != wanted.bot:
            return None
        persona = wanted.persona or self._shared.backend.default_persona
        target = client.get_channel(wanted.channel)
        if target is None:
            try:
                target = await send_request(
                    lambda: client.fetch_channel(wanted.channel), "channel", seconds=_SECONDS
                )
            except ChannelError as error:
                if isinstance(error, DiscordRefused) and (
                    error.status == 403 or error.code == UNKNOWN_CHANNEL
                ):
                    return None
                _log.info("channel %s is not told about: %s", wanted.channel, error)
        if target is None:
            if not _runs_all(client):
                raise ChannelElsewhere(f"Channel {wanted.channel} may be another process's.")
            return self.channel(client.get_partial_messageable(wanted.channel), persona)
        if not _runs(client, guild_id_of(target)):
            raise ChannelElsewhere(f"Channel {wanted.channel} is another process's.")
        return self.channel(target, persona) if isinstance(target, _Spoken) else None

    def persona_behind(self, message: discord.Message) -> str | None:
        """The persona that posted a message by one of our webhooks; None for every other message."""
        if message.webhook_id is None:
            return None
        return self._webhooks.persona_of(message.webhook_id, message.application_id or 0, message.author.name)

    async def wear(self, guild: discord.Guild, persona: str) -> None:
        """Show as a persona in a server, where the rules want that (`profile`). Nothing is raised."""
        if self._shared.backend.rules.faces == "profile":
            await self._profiles.wear(guild, persona)

    async def close(self) -> None:
        """End what is done beside."""
        await self._shared.close()


def _runs_all(client: discord.Client) -> bool:
    """Whether there are no shards but those of this process."""
    shards = client.shard_ids if isinstance(client, discord.AutoShardedClient) else None
    return not shards or len(shards) == client.shard_count


def _runs(client: discord.Client, guild: int | None) -> bool:
    """Whether a guild, or the direct messages, are told of to a shard of this process."""
    shards = client.shard_ids if isinstance(client, discord.AutoShardedClient) else None
    return not shards or ((guild or 0) >> 22) % (client.shard_count or 1) in shards
