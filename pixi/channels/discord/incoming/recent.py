"""The messages before a message: the last of each channel in memory, and more of its history."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct, field
from msgspec.structs import replace

from pixi.channels.discord.incoming.message import IncomingMessage, MessageTranslator
from pixi.channels.discord.permissions import Directory
from pixi.core.errors import ChannelError
from pixi.core.lru import LRU
from pixi.core.message import Author, Message, Quoted
from pixi.settings.rules import Rules, is_blocked

_log = logging.getLogger("pixi.discord")

_CHANNELS = 1_000  # that are remembered; the one where nothing was said for longest goes first
_MORE = 10  # messages kept beyond those that are told of: the bot's own count too
_SEEN = 10_000  # ids of messages that were heard
_CHAIN = 5  # messages that answer one another, at most
_REQUESTS = 3  # for one such chain

PersonaBehind = Callable[[IncomingMessage], str]
"""Gives the name of the persona that posted a message by a webhook; "" for everybody else's."""


class RecentMessage(Struct, frozen=True):
    """A message as it is remembered.

    Attributes:
        text: with names in place of markup, and no longer than a few thousand characters.
        reply_to: id of the message that it replies to.
        persona: the name of the persona that posted it by a webhook; "" for everybody else.
        ours: the bot's own user posted it.
    """

    id: int
    author: Author
    text: str
    reply_to: int | None = None
    persona: str = ""
    ours: bool = False

    @classmethod
    def of(cls, message: IncomingMessage, persona: str = "") -> "RecentMessage":
        """Return what is remembered of a message, which a persona may have posted by a webhook."""
        return cls(message.id, message.author, message.described(), message.reply_to, persona, message.ours)

    @classmethod
    def recorded(cls, message: Message) -> "RecentMessage":
        """Return who wrote a message that another process recorded, without its words."""
        return cls(int(message.id), message.author, "")

    def quoted(self, persona: str) -> Quoted:
        """Return it as a persona is told of it."""
        own = self.ours or self.persona == persona
        return Quoted(str(self.id), None if own else self.author, self.text)


class _Channel(Struct):
    """The last messages of a channel in order of id, and up to where each persona was told of them."""

    messages: OrderedDict[int, RecentMessage] = field(default_factory=OrderedDict)
    told: dict[str, int] = field(default_factory=dict)
    latest_by_others: int = 0
    past_is_read: bool = False
    bot_turns: int = 0  # since a person spoke


