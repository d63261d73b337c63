"""A channel on Discord, as a place where one persona acts; and all of them."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import discord
from msgspec.structs import replace

from pixi.channels.discord.archive.archive import archive_of
from pixi.channels.discord.backend import BotBackend, parse_address
from pixi.channels.discord.formatting import one_line, without_misleading_markup, without_pings
from pixi.channels.discord.incoming.message import IncomingMessage
from pixi.channels.discord.incoming.recent import RecentMessages
from pixi.channels.discord.outgoing.approvals import Approvals
from pixi.channels.discord.outgoing.content import MessageContent, picture_content, post_card
from pixi.channels.discord.outgoing.delivery import NONCE_SECONDS, Delivery, PostingContext
from pixi.channels.discord.outgoing.emoji import (
    find_emoji,
    names_of,
    own_emoji,
    own_stickers,
    sticker_content,
    with_own_emoji,
)
from pixi.channels.discord.outgoing.identities import Profiles, Webhooks
from pixi.channels.discord.outgoing.splitting import split
from pixi.channels.discord.permissions import Directory, missing_permissions
from pixi.channels.discord.places import (
    MESSAGEABLE,
    channel_label,
    guild_id_of,
    guild_in,
    runs_all_shards,
    runs_shard_of,
    venue_of,
)
from pixi.channels.discord.requests import UNKNOWN_CHANNEL, DiscordRefused, send_request
from pixi.core.channel import TAKEN_OVER, Archive, Channel, Question
from pixi.core.errors import ChannelElsewhere, ChannelError, ChannelForgot, ChannelLost, PixiError
from pixi.core.events import Failed, Performed, TurnEnded, TurnEvent, Verdict
from pixi.core.message import Abilities, Card, Picture, Rights, Venue

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

NOTICE = "-# Something went wrong; please try again in a minute."
"""The notice where a reply broke before anything of it was seen, and the persona has no words for it."""

_OPEN_SECONDS = 30.0  # for asking about a channel
_TYPING_SECONDS = 10.0  # the sign itself lasts no longer
_REMEMBERED = 100  # ids of our own messages
_TAKEN_FROM_HERE = "another process took this one for dead, and goes on with the conversation"
_EXCUSE_SECONDS = 10.0  # for an excuse, which is of no use later


class DiscordChannel(Channel):
    """One persona in one channel, thread or DM.

    Made anew it is the same, but for the ids of what was posted last; so it is kept only while used.
    """

    paced = True  # people expect somebody who types

    def __init__(self, context: PostingContext, target: "MessageableChannel", persona: str) -> None:
        self.target = target
        self._context = context
        self._persona = persona
        self._posted: list[int] = []  # each counts for one message only
        self._posting = asyncio.Lock()  # one message after the other, in the order in which they were given
        self._closed: DiscordRefused | None = None  # why nothing can be posted in this turn
        self._seen = False  # people saw something of this turn, whatever became of the turn itself
        self._failed = False
        self._told = ""  # the last refusal, of which the log knows already

    @property
    def venue(self) -> Venue:
        """Return the kind of place, and who reads along."""
        return venue_of(self.target)

    @property
    def abilities(self) -> Abilities:
        """The server's stickers and what was written in it, where the rules let personas use them."""
        rules = self._context.backend.rules
        return Abilities(
            stickers=names_of(own_stickers(self.target)) if rules.stickers else (),
            archive=self.archive is not None,
        )

    @property
    def archive(self) -> Archive | None:
        """Return the server's earlier messages, while the rules allow that; None in a direct message."""
        return archive_of(self._context, self.target) if self._context.backend.rules.read_history else None

    async def rights(self, person: str) -> Rights:
        """Return what a person may do here, as Discord and the rules have it now."""
        return await self._context.directory.rights(self.target, person, self._context.backend.rules)

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Ask a person by a message with two buttons; `nobody` too where it cannot be posted."""
        approvals = self._context.approvals
        if approvals is None or self._closed is not None:
            return "nobody"

        async def post(content: MessageContent, mentions: discord.AllowedMentions) -> int:
            async with self._posting:
                posted = await self._delivery(content, question.nonce, mentions=mentions).post_as_bot()
            self._remember(posted)
            return posted

        return await approvals.ask(
            question,
            post,
            channel=self.target.id,
            guild=guild_in(self.target),
            persona=self._persona,
            seconds=seconds,
        )

    def parts(self, text: str) -> Sequence[str]:
        """Return the messages that a text needs, with the server's own emoji in place of their names.

        What is split is looked at again: a cut may make another thing of what stood in the middle of a line.
        """
        hosts = self._context.backend.rules.link_hosts
        text = with_own_emoji(text, own_emoji(self.target) if ":" in text else ())
        parts = split(without_misleading_markup(text, hosts=hosts))
        return tuple(again for part in parts for again in split(without_misleading_markup(part, hosts=hosts)))

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Post a message; gives its id. It pings nobody but the author of `answers`, if it names them.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: Discord refused it; what closes the channel is not tried again in this turn.
        """
        delivery = self._message(text, nonce, _number(answers), point=_number(reply_to))
        return await self._post(delivery.post, "message")

    async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
        """Post a card; gives its id. It pings nobody. Where Discord takes no box there, it comes as text.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: Discord refused it.
        """

        async def post(content: MessageContent) -> int:
            return await self._delivery(content, nonce, _number(answers)).post()

        boxes, files = self._may_post("box"), self._may_post("file")
        return await self._post(lambda: post_card(card, post, boxes=boxes, files=files), "card")

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Post a picture; gives its id. A link stands alone in its message: Discord shows what is behind it.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: it cannot be shown there, or Discord refused it.
        """
        files = self._may_post("file")
        return await self._show(lambda: picture_content(picture, files=files), "picture", nonce, answers)

    async def sticker(self, name: str, *, nonce: str, answers: str | None = None) -> str | None:
        """Post one of the server's stickers; gives its id. Under a face of its own, as the sticker's picture.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: there is none like it, or Discord refused it.
        """
        own = own_stickers(self.target)
        return await self._show(
            lambda: sticker_content(name, own, as_link=self._by_webhook), "sticker", nonce, answers
        )

    @property
    def _by_webhook(self) -> bool:
        """Return True if personas speak by webhooks, which need none of the bot's permissions."""
        return self._context.backend.rules.faces == "webhook"

    def _may_post(self, what: str) -> bool:
        return self._by_webhook or not missing_permissions(self.target, what)

    async def _show(
        self, make: Callable[[], MessageContent], what: str, nonce: str, answers: str | None
    ) -> str | None:
        try:
            content = make()
        except ChannelError as error:
            raise self._impossible(error) from None
        delivery = self._delivery(content, nonce, _number(answers))
        return await self._post(delivery.post if content.sticker is None else delivery.post_as_bot, what)

    def _impossible(self, error: ChannelError) -> ChannelError:
        """Tell the operator why something was not even tried; returns the error."""
        self._told = str(error)
        _log.info("%s: %s", channel_label(self.target), self._told)
        return error

    async def _post(self, post: Callable[[], Awaitable[int]], what: str) -> str | None:
        if self._closed is not None:
            raise DiscordRefused(str(self._closed), code=self._closed.code, status=self._closed.status)
        try:
            with self._watched(what):
                async with self._posting:
                    posted = await post()
        except DiscordRefused as error:
            if error.closed:
                self._closed = error
            raise
        self._remember(posted)
        return str(posted) if posted else None

    @contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        """Note whether Discord takes what is done, and tell the operator what it refuses."""
        try:
            yield
        except DiscordRefused as error:
            self._told = str(error)
            self._context.refused(self.target, what, error)
            raise
        self._context.accepted(self.target.id, what)
        self._seen = True

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Put a reaction on a message: an emoji, a shortcode, the name of one of the server's own.

        Raises:
            ChannelError: there is no such emoji, or Discord refused it.
        """
        message = _number(message_id)
        if message is None:
            raise ChannelError("There is no such message.")
        names = await self._context.emoji_names()
        persona = self._context.backend.personas.get(self._persona)
        found = find_emoji(emoji, names, own_emoji(self.target), persona.language if persona else "en")
        if found is None:
            raise self._impossible(ChannelError(f"There is no emoji {one_line(emoji)!r}."))
        put = found if isinstance(found, str) else f"{found.name}:{found.id}"
        with self._watched("reaction"):
            await send_request(
                lambda: self._context.client.http.add_reaction(self.target.id, message, put),
                "reaction",
                patience=self._context.backend.rules.patience_seconds,
            )

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Return the id of our message after that one which is this part.

        None too where the history is closed while Discord still knows the nonce: posted again, it would be
        the same message.

        Raises:
            ChannelForgot: the history does not tell, and posted now it might be there twice.
            ChannelLost: the same, but the history may be read later.
        """
        earlier = _number(after)
        try:
            found = await self._message(text, nonce, earlier, after=earlier).find()
        except ChannelForgot:
            if self._knows_nonces_since(earlier):
                return None
            raise
        if found is None and not text and self._by_webhook:
            raise ChannelForgot("a webhook posts a sticker as a link, so nobody knows which one it was.")
        if found is None:
            return None
        self._remember(found)
        return str(found)

    def _knows_nonces_since(self, earlier: int | None) -> bool:
        """Return whether Discord still remembers the nonces of what was posted after that message."""
        if earlier is None or self._by_webhook:
            return False  # of a webhook's messages it never learned one
        age = time.time() - discord.utils.snowflake_time(earlier).timestamp()
        return abs(age) < NONCE_SECONDS  # by a clock that jumped back it lies ahead

    async def typing(self) -> None:
        """Show for ten seconds that the bot is writing. Where Discord cannot be reached, nothing is shown.

        Raises:
            ChannelError: it cannot be shown.
        """
        if self._closed is None:
            http, channel_id = self._context.client.http, self.target.id
            with suppress(ChannelLost):
                await send_request(lambda: http.send_typing(channel_id), "typing", seconds=_TYPING_SECONDS)

    def show(self, event: TurnEvent) -> None:
        """Tell the operator what went wrong; and people, where a turn broke of which nothing was seen."""
        match event:
            case Performed():
                self._seen = True
            case Failed(text):
                self._failed = True
                text = _TAKEN_FROM_HERE if text == TAKEN_OVER else text
                if text != self._told:
                    _log.warning("%s: %s", channel_label(self.target), " ".join(text.split()))
            case TurnEnded(finish):
                if finish == "error" and self._failed and not self._seen and self._closed is None:
                    self.excuse()
                self._closed, self._seen, self._failed = None, False, False

    # Messages.

    def _message(
        self,
        text: str,
        nonce: str,
        answered: int | None,
        *,
        after: int | None = None,
        point: int | None = None,
    ) -> Delivery:
        context = self._context
        person = context.author_of(self.target, answered)
        content = MessageContent(context.with_author_mentioned(self.target, text, answered, person))
        mentions = context.allowed_mentions(person)
        return self._delivery(content, nonce, answered, mentions=mentions, after=after, point=point)

    def _delivery(
        self,
        content: MessageContent,
        nonce: str,
        answered: int | None = None,
        *,
        mentions: discord.AllowedMentions | None = None,
        after: int | None = None,
        point: int | None = None,
    ) -> Delivery:
        """Make a delivery, which pings nobody unless told whom.

        Args:
            content: what is posted.
            nonce: the same whenever it is tried again.
            answered: id of the message that the turn answers.
            mentions: whom it may ping.
            after: id of a message that comes before it; None: of the last one that is known to.
            point: id of the message that it points at; None: of the one answered, where others spoke since.
        """
        mentions = mentions or discord.AllowedMentions.none()
        if self._context.elsewhere:
            content = replace(content, text=without_pings(content.text, mentions))
        return Delivery(
            context=self._context,
            target=self.target,
            persona=self._persona,
            content=content,
            nonce=nonce,
            mentions=mentions,
            after=after or self._after(answered),
            point=point or self._worth_pointing_at(answered),
            taken=self._posted,
        )

    def _remember(self, posted: int) -> None:
        if posted:
            self._posted.append(posted)
            del self._posted[:-_REMEMBERED]

    def _after(self, answered: int | None) -> int | None:
        """Return the id of what is known to stand before the next message."""
        return max(answered, self._posted[-1] if self._posted else 0) if answered else None

    def _worth_pointing_at(self, answered: int | None) -> int | None:
        """Return the message answered, where others spoke since it and since what we said to it last."""
        if answered is None:
            return None
        latest = self._context.recent.latest_by_others(self.target.id)
        return answered if latest > max(answered, self._posted[-1] if self._posted else 0) else None

    # Notices.

    def excuse(self) -> None:
        """Tell people that what was said to it cannot be answered now; not more often than once a minute.

        It is no act of a turn: nothing of it is on record, since that may be just what cannot be done.
        """
        if self._context.may_excuse(self.target.id):
            self._context.beside(self._post_excuse())

    async def _post_excuse(self) -> None:
        persona = self._context.backend.personas.get(self._persona)
        words = secrets.choice(persona.when_broken) if persona and persona.when_broken else ""
        delivery = self._delivery(MessageContent(words or NOTICE), secrets.token_hex(8))
        try:
            async with asyncio.timeout(_EXCUSE_SECONDS), self._posting:
                await (delivery.post() if words else delivery.post_as_bot())
        except (ChannelError, TimeoutError) as error:
            _log.info("no notice in channel %s: %s", self.target.id, error)


