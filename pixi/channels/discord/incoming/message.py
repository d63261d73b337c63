"""The border: a message of discord.py becomes an `IncomingMessage`.

It is translated once. Nothing that decides about a message asks discord.py again.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import discord
from msgspec import Struct, field

from pixi.channels.discord.formatting import one_line
from pixi.channels.discord.places import ChannelInfo, channel_info, roles_of
from pixi.channels.discord.requests import send_request
from pixi.core.message import Author
from pixi.settings.rules import Rules

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

NO_WORDS = "(no words)"
"""The text in place of a message that holds nothing to be read, such as a mention alone."""

NameOf = Callable[[int], str | None]

_NAMED = 4_000  # characters of a message that is overheard or quoted: Discord's own limit
_EMBED = 1_000  # characters of what a bot shows in a box
_SECONDS = 5.0  # for one question to Discord; a message waits
_MARKUP = re.compile(
    r"<(?:(?P<user>@!?)|(?P<role>@&)|(?P<channel>\#)|a?:(?P<emoji>\w{1,64}):|/(?P<command>[^<>\n:]{1,100}):)"
    r"(?P<id>\d{1,20})>"
)
_WRITTEN = (
    discord.MessageType.default,
    discord.MessageType.reply,
    discord.MessageType.chat_input_command,
    discord.MessageType.context_menu_command,
)


class IncomingAttachment(Struct, frozen=True):
    """A file that a message carries; all but `id` and `size` (bytes) are strangers' words."""

    id: int
    name: str
    media_type: str
    size: int
    url: str
    description: str = ""


class IncomingMessage(Struct, frozen=True, kw_only=True):
    """A message that was written on Discord. All that is text in it are strangers' words.

    Attributes:
        is_written: somebody wrote it; joins, pins and boosts are told by Discord itself.
        is_edited: it has been edited.
        ours: the bot's own user posted it.

        author: who wrote it, by the name that others see there; the id is a webhook's where one posted it.
        account: the author's own name, which is not shown where there is another.
        roles: ids of the author's roles; None: Discord did not send them along.
        webhook, application: ids of the webhook that posted it, and of its application; 0: none, or unknown.

        content: as it was written, with Discord's markup.
        text: the beginning of that, with names in place of markup.
        mentions_bot: it mentions the bot's user, or the role that Discord made for the bot.
        mentions_others: it mentions somebody else than the bot and its author.
        reply_to: id of the message that it replies to. A forwarded message is no answer to it.
        replied: that message, where Discord sent it along and it stands in the same channel: who reads an
            answer may not be able to read another channel.

        attachments: its own, and those of messages that it forwards.
        forwarded: the text of each message that it forwards.
        stickers: their names.
        poll: question and answers; "" for none.
        embeds: what a bot shows in boxes.
    """

    id: int
    channel: ChannelInfo
    is_written: bool
    is_edited: bool
    ours: bool

    author: Author
    account: str
    roles: frozenset[int] | None
    webhook: int
    application: int

    content: str
    text: str
    mentions_bot: bool
    mentions_others: bool
    reply_to: int | None
    replied: "IncomingMessage | None"

    attachments: tuple[IncomingAttachment, ...]
    forwarded: tuple[str, ...]
    stickers: tuple[str, ...]
    poll: str
    embeds: tuple[str, ...]

    def words(self, characters: int) -> str:
        """Return the words, with names in place of markup; where more were written, that is told."""
        more = len(self.content) - characters
        if more <= 0:
            return self.text
        return f"{self.text[:characters]}\n[… {more:,} more characters, not read]".strip()

    def described(self) -> str:
        """Return the words, and what the message carries besides them: named, not read."""
        return "\n".join(part for part in (self.words(_NAMED), *self.carried()) if part)

    def carried(self) -> Iterator[str]:
        """Name what the message carries besides its words."""
        if self.attachments:
            names = ", ".join(f'"{one_line(each.name)}"' for each in self.attachments)
            yield f"[attached: {names}]"
        for sticker in self.stickers:
            yield f"[sticker: {one_line(sticker)}]"
        for text in self.forwarded:
            yield f"[forwarded from elsewhere:]\n{text[:_NAMED]}"
        yield from self.embeds


