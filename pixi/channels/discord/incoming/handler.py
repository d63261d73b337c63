"""Hearing: who may speak, whom a message is meant for, and what becomes of it when it changes."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.access import Requester, is_blocked, may_talk
from pixi.channels.discord.address import parse_address
from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.incoming.addressing import AddressingFacts, ChannelPersona, who_is_meant
from pixi.channels.discord.incoming.bot_turns import BotTurns
from pixi.channels.discord.incoming.handing import Handing, Speaking
from pixi.channels.discord.incoming.message import (
    is_for_others,
    is_written,
    mentions_bot,
    recent_message_of,
    referenced,
    replied_to,
)
from pixi.channels.discord.incoming.recent import RecentMessages
from pixi.channels.discord.places import Askers, config_ids
from pixi.channels.discord.residents import channel_config, channel_personas
from pixi.channels.discord.rules import Rules
from pixi.core.errors import PixiError

if TYPE_CHECKING:
    from pixi.channels.discord.places import Place

_HANDED = 4_000  # messages of which it is remembered whom they were handed to


@dataclass(frozen=True, slots=True)
class _Handed:
    """Who was given a message, and the fingerprint of its words as they were then."""

    personas: tuple[str, ...]
    words: int


class MessageHandler:
    """Deals with messages one at a time in each channel; its caller sees to that.

    Args:
        house: where messages go.
        speaking: gives the channels to answer in.
        recent: what was said lately.
        askers: finds out who wrote a message.
        bot: the bot's own user.
        since: id below which messages were sent before this process began.
    """

    def __init__(
        self,
        backend: BotBackend,
        speaking: Speaking,
        recent: RecentMessages,
        askers: Askers,
        *,
        bot: discord.abc.User,
        since: int,
    ) -> None:
        self._backend = backend
        self._recent = recent
        self._askers = askers
        self._bot = bot
        self._since = since
        self._handing = Handing(backend, speaking, recent, askers, bot)
        self._bot_turns = BotTurns()
        self._handed: OrderedDict[int, _Handed] = OrderedDict()

    async def hear(self, message: discord.Message) -> None:
        """Hand a message to those whom it is meant for; remember it for the others.

        Raises:
            PixiError: it could not be handed over, and may be heard again.
        """
        if not is_written(message) or not self._recent.is_new(message.id):
            return
        if message.author.id == self._bot.id:
            self._recent.add(message.channel.id, recent_message_of(message, self._bot))
            return
        try:
            await self._hear_others(message, self._backend.rules)
        except PixiError:
            self._recent.unhear(message.id)
            raise

    async def edited(self, message: discord.Message) -> None:
        """A message was edited: what was asked is asked otherwise now. Its words decide, not its boxes.

        Raises:
            PixiError: that could not be recorded.
        """
        if message.author.id == self._bot.id:
            return
        handed = self._handed.get(message.id)
        self._recent.revise(message.channel.id, message.id, recent_message_of(message, self._bot).text)
        if handed is not None:
            personas = handed.personas if handed.words != hash(message.content) else ()
        elif message.id < self._since and message.edited_at is not None:
            personas = self._residents(message.channel)  # the last process may have given it to them
        else:
            personas = ()
        if not personas:
            return
        if handed is not None:
            self._remember(message, personas)
        text, _ = await self._handing.told(message, self._backend.rules)
        for persona in personas:
            conversation = self._handing.conversation(message.channel.id, persona)
            await self._backend.edit(conversation, str(message.id), text)

    async def deleted(self, channel: "Place", message_id: int) -> None:
        """A message was deleted.

        Raises:
            PixiError: that could not be recorded.
        """
        self._recent.withdraw(channel.id, message_id)
        handed = self._handed.pop(message_id, None)
        personas = handed.personas if handed else ()
        if handed is None and message_id < self._since:
            personas = self._residents(channel)
        for persona in personas:
            await self._backend.withdraw(self._handing.conversation(channel.id, persona), str(message_id))

    async def _hear_others(self, message: discord.Message, rules: Rules) -> None:
        channel_id = message.channel.id
        speaker = self._handing.persona_behind(message)
        if not speaker:
            self._recent.somebody_spoke(channel_id, message.id)
        asker = await self._askers.of(message, rules)
        if asker is None or is_blocked(rules, asker) or (asker.is_bot and not speaker and not rules.bots):
            return
        self._recent.add(channel_id, recent_message_of(message, self._bot, speaker))
        if not asker.is_bot:
            self._bot_turns.human_spoke(channel_id)
        if not speaker and not may_talk(rules, asker):
            return
        meant = await self._meant(message, asker, speaker, rules)
        if asker.is_bot:
            meant = tuple(each for each in meant if self._bot_turns.take(channel_id, rules.bot_turns))
        if meant:
            await self._handing.hand_over(
                message, meant, rules, answers_known=replied_to(message) in self._handed
            )
            self._remember(message, meant)

    async def _meant(
        self, message: discord.Message, asker: Requester, speaker: str, rules: Rules
    ) -> tuple[str, ...]:
        names = self._residents(message.channel)
        answered = replied_to(message)
        replies_to = await self._whose(message, answered, names) if answered else None
        answers_others = answered is not None and replies_to is None and not self._is_own(message, answered)
        said = AddressingFacts(
            text=message.content[: rules.text_characters],
            direct=asker.guild is None,
            mentions_bot=mentions_bot(message, self._bot),
            replies_to=replies_to,
            to_others=answers_others or is_for_others(message, self._bot),
            by=speaker,
        )
        there = [ChannelPersona(name, self._words(name)) for name in names]
        return tuple(who_is_meant(said, there, home=self._is_home(message, asker, rules)))

    async def _whose(self, message: discord.Message, answered: int, names: Sequence[str]) -> str | None:
        """The resident whose message it replies to, as `Said.replies_to` tells it."""
        remark, above = self._recent.find(message.channel.id, answered), referenced(message)
        if remark is None and above is not None:
            remark = recent_message_of(above, self._bot, self._handing.persona_behind(above))
        if remark is None or not (remark.ours or remark.persona):
            return None
        if remark.persona or len(names) < 2:
            return remark.persona
        turn = await self._backend.why(str(answered))  # several speak as the bot itself: the record knows who
        return parse_address(turn.conversation).persona if turn else ""

    def _is_own(self, message: discord.Message, answered: int) -> bool:
        """Whether its author answers a message of their own."""
        remark, above = self._recent.find(message.channel.id, answered), referenced(message)
        if remark is not None:
            return remark.author.id == str(message.author.id)
        return above is not None and above.author.id == message.author.id

    def _is_home(self, message: discord.Message, asker: Requester, rules: Rules) -> bool:
        if any(each in rules.home_channels for each in asker.channels):
            return True
        return channel_config(self._backend, self._bot.id, config_ids(message.channel)).home

    def _residents(self, channel: "Place") -> tuple[str, ...]:
        names = channel_personas(self._backend, self._bot.id, config_ids(channel))
        return tuple(name for name in names if name in self._backend.personas)

    def _words(self, name: str) -> tuple[str, ...]:
        persona = self._backend.personas[name]
        return (persona.name, *persona.summon)

    def _remember(self, message: discord.Message, personas: Sequence[str]) -> None:
        self._handed[message.id] = _Handed(tuple(personas), hash(message.content))
        self._handed.move_to_end(message.id)
        if len(self._handed) > _HANDED:
            self._handed.popitem(last=False)
