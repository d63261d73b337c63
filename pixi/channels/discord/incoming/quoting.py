"""What a message rests on: those that it answers, one above the other, and what its thread began with."""

import logging
from collections.abc import Callable

import discord

from pixi.channels.discord.access import is_blocked
from pixi.channels.discord.incoming.message import author_of, is_written, recent_message_of, referenced
from pixi.channels.discord.incoming.recent import RecentMessage, RecentMessages
from pixi.channels.discord.incoming.wording import one_line
from pixi.channels.discord.places import Askers
from pixi.channels.discord.requests import send_request
from pixi.channels.discord.rules import Rules
from pixi.core.errors import ChannelError
from pixi.core.message import Quoted

_log = logging.getLogger("pixi.discord")

_CHAIN = 5  # messages, at most
_REQUESTS = 3  # for one chain
_SECONDS = 5.0  # for one request

PersonaBehind = Callable[[discord.Message], str]
"""The resident who posted a message by a webhook; "" for everybody else's."""


class Quoting:
    """Follows replies upwards, as far as it is worth the requests."""

    def __init__(self, recent: RecentMessages, askers: Askers, persona_behind: PersonaBehind) -> None:
        self._recent = recent
        self._askers = askers
        self._persona_behind = persona_behind

    async def rests_on(
        self, message: discord.Message, persona: str, bot: discord.abc.User, rules: Rules
    ) -> tuple[Quoted, ...]:
        """What the message answers, oldest first, as this persona is told of it; blocked people left out.

        To a persona that is new in a thread it begins with the thread's title and first message.
        """
        chain = [_quoted(remark, persona) for remark in await self._chain(message, persona, bot, rules)]
        if self._recent.is_stranger(message.channel.id, persona):
            start = await self._start_of_thread(message, persona, bot, rules)
            if start is not None:
                chain = [start, *(quoted for quoted in chain if quoted.id != start.id)]
        return tuple(chain)

    async def _chain(
        self, message: discord.Message, persona: str, bot: discord.abc.User, rules: Rules
    ) -> list[RecentMessage]:
        found: list[RecentMessage] = []
        requests = _REQUESTS
        above, wanted = referenced(message), recent_message_of(message, bot).reply_to
        while wanted is not None and len(found) < _CHAIN and all(remark.id != wanted for remark in found):
            remark = self._recent.find(message.channel.id, wanted)
            if remark is None:
                if above is None or above.id != wanted:
                    requests -= 1
                    above = await self._fetch(message.channel, wanted) if requests >= 0 else None
                if above is None or not is_written(above) or await self._is_blocked(above, rules):
                    break
                remark = recent_message_of(above, bot, self._persona_behind(above))
            if self._recent.was_told(message.channel.id, persona, remark.id):
                requests = 0  # the history tells the rest
            found.append(remark)
            wanted, above = remark.reply_to, referenced(above) if above is not None else None
        return found[::-1]

    async def _start_of_thread(
        self, message: discord.Message, persona: str, bot: discord.abc.User, rules: Rules
    ) -> Quoted | None:
        thread = message.channel
        if not isinstance(thread, discord.Thread) or message.id == thread.id:
            return None
        parent = thread.parent
        if thread.type is discord.ChannelType.private_thread or parent is None:
            return None
        place = thread if isinstance(parent, discord.ForumChannel) else parent
        first = await self._fetch(place, thread.id)
        if first is None or not is_written(first) or await self._is_blocked(first, rules):
            return None
        quoted = _quoted(recent_message_of(first, bot, self._persona_behind(first)), persona)
        text = f"{title_of(thread)}\n{quoted.text}".strip()
        return Quoted(quoted.id, author_of(first) if quoted.author else None, text)

    async def _fetch(self, channel: discord.abc.Messageable, message_id: int) -> discord.Message | None:
        try:
            return await send_request(lambda: channel.fetch_message(message_id), "message", seconds=_SECONDS)
        except ChannelError as error:
            _log.debug("message %s could not be read, and is not quoted: %s", message_id, error)
            return None

    async def _is_blocked(self, message: discord.Message, rules: Rules) -> bool:
        asker = await self._askers.of(message, rules)
        return asker is None or is_blocked(rules, asker)


def title_of(thread: discord.Thread) -> str:
    """The title of a thread, as a persona is told of it."""
    return f"[thread: {one_line(thread.name)}]"


def _quoted(remark: RecentMessage, persona: str) -> Quoted:
    own = remark.ours or remark.persona == persona
    return Quoted(str(remark.id), None if own else remark.author, remark.text)
