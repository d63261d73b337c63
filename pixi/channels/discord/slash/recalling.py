"""The commands that tell what is on record of a channel: thoughts, and what is behind a message."""

import re

import discord

from pixi.channels.discord.access import is_admin
from pixi.channels.discord.address import parse_address
from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.slash.invocation import Invocation
from pixi.channels.discord.slash.translations import Translations
from pixi.channels.discord.slash.why import tell_notes, tell_why
from pixi.core.errors import PixiError
from pixi.core.language import SEND
from pixi.store.kept import TurnRecord

_TURNS = 30  # in which the latest thoughts are looked for
_ID = r"(?P<id>\d{1,20})"
_REFERENCE = re.compile(
    rf"\s*<?(?:https?://[^\s<>]{{1,200}}?/channels/(?:@me|\d{{1,20}})/(?P<channel>\d{{1,20}})/)?{_ID}/?>?\s*"
)


class RecordCommands:
    """`/notes`, `/why`, and the latter in the menu of a message."""

    def __init__(self, backend: BotBackend, words: Translations) -> None:
        self._backend = backend
        self._words = words

    async def notes(self, interaction: discord.Interaction, public: bool = False) -> None:
        """Show the latest thoughts about what was said in a channel."""
        use = Invocation(interaction, self._backend, self._words)
        if public and interaction.guild_id is not None and not is_admin(self._backend.rules, use.asker):
            await use.answer(use.say("says.managers"))
            return
        told = tell_notes(await use.within(self._records(use)), use.say)
        if told is None:
            await use.answer(use.say("says.notes.nothing"))
        else:
            await use.answer(told=told, public=public)

    async def why(self, interaction: discord.Interaction, message: str | None = None) -> None:
        """Show what is behind a message of ours in this channel: the one of a link or id, or the last."""
        use = Invocation(interaction, self._backend, self._words)
        if message is None:
            spoken = [each for each in await use.within(self._records(use)) if _spoke(each)]
            if spoken:
                await use.answer(told=tell_why(spoken[-1], use.say))
            else:
                await use.answer(use.say("says.why.silent"))
            return
        match = _REFERENCE.fullmatch(message)
        if match is None:
            await use.answer(use.say("says.why.unreadable"))
        elif match["channel"] and int(match["channel"]) != use.channel:
            await use.answer(use.say("says.why.elsewhere"))
        else:
            await self._tell_why(use, match["id"])

    async def why_this(self, interaction: discord.Interaction, message: discord.Message) -> None:
        """Show what is behind the message whose menu was opened."""
        await self._tell_why(Invocation(interaction, self._backend, self._words), str(message.id))

    async def _tell_why(self, use: Invocation, message_id: str) -> None:
        record = await use.within(self._backend.why(message_id))
        if record is None:
            await use.answer(use.say("says.why.strange"))
        elif not _was_here(record, use):
            await use.answer(use.say("says.why.elsewhere"))
        else:
            await use.answer(told=tell_why(record, use.say))

    async def _records(self, use: Invocation) -> list[TurnRecord]:
        """The last turns of all who live in a channel, oldest first."""
        records = [
            record
            for conversation in use.conversations
            for record in await self._backend.turns(conversation, _TURNS)
        ]
        return sorted(records, key=lambda record: (record.began, record.id))[-_TURNS:]


def _spoke(record: TurnRecord) -> bool:
    return any(effect.kind == SEND and effect.outcome == "done" for effect in record.effects)


def _was_here(record: TurnRecord, use: Invocation) -> bool:
    """Whether a turn was in the channel where somebody asks; what was said elsewhere is not told here."""
    try:
        address = parse_address(record.conversation)
    except PixiError:
        return False
    return (address.bot, address.channel) == (use.bot, use.channel)
