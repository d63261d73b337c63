"""What becomes of a command that fails: one line for the operator, and one for whoever used it."""

import logging

import discord
from discord import app_commands

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.outgoing.formatting import escape_line
from pixi.channels.discord.requests import FAULTS
from pixi.channels.discord.slash.invocation import Invocation
from pixi.channels.discord.slash.translations import Translations
from pixi.core.errors import PixiError, StoreError

_log = logging.getLogger("pixi.discord")

_UNKNOWN_INTERACTION = 10062  # it was not answered within three seconds
_ANSWERED_ALREADY = 40060  # by another process with the same token
_OUTDATED = (
    app_commands.CommandNotFound,
    app_commands.CommandSignatureMismatch,
    app_commands.TransformerError,
)
_DETAIL = 500


class CommandErrors:
    """Tells of what went wrong; raises nothing itself."""

    def __init__(self, backend: BotBackend, words: Translations) -> None:
        self._backend = backend
        self._words = words

    async def tell(self, interaction: discord.Interaction, error: Exception) -> None:
        """Log an error, and tell whoever used the command. What it says is for admins alone."""
        if isinstance(error, app_commands.CommandInvokeError):
            error = error.original
        if isinstance(error, discord.HTTPException) and error.code in (
            _UNKNOWN_INTERACTION,
            _ANSWERED_ALREADY,
        ):
            _log.debug("%s came to nothing: %s", _named(interaction), error)
            return
        text = self._logged(interaction, error)
        try:
            use = Invocation(interaction, self._backend, self._words)
            detail = f"\n{escape_line(str(error), _DETAIL)}" if isinstance(error, PixiError) else ""
            await use.answer(use.say(text) + (detail if use.may_see_all else ""))
        except FAULTS as late:
            _log.debug("%s could not be answered: %s", _named(interaction), late)

    def _logged(self, interaction: discord.Interaction, error: Exception) -> str:
        """Log it; gives the key of what people are told."""
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
