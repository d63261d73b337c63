"""A persona as the bot's own name and picture in a server."""

import logging

import discord

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.incoming.wording import one_line
from pixi.channels.discord.outgoing.names import nickname, picture_address, picture_file
from pixi.channels.discord.requests import DiscordRefused, send_request
from pixi.core.errors import ChannelError

_log = logging.getLogger("pixi.discord")

_SECONDS = 60.0  # for one change, should Discord make us wait


class Profiles:
    """What the bot wears in each server. Discord lets it change seldom: nothing is done for what is worn."""

    def __init__(self, client: discord.Client, backend: BotBackend) -> None:
        self._client = client
        self._backend = backend
        self._worn: dict[int, str] = {}

    async def wear(self, guild: discord.Guild, persona: str) -> None:
        """Take a persona's name and picture in a server. Where that fails, a line in the log says so.

        After a start, whoever has the name is taken to have the picture too, if there is any.
        """
        shown = self._backend.personas.get(persona)
        me: discord.Member | None = guild.me
        if shown is None or me is None or self._worn.get(guild.id) == persona:
            return
        picture = await picture_file(shown)
        name = nickname(shown.name)
        nick = None if name in (me.name, me.global_name) else name
        same_name = me.nick == nick
        has_picture = me.guild_avatar is not None
        if same_name and guild.id not in self._worn and (has_picture or picture is None):
            self._worn[guild.id] = persona
            return
        if picture_address(shown):
            _log.info("%s wears no picture: Discord takes files only", one_line(shown.name))
        try:
            await self._change(
                me, nick, picture, same_name=same_name, same_picture=not (picture or has_picture)
            )
        except (ChannelError, ValueError) as error:
            _log.warning("the bot does not show as %s in %s: %s", name, one_line(guild.name), error)
            return
        self._worn[guild.id] = persona

    async def _change(
        self,
        me: discord.Member,
        nick: str | None,
        picture: bytes | None,
        *,
        same_name: bool,
        same_picture: bool,
    ) -> None:
        """Change both at once; where the name must stay, the picture alone."""
        new_name = discord.utils.MISSING if same_name else nick
        new_picture = discord.utils.MISSING if same_picture else picture
        if new_name is discord.utils.MISSING and new_picture is discord.utils.MISSING:
            return
        try:
            await send_request(
                lambda: me.edit(nick=new_name, avatar=new_picture), "profile", seconds=_SECONDS
            )
        except DiscordRefused as error:
            if same_name or same_picture or error.status != 403:
                raise
            await send_request(lambda: me.edit(avatar=new_picture), "profile", seconds=_SECONDS)
            _log.warning("the bot may not change its name in %s", one_line(me.guild.name))
