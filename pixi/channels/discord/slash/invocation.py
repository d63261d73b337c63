"""One use of a command: who, where, in which language; how it is answered in time, or fails."""

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import discord
from discord import app_commands
from discord.utils import MISSING
from msgspec import Struct

from pixi.channels.discord.backend import BotBackend, ConversationAddress, channel_personas
from pixi.channels.discord.formatting import LIMIT, clipped, escape_line
from pixi.channels.discord.outgoing.content import COLOR
from pixi.channels.discord.permissions import requester_of
from pixi.channels.discord.places import config_ids, payer_in
from pixi.channels.discord.requests import FAULTS, UNREADABLE
from pixi.channels.discord.slash.translations import Language, Translations
from pixi.core.errors import PixiError, StoreError
from pixi.core.spending import UsageScope
from pixi.settings.rules import Requester, is_admin

_log = logging.getLogger("pixi.discord")

T = TypeVar("T")

NAME = 80
"""Characters that are shown of a persona's or a model's name."""


_PATIENCE = 1.0  # seconds before Discord, which waits for three, is asked to wait longer

_TOO_LATE = (10062, 40060)  # three seconds are over; another process with the same token answered
_OUTDATED = (
    app_commands.CommandNotFound,
    app_commands.CommandSignatureMismatch,
    app_commands.TransformerError,
)
_DETAIL = 500


class EmbedField(Struct, frozen=True):
    """A part with a heading. `inline`: it may stand beside others."""

    name: str
    value: str
    inline: bool = False


class EmbedContent(Struct, frozen=True):
    """The content of an embed. All of it is Discord's Markdown; strangers' words in it are escaped."""

    title: str
    text: str = ""
    fields: tuple[EmbedField, ...] = ()


