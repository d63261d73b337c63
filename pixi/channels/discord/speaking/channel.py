"""A channel on Discord, as a place where one persona acts."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import discord

from pixi.channels.archive import Archive
from pixi.channels.channel import Channel, Question
from pixi.channels.discord.address import Address
from pixi.channels.discord.refusals import Refused, asked, missing, where
from pixi.channels.discord.speaking import rest
from pixi.channels.discord.speaking.aiming import addressed, author_of, guild_in, own_emoji, pings
from pixi.channels.discord.speaking.cards import post_card
from pixi.channels.discord.speaking.delivery import NONCE_SECONDS, Delivery
from pixi.channels.discord.speaking.emoji import find
from pixi.channels.discord.speaking.markup import without_deceit
from pixi.channels.discord.speaking.mentions import with_own_emoji, without_pings
from pixi.channels.discord.speaking.pictures import picture_content
from pixi.channels.discord.speaking.shared import Shared
from pixi.channels.discord.speaking.splitting import split
from pixi.channels.discord.speaking.standing import venue_of
from pixi.channels.discord.speaking.stickers import names_of, own_stickers, sticker_content
from pixi.channels.discord.wording import one_line
from pixi.core.card import Card
from pixi.core.errors import ChannelError, ChannelForgot, ChannelLost
from pixi.core.events import Failed, Performed, TurnEnded, TurnEvent, Verdict
from pixi.core.picture import Abilities, Picture
from pixi.core.venue import Rights, Venue

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

NOTICE = "-# Something went wrong; please try again in a minute."
"""What people see where a reply broke before anything of it was seen, and the persona has no words for it."""

_TYPING_SECONDS = 10.0  # the sign itself lasts no longer
_REMEMBERED = 100  # ids of our own messages
_EXCUSE_SECONDS = 10.0  # for an excuse, which is of no use later


class DiscordChannel(Channel):
    """One persona in one channel, thread or DM.

    Made anew it is the same, but for the ids of what was posted last; so it is kept only while used.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_failed",
        "_persona",
        "_posted",
        "_posting",
        "_seen",
        "_shared",
        "_told",
        "target",
    )

    paced = True  # people expect somebody who types

    def __init__(self, shared: Shared, target: "MessageableChannel", persona: str) -> None:
        self.target = target
        self._shared = shared
        self._persona = persona
        self._posted: list[int] = []  # each counts for one message only
        self._posting = asyncio.Lock()  # one message after the other, in the order in which they were given
        self._closed: Refused | None = None  # why nothing can be posted in this turn
        self._seen = False  # people saw something of this turn, whatever became of the turn itself
        self._failed = False
        self._told = ""  # the last refusal, of which the log knows already

    @property
    def address(self) -> str:
        """By which `Speakers.open` opens it again."""
        me = self._shared.client.user
        return str(Address(me.id if me else 0, self.target.id, self._persona))

    @property
    def venue(self) -> Venue:
        """Where it is, and who reads it."""
        return venue_of(self.target)

    @property
    def abilities(self) -> Abilities:
        """The server's stickers and what was written in it, where the rules let personas use them."""
        rules = self._shared.house.rules
        return Abilities(
            stickers=names_of(own_stickers(self.target)) if rules.stickers else (),
            archive=self.archive is not None,
        )

    @property
    def archive(self) -> Archive | None:
        """What was written in the server, while the rules let it be read; a direct message has none."""
        return self._shared.archives.of(self.target) if self._shared.house.rules.read_history else None

    async def rights(self, person: str) -> Rights:
        """What a person may do here, as Discord and the rules have it now."""
        return await self._shared.standing.rights(self.target, person, self._shared.house.rules)

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Ask a person by a message with two buttons; `nobody` too where it cannot be posted."""
        approvals = self._shared.approvals
        if approvals is None or self._closed is not None:
            return "nobody"

        async def post(content: rest.Content, mentions: discord.AllowedMentions) -> int:
            async with self._posting:
                posted = await self._parcel(content, question.nonce, mentions).post_as_bot()
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
        hosts = self._shared.house.rules.link_hosts
        text = with_own_emoji(text, own_emoji(self.target) if ":" in text else ())
        parts = split(without_deceit(text, hosts=hosts))
        return tuple(again for part in parts for again in split(without_deceit(part, hosts=hosts)))

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Post a message; gives its id. It pings nobody but the author of `answers`, if it names them.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: Discord refused it; what closes the channel is not tried again in this turn.
        """
        answered = _number(answers)
        after = self._after(answered)
        delivery = self._delivery(text, nonce, answered, after=after, point=_number(reply_to))
        return await self._post(delivery.post, "message")

    async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
        """Post a card; gives its id. It pings nobody. Where Discord takes no box there, it comes as text.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: Discord refused it.
        """
        masked, nobody = self._masked, discord.AllowedMentions.none()
        answered = _number(answers)
        point, after = self._worth_pointing_at(answered), self._after(answered)

        async def post(content: rest.Content) -> int:
            return await self._parcel(content, nonce, nobody, after=after, point=point).post()

        boxes = masked or not missing(self.target, "box")
        files = masked or not missing(self.target, "file")
        return await self._post(lambda: post_card(card, post, boxes=boxes, files=files), "card")

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Post a picture; gives its id. A link stands alone in its message: Discord shows what is behind it.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: it cannot be shown there, or Discord refused it.
        """
        files = self._masked or not missing(self.target, "file")
        return await self._show(lambda: picture_content(picture, files=files), "picture", nonce, answers)

    async def sticker(self, name: str, *, nonce: str, answers: str | None = None) -> str | None:
        """Post one of the server's stickers; gives its id. Under a face of its own, as the sticker's picture.

        Raises:
            ChannelLost: nobody knows whether it was posted.
            ChannelError: there is none like it, or Discord refused it.
        """
        own = own_stickers(self.target)
        return await self._show(
            lambda: sticker_content(name, own, as_link=self._masked), "sticker", nonce, answers
        )

    @property
    def _masked(self) -> bool:
        """Whether personas speak by webhooks, which need none of the bot's permissions."""
        return self._shared.house.rules.faces == "webhook"

    async def _show(
        self, make: Callable[[], rest.Content], what: str, nonce: str, answers: str | None
    ) -> str | None:
        try:
            content = make()
        except ChannelError as error:
            self._told = str(error)
            _log.info("%s: %s", where(self.target), self._told)
            raise
        answered = _number(answers)
        point, after = self._worth_pointing_at(answered), self._after(answered)
        nobody = discord.AllowedMentions.none()
        delivery = self._parcel(content, nonce, nobody, after=after, point=point)
        return await self._post(delivery.post if content.sticker is None else delivery.post_as_bot, what)

    async def _post(self, post: Callable[[], Awaitable[int]], what: str) -> str | None:
        if self._closed is not None:
            raise Refused(str(self._closed), code=self._closed.code, status=self._closed.status)
        try:
            async with self._posting:
                posted = await post()
        except Refused as error:
            if error.closed:
                self._closed = error
            self._told = str(error)
            self._shared.refused(self.target, what, error)
            raise
        self._shared.accepted(self.target.id, what)
        self._seen = True
        self._remember(posted)
        return str(posted) if posted else None

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Put a reaction on a message: an emoji, a shortcode, the name of one of the server's own.

        Raises:
            ChannelError: there is no such emoji, or Discord refused it.
        """
        target, message = self.target, _number(message_id)
        if message is None:
            raise ChannelError("There is no such message.")
        names = await self._shared.emoji_names()
        persona = self._shared.house.personas.get(self._persona)
        found = find(emoji, names, own_emoji(self.target), persona.language if persona else "en")
        if found is None:
            self._told = f"There is no emoji {one_line(emoji)!r}."
            _log.info("%s: %s", where(target), self._told)
            raise ChannelError(self._told)
        put = found if isinstance(found, str) else f"{found.name}:{found.id}"
        try:
            await asked(
                lambda: rest.react(self._shared.client.http, target.id, message, put),
                "reaction",
                patience=self._shared.house.rules.patience_seconds,
            )
        except Refused as error:
            self._told = str(error)
            self._shared.refused(target, "reaction", error)
            raise
        self._shared.accepted(target.id, "reaction")
        self._seen = True

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """The id of our message after that one which is this part.

        None too where the history is closed while Discord still knows the nonce: posted again, it would be
        the same message.

        Raises:
            ChannelForgot: the history does not tell, and posted now it might be there twice.
            ChannelLost: the same, but the history may be read later.
        """
        earlier = _number(after)
        try:
            found = await self._delivery(text, nonce, earlier, after=earlier).find()
        except ChannelForgot:
            if self._knows_nonces_since(earlier):
                return None
            raise
        if found is None:
            if not text and self._masked:
                raise ChannelForgot("a webhook posts a sticker as a link, so nobody knows which one it was.")
            return None
        self._remember(found)
        return str(found)

    def _knows_nonces_since(self, earlier: int | None) -> bool:
        """Whether Discord still remembers the nonces of what was posted after that message."""
        if earlier is None or self._shared.house.rules.faces == "webhook":
            return False  # a webhook's it never learned
        age = time.time() - discord.utils.snowflake_time(earlier).timestamp()
        return abs(age) < NONCE_SECONDS  # by a clock that jumped back it lies ahead

    async def typing(self) -> None:
        """Show for ten seconds that the bot is writing. Where Discord cannot be reached, nothing is shown.

        Raises:
            ChannelError: it cannot be shown.
        """
        if self._closed is None:
            http, channel_id = self._shared.client.http, self.target.id
            with suppress(ChannelLost):
                await asked(lambda: rest.type_there(http, channel_id), "typing", seconds=_TYPING_SECONDS)

    def show(self, event: TurnEvent) -> None:
        """Tell the operator what went wrong; and people, where a turn broke of which nothing was seen."""
        match event:
            case Performed():
                self._seen = True
            case Failed(text):
                self._failed = True
                if text != self._told:
                    _log.warning("%s: %s", where(self.target), " ".join(text.split()))
            case TurnEnded(finish):
                if finish == "error" and self._failed and not self._seen and self._closed is None:
                    self.excuse()
                self._closed, self._seen, self._failed = None, False, False
            case _:
                pass

    # Messages.

    def _delivery(
        self, text: str, nonce: str, answered: int | None, *, after: int | None, point: int | None = None
    ) -> Delivery:
        person = author_of(self._shared, self.target, answered)
        content = rest.Content(addressed(self._shared, self.target, text, answered, person))
        point = point or self._worth_pointing_at(answered)
        return self._parcel(content, nonce, pings(self._shared, person), after=after, point=point)

    def _parcel(
        self,
        content: rest.Content,
        nonce: str,
        mentions: discord.AllowedMentions,
        *,
        after: int | None = None,
        point: int | None = None,
    ) -> Delivery:
        if self._shared.elsewhere:
            content = replace(content, text=without_pings(content.text, mentions))
        return Delivery(
            shared=self._shared,
            target=self.target,
            persona=self._persona,
            content=content,
            nonce=nonce,
            mentions=mentions,
            after=after,
            point=point,
            taken=self._posted,
        )

    def _remember(self, posted: int) -> None:
        if posted:
            self._posted.append(posted)
            del self._posted[:-_REMEMBERED]

    def _after(self, answered: int | None) -> int | None:
        """What is known to stand before the next message."""
        return max(answered, self._posted[-1] if self._posted else 0) if answered else None

    def _worth_pointing_at(self, answered: int | None) -> int | None:
        """The message answered, where others spoke since: since it, and since what we said to it last."""
        if answered is None:
            return None
        latest = self._shared.recent.latest_by_others(self.target.id)
        return answered if latest > max(answered, self._posted[-1] if self._posted else 0) else None

    # Notices.

    def excuse(self) -> None:
        """Tell people that what was said to it cannot be answered now; not more often than once a minute.

        It is no act of a turn: nothing of it is on record, since that may be just what cannot be done.
        """
        if self._shared.may_excuse(self.target.id):
            self._shared.beside(self._post_excuse())

    async def _post_excuse(self) -> None:
        persona = self._shared.house.personas.get(self._persona)
        words = secrets.choice(persona.when_broken) if persona and persona.when_broken else ""
        nobody = discord.AllowedMentions.none()
        delivery = self._parcel(rest.Content(words or NOTICE), secrets.token_hex(8), nobody)
        try:
            async with asyncio.timeout(_EXCUSE_SECONDS), self._posting:
                await (delivery.post() if words else delivery.post_as_bot())
        except (ChannelError, TimeoutError) as error:
            _log.info("no notice in channel %s: %s", self.target.id, error)


def _number(written: str | None) -> int | None:
    """An id of Discord's; None for what is none."""
    return int(written) if written and written.isdecimal() else None