class MarkupNames(Struct, frozen=True):
    """The names behind the ids in a message's markup.

    Attributes:
        ours: ids of the bot's user and of the role that Discord made for it.
        user, role, channel: give the name of an id; None where it is not known.
    """

    ours: Collection[int] = ()
    user: NameOf = field(default=lambda _: None)
    role: NameOf = field(default=lambda _: None)
    channel: NameOf = field(default=lambda _: None)


class MessageTranslator:
    """Translates messages, and reads earlier ones.

    Args:
        bot: the bot's own user.
        rules: gives the rules as they are now.
    """

    def __init__(self, bot: discord.abc.User, rules: Callable[[], Rules]) -> None:
        self.bot = bot
        self._rules = rules

    def read(self, message: discord.Message) -> IncomingMessage:
        """Translate a message."""
        return translate(message, self.bot, names_in(message, self.bot), self._rules().text_characters)

    async def history(self, channel: ChannelInfo, *, before: int, limit: int) -> list[IncomingMessage]:
        """Return the last messages of a channel before one, newest first.

        Raises:
            ChannelError: Discord does not tell.
        """

        async def ask() -> list[discord.Message]:
            earlier = channel.target.history(limit=limit, before=discord.Object(before))
            return [each async for each in earlier]

        return [self.read(each) for each in await send_request(ask, "history", seconds=_SECONDS)]

    async def fetch(self, channel: ChannelInfo, message_id: int) -> IncomingMessage:
        """Return one message of a channel.

        Raises:
            ChannelError: it is gone, or Discord does not tell.
        """
        return await self._fetched(channel.target, message_id)

    async def opening(self, channel: ChannelInfo) -> IncomingMessage | None:
        """Return the first message of a thread; None where it is in no thread, or in a private one.

        Raises:
            ChannelError: it is gone, or Discord does not tell.
        """
        return await self._fetched(channel.opening, channel.id) if channel.opening is not None else None

    async def _fetched(self, target: "MessageableChannel", message_id: int) -> IncomingMessage:
        return self.read(
            await send_request(lambda: target.fetch_message(message_id), "message", seconds=_SECONDS)
        )


def sent_at(message_id: int) -> float:
    """Return when a message was sent, in seconds since the epoch, as its id tells."""
    return discord.utils.snowflake_time(message_id).timestamp()


def translate(
    message: discord.Message, bot: discord.abc.User, names: MarkupNames, characters: int
) -> IncomingMessage:
    """Translate a message of discord.py.

    Args:
        message: as it came.
        bot: the bot's own user.
        names: stand in place of its markup.
        characters: so many of its text are looked at.
    """
    content, author, reply_to = message.content, message.author, _replied_to(message)
    own_role = _own_role(message)
    replied = message.reference.resolved if message.reference is not None else None
    if not isinstance(replied, discord.Message) or replied.channel.id != message.channel.id:
        replied = None
    snapshots = message.message_snapshots
    return IncomingMessage(
        id=message.id,
        channel=channel_info(message.channel),
        is_written=message.type in _WRITTEN,
        is_edited=message.edited_at is not None,
        ours=author.id == bot.id,
        author=Author(
            str(author.id),
            one_line(author.display_name) or one_line(author.name) or str(author.id),
            is_bot=author.bot or message.webhook_id is not None,
        ),
        account=author.name,
        roles=roles_of(author) if isinstance(author, discord.Member) and message.guild else None,
        webhook=message.webhook_id or 0,
        application=message.application_id or 0,
        content=content,
        text=named_markup(content[:characters], names),
        mentions_bot=own_role is not None
        or any(user.id == bot.id for user in message.mentions)
        or f"<@{bot.id}>" in content
        or f"<@!{bot.id}>" in content,
        mentions_others=message.mention_everyone
        or any(user.id not in (bot.id, author.id) for user in message.mentions)
        or any(role.id != own_role for role in message.role_mentions),
        reply_to=reply_to,
        replied=translate(replied, bot, names_in(replied, bot), characters) if replied else None,
        attachments=tuple(
            _attachment(each)
            for each in (*message.attachments, *(file for it in snapshots for file in it.attachments))
        ),
        forwarded=tuple(each.content for each in snapshots if each.content.strip()),
        stickers=tuple(sticker.name for sticker in message.stickers),
        poll=_poll(message),
        embeds=tuple(_embeds(message)) if author.bot else (),
    )


