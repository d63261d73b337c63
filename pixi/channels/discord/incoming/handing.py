"""Handing a message over: with what it carries, what it rests on, and what was said before it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import discord

from pixi.channels.carried import Carried
from pixi.channels.channel import Channel
from pixi.channels.discord.access import is_blocked
from pixi.channels.discord.address import ConversationAddress
from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.incoming.attachments import AttachmentReader
from pixi.channels.discord.incoming.message import (
    author_of,
    carried_by,
    is_written,
    recent_message_of,
    referenced,
    replied_to,
    text_of,
)
from pixi.channels.discord.incoming.quoting import Quoting, title_of
from pixi.channels.discord.incoming.recent import RecentMessage, RecentMessages
from pixi.channels.discord.incoming.wording import NO_WORDS
from pixi.channels.discord.places import Askers, guild_id_of
from pixi.channels.discord.requests import channel_label, send_request
from pixi.channels.discord.rules import Rules
from pixi.core.errors import ChannelError, StoreError
from pixi.core.message import Author, Image, Message, Quoted

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

_SECONDS = 5.0  # for reading a channel's history
_READING = 20.0  # seconds for all that one message carries


class Speaking(Protocol):
    """The channels in which personas speak."""

    def channel(self, target: "MessageableChannel", persona: str, /) -> Channel:
        """The place where this persona acts."""
        ...

    def excuse(self, target: "MessageableChannel", persona: str, /) -> None:
        """Tell people there that what was said to this persona cannot be answered now."""
        ...

    def persona_behind(self, message: discord.Message, /) -> str | None:
        """Which resident posted this message of a webhook of ours; None: it is none of ours."""
        ...


class Handing:
    """Makes of a message on Discord what the house takes.

    Args:
        house: where messages go.
        speaking: gives the channels to answer in.
        recent: what was said lately.
        askers: finds out who wrote what is read from the history.
        bot: the bot's own user.
    """

    def __init__(
        self,
        backend: BotBackend,
        speaking: Speaking,
        recent: RecentMessages,
        askers: Askers,
        bot: discord.abc.User,
    ) -> None:
        self._backend = backend
        self._speaking = speaking
        self._recent = recent
        self._askers = askers
        self._bot = bot
        self._quoting = Quoting(recent, askers, self.persona_behind)
        self._reader = AttachmentReader()

    def persona_behind(self, message: discord.Message) -> str:
        """The resident who posted a message by a webhook; "" for everybody else's."""
        return (self._speaking.persona_behind(message) or "") if message.webhook_id else ""

    def conversation(self, channel_id: int, persona: str) -> str:
        """The address of a persona's conversation in a channel."""
        return str(ConversationAddress(self._bot.id, channel_id, persona))

    async def hand_over(
        self, message: discord.Message, meant: Sequence[str], rules: Rules, *, answers_known: bool
    ) -> None:
        """Give a message to each of these personas, after what it has not been told of yet.

        Args:
            message: as it came.
            meant: the personas.
            rules: as they are now.
            answers_known: the message that it answers was given to somebody here, with what it carries.

        Raises:
            PixiError: it could not be given to one of them.
        """
        group = guild_id_of(message.channel) is not None
        if group and self._recent.wants_past(message.channel.id):
            await self._read_past(message, rules)
        text, images = await self.told(message, rules)
        reply_to = replied_to(message)
        for persona in meant:
            quoted = await self._quoting.rests_on(message, persona, self._bot, rules)
            shown: tuple[Image, ...] = ()
            if not images and not answers_known:
                quoted, shown = await self._with_pictures(message, quoted, rules)
            handed = Message(
                id=str(message.id),
                conversation=self.conversation(message.channel.id, persona),
                author=self._author(author_of(message), self.persona_behind(message)),
                text=text,
                sent_at=_sent_at(message.id),
                reply_to=str(reply_to) if reply_to else None,
                images=images or shown,
                group=group,
                quoted=quoted,
            )
            await self._give(handed, message, persona)
            self._recent.tell(message.channel.id, persona, message.id)

    async def _give(self, handed: Message, message: discord.Message, persona: str) -> None:
        """Let the house have it, after what others said before it. People are told where it cannot."""
        channel = self._speaking.channel(message.channel, persona)
        try:
            await self._tell_of_others(message, persona, handed.quoted, channel)
            await self._backend.receive(handed, channel)
        except StoreError:
            self._speaking.excuse(message.channel, persona)
            raise

    async def told(self, message: discord.Message, rules: Rules) -> tuple[str, tuple[Image, ...]]:
        """The text of a message with what it carries, and its pictures where they can be seen."""
        text = text_of(message, self._bot, rules.text_characters)
        if isinstance(message.channel, discord.Thread) and message.id == message.channel.id:
            text = f"{title_of(message.channel)}\n{text}"
        carried = await self._carried(message, rules, sees=self._sees(message))
        return "\n".join(part for part in (text, carried.text) if part) or NO_WORDS, carried.images

    async def _with_pictures(
        self, message: discord.Message, quoted: tuple[Quoted, ...], rules: Rules
    ) -> tuple[tuple[Quoted, ...], tuple[Image, ...]]:
        """The same, with what the answered message carries read too: people ask about others' pictures."""
        above = referenced(message)
        if above is None or not quoted or quoted[-1].id != str(above.id) or quoted[-1].author is None:
            return quoted, ()
        if not (above.attachments or above.message_snapshots):
            return quoted, ()
        carried = await self._carried(above, rules, sees=self._sees(message))
        text = text_of(above, self._bot, rules.text_characters)
        told = "\n".join(part for part in (text, carried.text) if part)
        return (*quoted[:-1], Quoted(quoted[-1].id, quoted[-1].author, told)), carried.images

    async def _carried(self, message: discord.Message, rules: Rules, *, sees: bool) -> Carried:
        """What a message carries; where it takes too long to be had, only named: others wait meanwhile."""
        try:
            async with asyncio.timeout(_READING):
                return await self._reader.read(message, rules, sees=sees)
        except TimeoutError:
            _log.warning("what message %s carries could not be read in time", message.id)
            return Carried("\n".join(carried_by(message)))

    async def _tell_of_others(
        self, message: discord.Message, persona: str, quoted: Sequence[Quoted], channel: Channel
    ) -> None:
        """What others said since the persona was last told, but for what it is quoted anyway."""
        known = {each.id for each in quoted}
        for remark in self._recent.untold(message.channel.id, persona, message.id):
            if remark.text and str(remark.id) not in known:
                overheard = Message(
                    id=str(remark.id),
                    conversation=self.conversation(message.channel.id, persona),
                    author=self._author(remark.author, remark.persona),
                    text=remark.text,
                    sent_at=_sent_at(remark.id),
                    addressed=False,
                    reply_to=str(remark.reply_to) if remark.reply_to else None,
                    group=True,
                )
                await self._backend.receive(overheard, channel)

    async def _read_past(self, message: discord.Message, rules: Rules) -> None:
        """Remember what was said before the first message that was meant for us here."""
        if rules.overhear <= 0:
            return

        async def read() -> list[discord.Message]:
            return [each async for each in message.channel.history(limit=rules.overhear, before=message)]

        try:
            past = await send_request(read, "history", seconds=_SECONDS)
        except ChannelError as error:
            _log.info("what was said before in %s is not known: %s", channel_label(message.channel), error)
            return
        for earlier in reversed(past):
            if is_written(earlier) and not self._recent.find(message.channel.id, earlier.id):
                remark = recent_message_of(earlier, self._bot, self.persona_behind(earlier))
                if await self._may_be_overheard(earlier, remark, rules):
                    self._recent.add(message.channel.id, remark)

    async def _may_be_overheard(self, message: discord.Message, remark: RecentMessage, rules: Rules) -> bool:
        if remark.ours:
            return True
        asker = await self._askers.of(message, rules, ask=False)
        if asker is None or is_blocked(rules, asker):
            return False
        return bool(remark.persona) or rules.bots or not asker.is_bot

    def _author(self, author: Author, persona: str) -> Author:
        """The author, by the persona's name where a resident speaks."""
        there = self._backend.personas.get(persona) if persona else None
        return author if there is None else Author(author.id, there.name, is_bot=True)

    def _sees(self, message: discord.Message) -> bool:
        return self._backend.sees(str(ConversationAddress(self._bot.id, message.channel.id)))


def _sent_at(message_id: int) -> float:
    """Seconds since the epoch, as the id tells them."""
    return discord.utils.snowflake_time(message_id).timestamp()
