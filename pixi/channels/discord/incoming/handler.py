"""Handles messages: decides who may speak and who is meant, and gives the engine what belongs to it."""

import asyncio
import logging
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pixi.channels.discord.backend import (
    ALL_ADDRESSES,
    BotBackend,
    ConversationAddress,
    channel_config,
    channel_personas,
    parse_address,
)
from pixi.channels.discord.incoming.attachments import AttachmentReader
from pixi.channels.discord.incoming.message import NO_WORDS, IncomingMessage, MessageTranslator, sent_at
from pixi.channels.discord.incoming.recent import EarlierMessages, RecentMessage, RecentMessages, thread_title
from pixi.channels.discord.outgoing.channel import DiscordChannels
from pixi.channels.discord.places import ChannelInfo
from pixi.core.channel import Channel
from pixi.core.errors import PixiError, StoreError
from pixi.core.lru import LRU
from pixi.core.message import Attached, Author, Image, Message, Quoted
from pixi.settings.rules import Requester, Rules, is_blocked, may_talk

_log = logging.getLogger("pixi.discord")

Why = Literal["dm", "mention", "reply", "name", "home"]


class ChannelPersona(Struct, frozen=True):
    """A persona of a channel: the name of its file, and the words that it listens to."""

    name: str
    words: tuple[str, ...]


class AddressingFacts(Struct, frozen=True):
    """The facts by which a message is meant for a persona.

    Attributes:
        text: as it was written, with Discord's markup.
        direct: it is a direct message.
        mentions_bot: it mentions the bot's user, or the role that Discord made for the bot.
        replies_to: the persona whose message it replies to; "" where it is the bot's and nobody knows
            whose; None: it replies to no message of ours.
        to_others: it mentions somebody else, or replies to somebody else.
        by: the persona that wrote it; "" for everybody else.
    """

    text: str
    direct: bool = False
    mentions_bot: bool = False
    replies_to: str | None = None
    to_others: bool = False
    by: str = ""


def who_is_meant(facts: AddressingFacts, personas: Sequence[ChannelPersona], *, home: bool) -> dict[str, Why]:
    """Return the personas that are meant, in the order of the channel, each with the first reason.

    Whoever is named or replied to is meant. Where nobody is, a direct message, a mention of the bot, and
    in a `home` channel every message that is for nobody else, are meant for the first. No persona is
    meant by its own words, and at home personas speak to each other by name alone.
    """
    others = [persona for persona in personas if persona.name != facts.by]
    folded = _without_markup(facts.text)
    meant: dict[str, Why] = {}
    for persona in others:
        if persona.name == facts.replies_to:
            meant[persona.name] = "reply"
        elif any(stands_in(word, folded) for word in map(fold, persona.words) if word):
            meant[persona.name] = "name"
    if meant or not others:
        return meant
    first = others[0].name
    if facts.direct:
        return {first: "dm"}
    if facts.replies_to is not None and not (facts.by and facts.by == facts.replies_to):
        return {first: "reply"}
    if facts.mentions_bot:
        return {first: "mention"}
    return {first: "home"} if home and not facts.to_others and not facts.by else {}