def _number(written: str | None) -> int | None:
    """Return an id of Discord's; None for what is none."""
    return int(written) if written and written.isdecimal() else None


class DiscordChannels:
    """The channels of one bot. Each lives as long as somebody holds it, and costs nothing after that.

    Args:
        client: the bot; its requests are all that is needed of it.
        backend: rules and personas.
        recent: what was said lately.
        approvals: asks people for their yes; None: nobody can be asked.
        elsewhere: the server is another than Discord.

    Attributes:
        directory: looks up members.
    """

    def __init__(
        self,
        client: discord.Client,
        backend: BotBackend,
        recent: RecentMessages,
        approvals: Approvals | None = None,
        *,
        elsewhere: bool = False,
    ) -> None:
        self.directory = Directory(client)
        self._profiles = Profiles(client, backend)
        webhooks = Webhooks(client, backend)
        self._context = PostingContext(
            client, backend, recent, self.directory, webhooks, approvals, elsewhere
        )
        self._alive: WeakValueDictionary[tuple[int, str], DiscordChannel] = WeakValueDictionary()

    def channel(self, target: "MessageableChannel", persona: str) -> DiscordChannel:
        """Return where a persona speaks in a channel, thread or direct message."""
        self._context.prepare()
        channel = self._alive.get((target.id, persona))
        if channel is None:
            channel = self._alive[target.id, persona] = DiscordChannel(self._context, target, persona)
        elif not isinstance(target, discord.PartialMessageable):
            channel.target = target  # it may be known better now
        return channel

    async def open(self, address: str) -> DiscordChannel | None:
        """Open the channel of an address; None where it is gone, or is not ours.

        A channel that Discord does not tell about now can be spoken in all the same.

        Raises:
            ChannelElsewhere: it belongs to a shard of another process; or where there are such, and nobody
                knows where it belongs, it may.
        """
        try:
            wanted = parse_address(address)
        except PixiError:
            return None
        client = self._context.client
        if client.user is not None and client.user.id != wanted.bot:
            return None
        persona = wanted.persona or self._context.backend.default_persona
        target = client.get_channel(wanted.channel)
        if target is None:
            try:
                target = await send_request(
                    lambda: client.fetch_channel(wanted.channel), "channel", seconds=_OPEN_SECONDS
                )
            except ChannelError as error:
                if isinstance(error, DiscordRefused) and (
                    error.status == 403 or error.code == UNKNOWN_CHANNEL
                ):
                    return None
                _log.info("channel %s is not told about: %s", wanted.channel, error)
        if target is None:
            if not runs_all_shards(client):
                raise ChannelElsewhere(f"Channel {wanted.channel} may be another process's.")
            return self.channel(client.get_partial_messageable(wanted.channel), persona)
        if not runs_shard_of(client, guild_id_of(target)):
            raise ChannelElsewhere(f"Channel {wanted.channel} is another process's.")
        return self.channel(target, persona) if isinstance(target, MESSAGEABLE) else None

    def persona_behind(self, message: IncomingMessage) -> str:
        """Return the persona that posted a message by one of our webhooks; "" for every other message."""
        if not message.webhook:
            return ""
        webhooks = self._context.webhooks
        return webhooks.persona_of(message.webhook, message.application, message.account) or ""

    async def show_as(self, guild: discord.Guild, persona: str) -> None:
        """Show as a persona in a server, where the rules want that (`profile`). Nothing is raised."""
        if self._context.backend.rules.faces == "profile":
            await self._profiles.show_as(guild, persona)

    async def close(self) -> None:
        """End what is done beside."""
        await self._context.close()
