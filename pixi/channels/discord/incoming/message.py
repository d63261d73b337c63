"""A message of Discord as it is told of: its text, its author, and what it answers."""

from collections.abc import Iterator

import discord

from pixi.channels.discord.incoming.recent import RecentMessage
from pixi.channels.discord.incoming.wording import MarkupNames, named_markup, one_line
from pixi.core.message import Author

_REMEMBERED = 4_000  # characters of a message that is overheard or quoted: Discord's own limit
_EMBED = 1_000  # characters of what a bot shows in a box

_WRITTEN = (
    discord.MessageType.default,
    discord.MessageType.reply,
    discord.MessageType.chat_input_command,
    discord.MessageType.context_menu_command,
)


def is_written(message: discord.Message) -> bool:
    """Whether somebody wrote it: joins, pins and boosts are told by Discord itself."""
    return message.type in _WRITTEN


def text_of(message: discord.Message, bot: discord.abc.User, characters: int) -> str:
    """Its words, as a persona reads them; where they are longer than so many characters, that is told."""
    content = message.content
    text = named_markup(content[:characters], names_in(message, bot))
    if len(content) <= characters:
        return text
    return f"{text}\n[… {len(content) - characters:,} more characters, not read]"


def recent_message_of(message: discord.Message, bot: discord.abc.User, persona: str = "") -> RecentMessage:
    """It, as it is remembered: with what it carries named and not read.

    Args:
        message: as it came.
        bot: the bot's own user.
        persona: the resident who posted it by a webhook; "" for everybody else.
    """
    text = text_of(message, bot, _REMEMBERED)
    return RecentMessage(
        id=message.id,
        author=author_of(message),
        text="\n".join(part for part in (text, *carried_by(message)) if part),
        reply_to=replied_to(message),
        persona=persona,
        ours=message.author.id == bot.id,
    )


def author_of(message: discord.Message) -> Author:
    """Who wrote it, by the name that others see there."""
    author = message.author
    name = one_line(author.display_name) or one_line(author.name) or str(author.id)
    return Author(str(author.id), name, is_bot=author.bot or message.webhook_id is not None)


def replied_to(message: discord.Message) -> int | None:
    """The id of the message that it replies to. A forwarded message is no answer to it."""
    reference = message.reference
    if reference is None or reference.type is not discord.MessageReferenceType.default:
        return None
    return reference.message_id if message.type is discord.MessageType.reply else None


def referenced(message: discord.Message) -> discord.Message | None:
    """The message that it replies to, where Discord sent it along. Only what stands in the same channel is
    told of: whoever reads an answer there may not be able to read another channel."""
    resolved = message.reference.resolved if message.reference is not None else None
    if not isinstance(resolved, discord.Message) or resolved.channel.id != message.channel.id:
        return None
    return resolved


def names_in(message: discord.Message, bot: discord.abc.User) -> MarkupNames:
    """What the ids in its text stand for."""
    guild = message.guild
    users = {user.id: user.display_name for user in message.mentions}
    me: discord.Member | None = guild.me if guild is not None else None
    users[bot.id] = (me or bot).display_name

    def role(role_id: int) -> str | None:
        found = guild.get_role(role_id) if guild is not None else None
        return found.name if found is not None else None

    def channel(channel_id: int) -> str | None:
        found = guild.get_channel_or_thread(channel_id) if guild is not None else None
        return found.name if found is not None and _may_see(message, found) else None

    return MarkupNames((bot.id, *own_roles(message)), users.get, role, channel)


def _may_see(message: discord.Message, channel: discord.abc.GuildChannel | discord.Thread) -> bool:
    """Whether its author may know the name of a channel; where nobody can tell, if everybody may."""
    if channel.id == message.channel.id:
        return True
    if isinstance(channel, discord.Thread) and (channel.is_private() or channel.parent is None):
        return False
    everyone: discord.Role | None = channel.guild.default_role
    if everyone is None:
        return True  # the server tells of no roles
    author = message.author
    return channel.permissions_for(author if isinstance(author, discord.Member) else everyone).view_channel


def own_roles(message: discord.Message) -> tuple[int, ...]:
    """Ids of the mentioned roles that Discord made for the bot; they count where they ping nobody, too."""
    if "<@&" not in message.content or message.guild is None:
        return ()
    role = message.guild.self_role
    return (role.id,) if role is not None and f"<@&{role.id}>" in message.content else ()


def mentions_bot(message: discord.Message, bot: discord.abc.User) -> bool:
    """Whether it mentions the bot, by its user or by its role."""
    marks = (f"<@{bot.id}>", f"<@!{bot.id}>")
    return (
        any(user.id == bot.id for user in message.mentions)
        or bool(own_roles(message))
        or any(mark in message.content for mark in marks)
    )


def is_for_others(message: discord.Message, bot: discord.abc.User) -> bool:
    """Whether it mentions somebody other than the bot and its author."""
    return (
        message.mention_everyone
        or any(user.id not in (bot.id, message.author.id) for user in message.mentions)
        or any(role.id not in own_roles(message) for role in message.role_mentions)
    )


def carried_by(message: discord.Message) -> Iterator[str]:
    """What a message carries besides its words, named and not read."""
    if message.attachments:
        names = ", ".join(f'"{one_line(attachment.filename)}"' for attachment in message.attachments)
        yield f"[attached: {names}]"
    for sticker in message.stickers:
        yield f"[sticker: {one_line(sticker.name)}]"
    for snapshot in message.message_snapshots:
        if snapshot.content.strip():
            yield f"[forwarded from elsewhere:]\n{snapshot.content[:_REMEMBERED]}"
    if message.author.bot:
        for embed in message.embeds:
            shown = "\n".join(part for part in (embed.title, embed.description) if part)
            if shown:
                yield shown[:_EMBED]