class RecentMessages:
    """The last messages of the channels where something was said lately.

    Args:
        overhear: gives how many messages before the one that addresses it a persona is told of.
    """

    def __init__(self, overhear: Callable[[], int]) -> None:
        self._overhear = overhear
        self._channels: LRU[int, _Channel] = LRU(_CHANNELS)
        self._seen: LRU[int, bool] = LRU(_SEEN)

    def is_new(self, message_id: int) -> bool:
        """Return whether a message is heard for the first time; from now on it is known."""
        is_new = self._seen.get(message_id) is None
        self._seen.put(message_id, True)
        return is_new

    def unsee(self, message_id: int) -> None:
        """Forget that a message was heard: it could not be dealt with, and may come again."""
        self._seen.drop(message_id)

    def add(self, channel_id: int, message: RecentMessage) -> None:
        """Remember what was said; a message that is known already is replaced."""
        channel = self._channel(channel_id)
        late = bool(channel.messages) and message.id < next(reversed(channel.messages))
        channel.messages[message.id] = message
        if late:  # it was read from the history
            channel.messages = OrderedDict(sorted(channel.messages.items()))
        while len(channel.messages) > self._overhear() + _MORE:
            channel.messages.popitem(last=False)
        if not (message.ours or message.persona):
            self.somebody_spoke(channel_id, message.id)

    def somebody_spoke(self, channel_id: int, message_id: int) -> None:
        """Note that others wrote there, whether or not it is remembered what."""
        channel = self._channel(channel_id)
        channel.latest_by_others = max(channel.latest_by_others, message_id)

    def edit(self, channel_id: int, message_id: int, text: str) -> None:
        """Replace the text of a message that was edited."""
        if message := self.find(channel_id, message_id):
            self._channel(channel_id).messages[message_id] = replace(message, text=text)

    def delete(self, channel_id: int, message_id: int) -> None:
        """Drop a message that was deleted."""
        if channel := self._channels.get(channel_id):
            channel.messages.pop(message_id, None)

    def forget(self, person: str | None = None) -> None:
        """Drop all that a person wrote, by the id of the author; None: all that anybody wrote."""
        for channel_id in self._channels:
            channel = self._channel(channel_id)
            for message in [*channel.messages.values()]:
                if person is None or message.author.id == person:
                    del channel.messages[message.id]

    def leave(self, channel_id: int) -> None:
        """Drop a channel that is gone."""
        self._channels.drop(channel_id)

    def find(self, channel_id: int, message_id: int) -> RecentMessage | None:
        """Return what is remembered of a message."""
        channel = self._channels.get(channel_id)
        return channel.messages.get(message_id) if channel else None

    def latest_by_others(self, channel_id: int) -> int:
        """Return the id of the last message there that the bot did not post; 0: unknown."""
        channel = self._channels.get(channel_id)
        return channel.latest_by_others if channel else 0

    # Turns of bots and personas among themselves: what ends every loop.

    def person_spoke(self, channel_id: int) -> None:
        """Let bots and personas take turns there anew."""
        self._channel(channel_id).bot_turns = 0

    def take_bot_turn(self, channel_id: int, limit: int) -> bool:
        """Take a turn in answer to a bot or a persona; False where all are taken until a person speaks."""
        channel = self._channel(channel_id)
        if channel.bot_turns >= limit:
            return False
        channel.bot_turns += 1
        return True

    # What a persona was told.

    def wants_past(self, channel_id: int) -> bool:
        """Return whether what was said before should be read from the channel's history. True once."""
        channel = self._channel(channel_id)
        wants, channel.past_is_read = not channel.past_is_read, True
        return wants

    def is_stranger(self, channel_id: int, persona: str) -> bool:
        """Return whether a persona was told of nothing yet that was said there."""
        return persona not in self._channel(channel_id).told

    def was_told(self, channel_id: int, persona: str, message_id: int) -> bool:
        """Return whether a persona was told of everything up to this message."""
        return message_id <= self._channel(channel_id).told.get(persona, 0)

    def untold(self, channel_id: int, persona: str, before: int) -> list[RecentMessage]:
        """Return what a persona has not been told of yet of the last messages before one, oldest first.

        What the persona or the bot's own user said is not among it: their history holds it.
        """
        channel = self._channel(channel_id)
        told, limit = channel.told.get(persona, 0), self._overhear()
        earlier = [
            message
            for message in channel.messages.values()
            if message.id < before and not message.ours and message.persona != persona
        ]
        return [message for message in earlier[max(0, len(earlier) - limit) :] if message.id > told]

    def tell(self, channel_id: int, persona: str, up_to: int) -> None:
        """Note that a persona was told of everything up to this message."""
        told = self._channel(channel_id).told
        told[persona] = max(told.get(persona, 0), up_to)

    def _channel(self, channel_id: int) -> _Channel:
        channel = self._channels.get(channel_id) or _Channel()
        self._channels.put(channel_id, channel)
        return channel