def names_in(message: discord.Message, bot: discord.abc.User) -> MarkupNames:
    """Tell what the ids in a message stand for, as far as its author may know."""
    guild = message.guild
    users = {user.id: user.display_name for user in message.mentions}
    me: discord.Member | None = guild.me if guild is not None else None
    users[bot.id] = (me or bot).display_name
    own_role = _own_role(message)

    def role(role_id: int) -> str | None:
        found = guild.get_role(role_id) if guild is not None else None
        return found.name if found is not None else None

    def channel(channel_id: int) -> str | None:
        found = guild.get_channel_or_thread(channel_id) if guild is not None else None
        return found.name if found is not None and _may_see(message, found) else None

    return MarkupNames((bot.id,) if own_role is None else (bot.id, own_role), users.get, role, channel)


def named_markup(content: str, names: MarkupNames) -> str:
    """Put `@Name`, `#channel`, `@role`, `:emoji:` and `/command` where a text has ids.

    A mention of the bot that stands by itself at the beginning or the end is left out; nothing else is.
    """

    def named(match: re.Match[str]) -> str:
        known = int(match["id"])
        if match["emoji"]:
            return f":{match['emoji']}:"
        if match["command"]:
            return f"/{match['command']}"
        if match["channel"]:
            return f"#{one_line(names.channel(known) or 'unknown')}"
        name = names.role(known) if match["role"] else names.user(known)
        return f"@{one_line(name or 'unknown')}"

    return _MARKUP.sub(named, _without_own_mention(content, names.ours))


def _without_own_mention(content: str, ours: Collection[int]) -> str:
    marks = "|".join(rf"<@[!&]?{own}>" for own in ours)
    if not marks:
        return content.strip()
    content = re.sub(rf"^(?:\s*(?:{marks})(?=\s|$))+", "", content.strip()).lstrip()
    last_word = re.compile(rf"(?:{marks})$")
    while (match := last_word.search(content, max(0, len(content) - 24))) and (
        match.start() == 0 or content[match.start() - 1].isspace()
    ):
        content = content[: match.start()].rstrip()
    return content


def _replied_to(message: discord.Message) -> int | None:
    reference = message.reference
    if reference is None or reference.type is not discord.MessageReferenceType.default:
        return None
    return reference.message_id if message.type is discord.MessageType.reply else None


def _own_role(message: discord.Message) -> int | None:
    """The role that Discord made for the bot, where it is mentioned; it counts where it pings nobody, too."""
    if "<@&" not in message.content or message.guild is None:
        return None
    role = message.guild.self_role
    return role.id if role is not None and f"<@&{role.id}>" in message.content else None


def _may_see(message: discord.Message, channel: discord.abc.GuildChannel | discord.Thread) -> bool:
    """Return whether its author may know the name of a channel; where nobody can tell, if everybody may."""
    if channel.id == message.channel.id:
        return True
    if isinstance(channel, discord.Thread) and (channel.is_private() or channel.parent is None):
        return False
    everyone: discord.Role | None = channel.guild.default_role
    if everyone is None:
        return True  # the server tells of no roles
    author = message.author
    return channel.permissions_for(author if isinstance(author, discord.Member) else everyone).view_channel


def _attachment(file: discord.Attachment) -> IncomingAttachment:
    media_type = (file.content_type or "").partition(";")[0].strip().lower()
    return IncomingAttachment(file.id, file.filename, media_type, file.size, file.url, file.description or "")


def _poll(message: discord.Message) -> str:
    if message.poll is None:
        return ""
    answers = " / ".join(one_line(answer.text) for answer in message.poll.answers)
    return f"{one_line(message.poll.question)} {answers}".replace('"', "'")


def _embeds(message: discord.Message) -> Iterator[str]:
    for embed in message.embeds:
        if shown := "\n".join(part for part in (embed.title, embed.description) if part):
            yield shown[:_EMBED]