def fold(text: str) -> str:
    """Fold a text: upper and lower case, and compatible forms of a letter (ｐｉｘｉ), become the same."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", text).translate(_INVISIBLE)


def stands_in(word: str, text: str) -> bool:
    """Return whether a text holds a word as a whole word; both are folded already.

    In scripts that are written without spaces it counts wherever its characters stand. Takes time in
    proportion to the text, whatever strangers write.
    """
    start = text.find(word)
    while start >= 0:
        if _opens(text, start) and _closes(text, start + len(word)):
            return True
        start = text.find(word, start + 1)
    return False


_MARKUP = re.compile(r"<(?:@[!&]?|\#|a?:\w{1,64}:|/[^<>\n:]{1,100}:)\d{1,20}>")

_INVISIBLE = dict.fromkeys(
    (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x200B, 0x2010), 0x2060, 0xFEFF)
)
"""Variation selectors, joiners and marks of direction: they do not make another word."""

_WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # signs that stand for ideographs
    (0x3040, 0x312F),  # Hiragana, Katakana, Bopomofo
    (0x31F0, 0x31FF),  # Katakana, more
    (0x3400, 0x4DBF),  # ideographs
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)

_KOREAN_ENDINGS = frozenset(
    (
        "아", "야", "이야", "여", "이여", "가", "이", "이가", "은", "는", "이는", "을", "를", "이를",
        "와", "과", "도", "이도", "만", "이만", "의", "이의", "에게", "한테", "께", "께서", "랑", "이랑",
        "하고", "양", "군", "씨", "씨가", "씨는", "씨도", "님", "님아", "님이", "님은", "님도", "쨩", "짱",
    )
)  # fmt: skip
"""Endings that Korean writes to a name without a space between."""


def _without_markup(text: str) -> str:
    """Return the folded text without mentions, emoji and addresses of pages: names in these call nobody."""
    words = _MARKUP.sub(" ", text).split()
    return fold(" ".join(word for word in words if "://" not in word))


def _opens(text: str, start: int) -> bool:
    return start == 0 or not _binds(text[start]) or not _binds(text[start - 1])


def _closes(text: str, end: int) -> bool:
    if end == len(text):
        return True
    if unicodedata.category(text[end]).startswith("M"):
        return False  # a mark that makes another letter of the last one
    if not _binds(text[end - 1]) or not _binds(text[end]):
        return True
    return _is_hangul(text[end - 1]) and _korean_run(text, end) in _KOREAN_ENDINGS


def _binds(character: str) -> bool:
    """Return True if a character makes one word with a letter beside it."""
    if not (character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")):
        return False
    code = ord(character)
    return code < 0x0E00 or not any(first <= code <= last for first, last in _WITHOUT_SPACES)


def _is_hangul(character: str) -> bool:
    return "가" <= character <= "힣"


def _korean_run(text: str, start: int) -> str:
    """Return what follows until the word ends; more than any ending is as good as all of it."""
    end = start
    while end < len(text) and end - start < 4 and _binds(text[end]):
        end += 1
    return text[start:end]


_GIVEN = 4_000  # messages of which it is remembered whom they were given to
_READING = 20.0  # seconds for all that one message carries


def _leave_alone(message: IncomingMessage, why: str) -> None:
    _log.debug("message %s in channel %s is left alone: %s", message.id, message.channel.id, why)


class _Given(Struct, frozen=True):
    """The personas that were given a message, and the fingerprint of its words as they were then."""

    personas: tuple[str, ...]
    words: int


class MessageHandler:
    """Deals with messages; its caller sees to it that those of a channel come one at a time.

    Args:
        backend: where messages go.
        channels: where personas answer.
        recent: what was said lately.
        reader: reads what was said before.
        since: id below which messages were sent before this process began.
    """

    def __init__(
        self,
        backend: BotBackend,
        channels: DiscordChannels,
        recent: RecentMessages,
        reader: MessageTranslator,
        *,
        since: int,
    ) -> None:
        self._backend = backend
        self._channels = channels
        self._recent = recent
        self._bot = reader.bot.id
        self._since = since
        self._earlier = EarlierMessages(recent, reader, channels.directory, channels.persona_behind)
        self._attachments = AttachmentReader()
        self._given: LRU[int, _Given] = LRU(_GIVEN)
        # Messages not taken by the store, of which people were told.
        self._excused: LRU[int, bool] = LRU(_GIVEN)

    async def handle(self, message: IncomingMessage) -> None:
        """Give a message to the personas that it is for; remember it for the others.

        Raises:
            PixiError: it could not be given to one of them, and may be handled again.
        """
        if not message.is_written or not self._recent.is_new(message.id):
            return
        if message.ours:
            self._recent.add(message.channel.id, RecentMessage.of(message))
            return
        try:
            await self._handle_others(message, self._backend.rules)
        except PixiError:
            self._recent.unsee(message.id)
            self._recent.delete(message.channel.id, message.id)  # else it would be recorded as overheard
            raise
        self._excused.drop(message.id)

    async def edited(self, message: IncomingMessage) -> None:
        """Pass on that a message was edited, or that Discord added a box to it.

        Raises:
            PixiError: that could not be recorded.
        """
        if message.ours:
            return
        given = self._given.get(message.id)
        self._recent.edit(message.channel.id, message.id, message.described())
        if given is not None:
            personas = given.personas if given.words != hash(message.content) else ()
        elif message.id < self._since and message.is_edited:
            personas = self._personas(message.channel)  # the last process may have given it to them
        else:
            personas = ()
        if given is not None and personas:
            self._remember(message, personas)
        text = (await self._whole(message, self._backend.rules))[0] if personas else ""
        for persona in personas:
            await self._backend.engine.edit(self._address(message.channel, persona), str(message.id), text)

    async def deleted(self, channel: ChannelInfo, message_id: int) -> None:
        """Pass on that a message was deleted.

        Raises:
            PixiError: that could not be recorded.
        """
        self._recent.delete(channel.id, message_id)
        given = self._given.get(message_id)
        self._given.drop(message_id)
        personas = given.personas if given else ()
        if given is None and message_id < self._since:
            personas = self._personas(channel)
        for persona in personas:
            await self._backend.engine.withdraw(self._address(channel, persona), str(message_id))

    # Who may speak, and whom it is for.

    async def _handle_others(self, message: IncomingMessage, rules: Rules) -> None:
        channel = message.channel
        speaker = self._channels.persona_behind(message)
        if not speaker:
            self._recent.somebody_spoke(channel.id, message.id)
        who = await self._channels.directory.requester(message, rules)
        if who is None or is_blocked(rules, who) or (who.is_bot and not speaker and not rules.bots):
            _leave_alone(message, "its author is blocked, a bot, or unknown")
            return
        self._recent.add(channel.id, RecentMessage.of(message, speaker))
        if not who.is_bot:
            self._recent.person_spoke(channel.id)
        if not speaker and not may_talk(rules, who):
            _leave_alone(message, "its author may not talk with the bot")
            return
        meant = await self._meant(message, who, speaker, rules)
        if who.is_bot:
            meant = tuple(each for each in meant if self._recent.take_bot_turn(channel.id, rules.bot_turns))
        if meant:
            await self._give(message, meant, rules)
            self._remember(message, meant)
        else:
            _leave_alone(message, "no persona is meant")

    async def _meant(
        self, message: IncomingMessage, who: Requester, speaker: str, rules: Rules
    ) -> tuple[str, ...]:
        names = self._personas(message.channel)
        replies_to = await self._replied_persona(message, names)
        answers_others = message.reply_to is not None and replies_to is None and not self._is_own(message)
        facts = AddressingFacts(
            text=message.content[: rules.text_characters],
            direct=message.channel.guild is None,
            mentions_bot=message.mentions_bot,
            replies_to=replies_to,
            to_others=answers_others or message.mentions_others,
            by=speaker,
        )
        personas = [(name, self._backend.personas[name]) for name in names]
        there = [ChannelPersona(name, (each.name, *each.summon)) for name, each in personas]
        return tuple(who_is_meant(facts, there, home=self._is_home(message.channel, who, rules)))

    async def _replied_persona(self, message: IncomingMessage, names: Sequence[str]) -> str | None:
        """Return the persona whose message is replied to, as `AddressingFacts.replies_to` tells it."""
        if message.reply_to is None:
            return None
        answered, above = self._recent.find(message.channel.id, message.reply_to), message.replied
        if answered is None and above is not None:
            answered = RecentMessage.of(above, self._channels.persona_behind(above))
        if answered is None or not (answered.ours or answered.persona):
            return None
        if answered.persona or len(names) < 2:
            return answered.persona
        # Several speak as the bot itself: the record knows who.
        turn = await self._backend.store.turn_behind(ALL_ADDRESSES, str(message.reply_to))
        return parse_address(turn.conversation).persona if turn else ""

    def _is_own(self, message: IncomingMessage) -> bool:
        """Return whether its author answers a message of their own."""
        answered = self._recent.find(message.channel.id, message.reply_to or 0) or message.replied
        return answered is not None and answered.author.id == message.author.id

    def _is_home(self, channel: ChannelInfo, who: Requester, rules: Rules) -> bool:
        if any(each in rules.home_channels for each in who.channels):
            return True
        return channel_config(self._backend, self._bot, channel.config_ids).home

    def _personas(self, channel: ChannelInfo) -> tuple[str, ...]:
        names = channel_personas(self._backend, self._bot, channel.config_ids)
        return tuple(name for name in names if name in self._backend.personas)

    def _remember(self, message: IncomingMessage, personas: Sequence[str]) -> None:
        self._given.put(message.id, _Given(tuple(personas), hash(message.content)))

    # With what it is given.

    async def _give(self, message: IncomingMessage, personas: Sequence[str], rules: Rules) -> None:
        """Give a message to each of these personas, after what it has not been told of yet."""
        await self._earlier.remember_past(message, rules)
        text, images = await self._whole(message, rules)
        # What it answers was shown with its pictures to somebody here, if it was given to them.
        shows_answered = not images and (
            message.reply_to is None or self._given.get(message.reply_to) is None
        )
        speaker = self._channels.persona_behind(message)
        for persona in personas:
            quoted = await self._earlier.quoted(message, persona, rules)
            shown: tuple[Image, ...] = ()
            if shows_answered:
                quoted, shown = await self._with_pictures(message, quoted, rules)
            given = Message(
                id=str(message.id),
                conversation=self._address(message.channel, persona),
                author=self._author(message.author, speaker),
                text=text,
                sent_at=sent_at(message.id),
                reply_to=str(message.reply_to) if message.reply_to else None,
                images=images or shown,
                group=message.channel.guild is not None,
                quoted=quoted,
            )
            channel = self._channels.channel(message.channel.target, persona)
            try:
                await self._tell_of_others(message, persona, quoted, channel)
                await self._backend.receive(given, channel)
            except StoreError:
                if self._excused.get(message.id) is None:
                    self._excused.put(message.id, True)
                    channel.excuse()
                raise
            self._recent.tell(message.channel.id, persona, message.id)

    async def _tell_of_others(
        self, message: IncomingMessage, persona: str, quoted: Sequence[Quoted], channel: Channel
    ) -> None:
        """Tell what others said since the persona was last told, but for what it is quoted anyway."""
        known = {each.id for each in quoted}
        for other in self._recent.untold(message.channel.id, persona, message.id):
            if other.text and str(other.id) not in known:
                overheard = Message(
                    id=str(other.id),
                    conversation=self._address(message.channel, persona),
                    author=self._author(other.author, other.persona),
                    text=other.text,
                    sent_at=sent_at(other.id),
                    addressed=False,
                    reply_to=str(other.reply_to) if other.reply_to else None,
                    group=True,
                )
                await self._backend.receive(overheard, channel)

    async def _whole(self, message: IncomingMessage, rules: Rules) -> tuple[str, tuple[Image, ...]]:
        """Return the text of a message with what it carries, and its pictures where they can be seen."""
        text = message.words(rules.text_characters)
        if message.id == message.channel.id and (title := thread_title(message)):
            text = f"{title}\n{text}"
        carried = await self._carried(message, rules)
        return "\n".join(part for part in (text, carried.text) if part) or NO_WORDS, carried.images

    async def _with_pictures(
        self, message: IncomingMessage, quoted: tuple[Quoted, ...], rules: Rules
    ) -> tuple[tuple[Quoted, ...], tuple[Image, ...]]:
        """Read what the answered message carries too: people ask about others' pictures."""
        above = message.replied
        if above is None or not quoted or quoted[-1].id != str(above.id) or quoted[-1].author is None:
            return quoted, ()
        if not (above.attachments or above.forwarded):
            return quoted, ()
        carried = await self._carried(above, rules)
        words = above.words(rules.text_characters)
        told = "\n".join(part for part in (words, carried.text) if part)
        return (*quoted[:-1], replace(quoted[-1], text=told)), carried.images

    async def _carried(self, message: IncomingMessage, rules: Rules) -> Attached:
        """Read what a message carries; where that takes too long, only name it: others wait meanwhile."""
        sees = self._backend.sees(self._address(message.channel))
        try:
            async with asyncio.timeout(_READING):
                return await self._attachments.read(message, rules, sees=sees)
        except TimeoutError:
            _log.warning("what message %s carries could not be read in time", message.id)
            return Attached("\n".join(message.carried()))

    def _author(self, author: Author, persona: str) -> Author:
        """Return the author, by the persona's name where a persona speaks."""
        there = self._backend.personas.get(persona) if persona else None
        return author if there is None else Author(author.id, there.name, is_bot=True)

    def _address(self, channel: ChannelInfo, persona: str = "") -> str:
        return str(ConversationAddress(self._bot, channel.id, persona))