class EarlierMessages:
    """Reads from Discord what was said before a message and is not remembered.

    Args:
        recent: what is remembered.
        reader: reads.
        directory: finds out who wrote what is read.
        persona_behind: tells which persona did.
    """

    def __init__(
        self,
        recent: RecentMessages,
        reader: MessageTranslator,
        directory: Directory,
        persona_behind: PersonaBehind,
    ) -> None:
        self._recent = recent
        self._reader = reader
        self._directory = directory
        self._persona_behind = persona_behind

    async def remember_past(self, message: IncomingMessage, rules: Rules) -> None:
        """Remember what was said before the first message that was meant for us in a channel."""
        channel = message.channel
        if channel.guild is None or rules.overhear <= 0 or not self._recent.wants_past(channel.id):
            return
        try:
            past = await self._reader.history(channel, before=message.id, limit=rules.overhear)
        except ChannelError as error:
            _log.info("what was said before in %s is not known: %s", channel.label, error)
            return
        for earlier in reversed(past):
            if earlier.is_written and not self._recent.find(channel.id, earlier.id):
                persona = self._persona_behind(earlier)
                if earlier.ours or await self._may_be_overheard(earlier, persona, rules):
                    self._recent.add(channel.id, RecentMessage.of(earlier, persona))

    async def quoted(self, message: IncomingMessage, persona: str, rules: Rules) -> tuple[Quoted, ...]:
        """Return what a message rests on, oldest first, as a persona is told of it; without blocked people.

        It is what the message answers, one above the other. To a persona that is new in a thread it begins
        with the thread's title and first message.
        """
        chain = [each.quoted(persona) for each in await self._answered(message, persona, rules)]
        if self._recent.is_stranger(message.channel.id, persona):
            start = await self._start_of_thread(message, persona, rules)
            if start is not None:
                chain = [start, *(quoted for quoted in chain if quoted.id != start.id)]
        return tuple(chain)

    async def _answered(self, message: IncomingMessage, persona: str, rules: Rules) -> list[RecentMessage]:
        """Follow replies upwards, as far as it is worth the requests."""
        channel, found, requests = message.channel, list[RecentMessage](), _REQUESTS
        above, wanted = message.replied, message.reply_to
        while wanted is not None and len(found) < _CHAIN and all(each.id != wanted for each in found):
            known = self._recent.find(channel.id, wanted)
            if known is None:
                if above is None or above.id != wanted:
                    requests -= 1
                    above = (
                        await _or_none(self._reader.fetch(channel, wanted), wanted) if requests >= 0 else None
                    )
                if above is None or not await self._may_be_quoted(above, rules):
                    break
                known = RecentMessage.of(above, self._persona_behind(above))
            if self._recent.was_told(channel.id, persona, known.id):
                requests = 0  # the history tells the rest
            found.append(known)
            wanted, above = known.reply_to, above.replied if above is not None else None
        return found[::-1]

    async def _start_of_thread(self, message: IncomingMessage, persona: str, rules: Rules) -> Quoted | None:
        channel = message.channel
        if message.id == channel.id:
            return None
        first = await _or_none(self._reader.opening(channel), channel.id)
        if first is None or not await self._may_be_quoted(first, rules):
            return None
        quoted = RecentMessage.of(first, self._persona_behind(first)).quoted(persona)
        return Quoted(quoted.id, quoted.author, f"{thread_title(message)}\n{quoted.text}".strip())

    async def _may_be_quoted(self, message: IncomingMessage, rules: Rules) -> bool:
        who = await self._directory.requester(message, rules)
        return message.is_written and who is not None and not is_blocked(rules, who)

    async def _may_be_overheard(self, message: IncomingMessage, persona: str, rules: Rules) -> bool:
        who = await self._directory.requester(message, rules, ask=False)
        if who is None or is_blocked(rules, who):
            return False
        return bool(persona) or rules.bots or not who.is_bot


async def _or_none(reading: Awaitable[IncomingMessage | None], message_id: int) -> IncomingMessage | None:
    try:
        return await reading
    except ChannelError as error:
        _log.debug("message %s could not be read, and is not quoted: %s", message_id, error)
        return None


def thread_title(message: IncomingMessage) -> str:
    """Return the title of a message's thread, as a persona is told of it; "" where it is in none."""
    return f"[thread: {message.channel.title}]" if message.channel.title else ""