class Invocation:
    """Answers with a message that nobody else sees, unless told otherwise; it pings nobody.

    Args:
        interaction: as Discord told of it.
        backend: what the bot talks for.
        translations: the languages it speaks.
    """

    def __init__(
        self, interaction: discord.Interaction, backend: BotBackend, translations: Translations
    ) -> None:
        self.interaction = interaction
        self.backend = backend
        self.language: Language = translations.of(str(interaction.locale))
        self.say = self.language.say

    @property
    def requester(self) -> Requester:
        """Return the person who used the command."""
        return requester_of(self.interaction)

    @property
    def bot(self) -> int:
        """The id of the bot's own user."""
        user = self.interaction.client.user
        return user.id if user else self.interaction.application_id

    @property
    def channel(self) -> int:
        """The id of the channel.

        Raises:
            PixiError: Discord did not tell.
        """
        if self.interaction.channel_id is None:
            raise PixiError("Discord did not tell in which channel the command was used.")
        return self.interaction.channel_id

    @property
    def where(self) -> tuple[int, ...]:
        """The ids for which people may have chosen what holds here."""
        channel = self.interaction.channel
        if channel is not None:
            return config_ids(channel)
        return tuple(each for each in (self.channel, self.interaction.guild_id) if each)

    @property
    def payer(self) -> UsageScope:
        """Return the person and place that pay for the use."""
        person, channel = str(self.interaction.user.id), self.interaction.channel
        return UsageScope(person) if channel is None else payer_in(channel, person)

    @property
    def channel_personas(self) -> tuple[str, ...]:
        """The names of the personas of the channel."""
        return channel_personas(self.backend, self.bot, self.where)

    @property
    def conversations(self) -> tuple[str, ...]:
        """The addresses of their conversations here."""
        return tuple(self.address(name) for name in self.channel_personas)

    @property
    def may_see_all(self) -> bool:
        """Return True if they are one of the settings' admins, who govern the bot everywhere."""
        return self.requester.user in self.backend.rules.admins and is_admin(
            self.backend.rules, self.requester
        )

    def address(self, persona: str = "") -> str:
        """Return the address of a persona's conversation here; without a persona, of the channel."""
        return str(ConversationAddress(self.bot, self.channel, persona))

    def shown(self, name: str) -> str:
        """Write a persona's name as people see it."""
        persona = self.backend.personas.get(name)
        return escape_line(persona.name if persona else name, NAME)

    def all_shown(self, names: Sequence[str]) -> str:
        """Write several names, in bold."""
        return ", ".join(f"**{self.shown(name)}**" for name in names)

    async def within(self, work: Awaitable[T]) -> T:
        """Wait for a work. Where it takes long, Discord is told that the answer comes later."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task], timeout=_PATIENCE)
            response = self.interaction.response
            if not task.done() and not response.is_done():
                try:
                    await _responded(self.interaction, response.defer(ephemeral=True, thinking=True))
                except FAULTS as error:  # the work goes on; whether it can be answered shows then
                    _log.debug("a command could not be put off: %s", error)
            return await task
        finally:
            task.cancel()

    async def answer(
        self,
        text: str = "",
        *,
        embed: EmbedContent | None = None,
        file: tuple[str, bytes] | None = None,
        view: discord.ui.View | None = None,
        public: bool = False,
    ) -> None:
        """Answer. What took long is answered to whoever asked, whatever `public` says.

        Raises:
            discord.DiscordException: Discord does not take the answer.
        """
        interaction = self.interaction
        files = [discord.File(io.BytesIO(file[1]), file[0])] if file else []
        shown: dict[str, Any] = {
            "content": clipped(text, LIMIT) or MISSING,
            "embeds": [embed_of(embed)] if embed else [],
            "view": view or MISSING,
            "allowed_mentions": discord.AllowedMentions.none(),
        }
        if interaction.response.type is discord.InteractionResponseType.deferred_channel_message:
            await _responded(interaction, interaction.edit_original_response(**shown, attachments=files))
            return
        shown |= {"files": files, "ephemeral": not public}
        if interaction.response.is_done():
            await _responded(interaction, interaction.followup.send(**shown, wait=True))
        else:
            await _responded(interaction, interaction.response.send_message(**shown))

    async def replace(self, text: str) -> None:
        """Put a text in place of the message whose button was pressed, and of its buttons.

        Raises:
            discord.DiscordException: Discord does not take it.
        """
        interaction, nobody = self.interaction, discord.AllowedMentions.none()
        response = interaction.response
        edit = interaction.edit_original_response if response.is_done() else response.edit_message
        await _responded(interaction, edit(content=text, view=None, allowed_mentions=nobody))

    async def fail(self, error: Exception) -> None:
        """Log an error, and tell whoever used the command: what it says, to admins alone. Raises nothing."""
        if isinstance(error, app_commands.CommandInvokeError):
            error = error.original
        what = _named(self.interaction)
        if isinstance(error, discord.HTTPException) and error.code in _TOO_LATE:
            _log.debug("%s came to nothing: %s", what, error)
            return
        text = _logged(self.interaction, error)
        try:
            detail = f"\n{escape_line(str(error), _DETAIL)}" if isinstance(error, PixiError) else ""
            await self.answer(self.say(text) + (detail if self.may_see_all else ""))
        except FAULTS as late:
            _log.debug("%s could not be answered: %s", what, late)


Use = Callable[[discord.Interaction], Invocation]
"""Makes the use of a command from what Discord told of it."""


def embed_of(told: EmbedContent) -> discord.Embed:
    """Make an embed as Discord shows it."""
    embed = discord.Embed(title=told.title, description=told.text or None, color=COLOR)
    for field in told.fields:
        embed.add_field(name=field.name, value=field.value, inline=field.inline)
    return embed


async def _responded(interaction: discord.Interaction, responding: Awaitable[object]) -> None:
    """Respond. A server that tells nothing of a response that it took has taken it all the same."""
    try:
        await responding
    except UNREADABLE as error:
        if not interaction.response.is_done():
            raise
        _log.debug("what Discord tells of an answer could not be read: %r", error)


def _logged(interaction: discord.Interaction, error: Exception) -> str:
    """Log an error; gives the key of what people are told."""
    what = _named(interaction)
    if isinstance(error, _OUTDATED):
        _log.info("%s was used as it is not any more: %s", what, error)
        return "says.outdated"
    if isinstance(error, StoreError):
        _log.error("%s: %s", what, error)
        return "says.records"
    if isinstance(error, (PixiError, *FAULTS)):
        _log.warning("%s: %s", what, " ".join(str(error).split()) or type(error).__name__)
    else:
        _log.error("%s broke", what, exc_info=error)
    return "says.broken"


def _named(interaction: discord.Interaction) -> str:
    command = interaction.command
    name = command.qualified_name if command is not None else interaction.custom_id or "a command"
    return f"{name} of user {interaction.user.id}"
