"""Messages on their way to a channel: posted until it is known what became of them, and found again.

All channels of a bot share one `PostingContext` for it.
"""

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import discord
import discord.http
from discord.http import HTTPClient, MultipartParameters, Route, handle_message_parameters
from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.formatting import LIMIT, units, with_mention
from pixi.channels.discord.incoming.recent import RecentMessages
from pixi.channels.discord.outgoing.approvals import Approvals
from pixi.channels.discord.outgoing.content import MessageContent
from pixi.channels.discord.outgoing.emoji import EmojiNames
from pixi.channels.discord.outgoing.identities import WebhookIdentity, Webhooks
from pixi.channels.discord.permissions import Directory, is_timed_out, missing_permissions
from pixi.channels.discord.places import address_of_chat, channel_label, guild_in
from pixi.channels.discord.requests import (
    INVALID_WEBHOOK_TOKEN,
    NO_HISTORY_NO_REPLY,
    UNKNOWN_MESSAGE,
    UNKNOWN_WEBHOOK,
    DiscordRefused,
    RetryTimer,
    send_request,
)
from pixi.core.errors import ChannelError, ChannelForgot, ChannelLost
from pixi.core.lru import LRU

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

_BETWEEN_EXCUSES_SECONDS = 60.0  # in a channel
_EXCUSED = 1_000  # channels of which the last excuse is remembered


@dataclass(slots=True)
class PostingContext:
    """The context of posting. One for a bot.

    Attributes:
        approvals: asks people for their yes; None: nobody can be asked.
        elsewhere: the server is another than Discord, and may ignore who must not be pinged.
        no_search: until when guilds are not asked to search, as they cannot, on the monotonic clock.
    """

    client: discord.Client
    backend: BotBackend
    recent: RecentMessages
    directory: Directory
    webhooks: Webhooks
    approvals: Approvals | None = None
    elsewhere: bool = False
    no_search: dict[int, float] = field(default_factory=dict)
    _names: asyncio.Future[EmojiNames] | None = None  # being read since the first channel was asked for
    _noted: set[tuple[int, str]] = field(default_factory=set)  # refusals by channel and kind, told already
    _beside: set[asyncio.Task[None]] = field(default_factory=set)
    _excused: LRU[int, float] = field(default_factory=lambda: LRU(_EXCUSED))  # when, on the monotonic clock

    def prepare(self) -> None:
        """Have the names of emoji read in a thread, before anybody reacts."""
        if self._names is None:
            languages = {persona.language for persona in self.backend.personas.values()}
            self._names = asyncio.get_running_loop().run_in_executor(None, EmojiNames, languages)

    async def emoji_names(self) -> EmojiNames:
        """Return the names of emoji."""
        self.prepare()
        assert self._names is not None
        return await asyncio.shield(self._names)

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Do something while others go on."""
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def close(self) -> None:
        """End what is done beside."""
        tasks = [*self._beside]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def may_excuse(self, channel_id: int) -> bool:
        """Return whether people there were not told lately that something is broken; they are told now."""
        now = time.monotonic()
        before = self._excused.get(channel_id)
        if before is not None and now - before < _BETWEEN_EXCUSES_SECONDS:
            return False
        self._excused.put(channel_id, now)
        return True

    def refused(self, channel: "MessageableChannel", what: str, error: DiscordRefused) -> None:
        """Tell the operator what Discord refuses; of what holds for the whole channel once."""
        level = logging.INFO
        if error.closed:
            level = logging.DEBUG if (channel.id, what) in self._noted else logging.WARNING
            self._noted.add((channel.id, what))
        why = ""
        if lacking := missing_permissions(channel, what):
            why = f" It lacks {lacking}."
        elif is_timed_out(channel):
            why = " It is timed out."
        _log.log(level, "%s: %s%s", channel_label(channel), error, why)

    def accepted(self, channel_id: int, what: str) -> None:
        """Note that it works there: should it be refused again, the operator is told again."""
        self._noted.discard((channel_id, what))

    # The person whose message is answered.

    def author_of(self, channel: "MessageableChannel", message: int | None) -> int | None:
        """Return the id of the person who wrote a message, where it is remembered."""
        heard = self.recent.find(channel.id, message) if message else None
        return int(heard.author.id) if heard and heard.author.id.isdecimal() else None

    def with_author_mentioned(
        self, channel: "MessageableChannel", text: str, answered: int | None, person: int | None
    ) -> str:
        """Put a mention in place of `@` and the name of the person answered, where that is not too long."""
        if answered is None or person is None or "@" not in text:
            return text
        heard = self.recent.find(channel.id, answered)
        names = {heard.author.name} if heard else set()
        guild = guild_in(channel)
        known = (guild.get_member(person) if guild else None) or self.client.get_user(person)
        if known is not None:
            names |= {known.name, known.display_name, known.global_name or known.name}
        mentioned = with_mention(text, person, names)
        return mentioned if units(mentioned) <= LIMIT else text

    def allowed_mentions(self, person: int | None) -> discord.AllowedMentions:
        """Tell whom a message may ping that answers a person."""
        allowed = self.backend.rules.pings
        users: bool | list[discord.Object] = "users" in allowed
        if person and not users:
            users = [discord.Object(person)]
        return discord.AllowedMentions(
            everyone="everyone" in allowed, roles="roles" in allowed, users=users, replied_user=False
        )


HISTORY = 100
"""Messages that one request for a channel's history gives."""

POINTER = "-# ↩ "
"""Begins the line by which a webhook, which cannot reply, points at a message."""

NONCE_SECONDS = 120.0
"""Seconds for which Discord remembers a nonce at least, so that posting again under it does no harm."""

_WEBHOOK_TRIES = 4  # where the history can be read: then it is the webhook that does not work, not Discord
_HISTORY_SECONDS = 20.0
_MENTION = re.compile(r"<@\d{1,20}>")
_LONGEST_MENTIONED = 40  # characters of a name; Discord allows 32
_MENTIONS = 20  # are compared in one message


class _Poster(Struct, frozen=True):
    id: int
    username: str


class PostedMessage(Struct, frozen=True):
    """A message of a channel's history, as far as it tells whose it is."""

    id: int
    author: _Poster
    content: str | None = None
    nonce: str | int | None = None
    webhook_id: int | None = None
    application_id: int | None = None


async def post_message(
    http: HTTPClient,
    channel_id: int,
    content: MessageContent,
    *,
    nonce: str,
    mentions: discord.AllowedMentions,
    reply_to: int | None = None,
) -> int:
    """Post a message; gives its id, 0 where the server took it and does not tell.

    The same nonce within some minutes gives the same message.

    Replying pings nobody. To what is gone there is no reply, but the message is posted.
    """
    reference = discord.utils.MISSING
    if reply_to is not None:
        reference = discord.MessageReference(
            message_id=reply_to, channel_id=channel_id, fail_if_not_exists=False
        ).to_message_reference_dict()
    with handle_message_parameters(
        **content.parts(),
        nonce=nonce,
        allowed_mentions=mentions,
        mention_author=False,
        message_reference=reference,
    ) as parameters:
        message = await http.send_message(channel_id, params=parameters)
    return id_in(message)


async def post_by_webhook(
    identity: WebhookIdentity, content: MessageContent, mentions: discord.AllowedMentions
) -> int:
    """Post a message by a webhook; gives its id, 0 where nobody tells.

    Webhooks know neither nonces nor replies. discord.py would post again where the server breaks, whether or
    not the message is there by then; so this asks once.
    """
    webhook, thread = identity.webhook, identity.thread
    route = Route(
        "POST", "/webhooks/{webhook_id}/{webhook_token}", webhook_id=webhook.id, webhook_token=webhook.token
    )
    query = {"wait": "true"} | ({"thread_id": str(thread)} if thread else {})
    with handle_message_parameters(
        **content.parts(),
        username=identity.name,
        avatar_url=identity.picture or discord.utils.MISSING,
        allowed_mentions=mentions,
    ) as parameters:
        async with webhook.session.post(
            route.url,
            json=parameters.payload,
            data=_form(parameters),
            params=query,
            allow_redirects=False,  # aiohttp's errors tell of addresses, and this one holds a secret
            proxy=webhook.proxy,
            proxy_auth=webhook.proxy_auth,
        ) as response:
            answer = await discord.http.json_or_text(response)
            if response.status >= 300:
                raise discord.HTTPException(response, answer)
    return id_in(answer)


def _form(parameters: MultipartParameters) -> aiohttp.FormData | None:
    """Return the body of a request that carries a file; None where it carries none."""
    if not parameters.multipart:
        return None
    form = aiohttp.FormData(quote_fields=False)
    for part in parameters.multipart:
        form.add_field(**part)
    return form


async def posted_after(http: HTTPClient, channel_id: int, *, after: int | None) -> Sequence[PostedMessage]:
    """Return the messages that follow `after`, or the last ones; at most `HISTORY`, oldest first."""
    found: object = await http.logs_from(channel_id, HISTORY, after=after)
    try:
        return sorted(convert(found, list[PostedMessage], strict=False), key=lambda message: message.id)
    except ValidationError as error:  # another server's idea of it
        raise discord.InvalidData("the history is not as Discord writes it") from error


def id_in(answer: object) -> int:
    """Return the id of what was posted; 0 where it cannot be read."""
    found = str(answer.get("id")) if isinstance(answer, dict) else ""
    return int(found) if found.isdecimal() else 0


class Delivery(Struct, frozen=True):
    """A message of a persona for a channel.

    Attributes:
        content: as it is posted.
        nonce: the same whenever it is tried again.
        mentions: whom it may ping.
        after: id of a message that came before it; None: unknown.
        point: id of the message that it points at.
        taken: ids of our messages that are other messages than this one.
    """

    context: PostingContext
    target: "MessageableChannel"
    persona: str
    content: MessageContent
    nonce: str
    mentions: discord.AllowedMentions
    after: int | None = None
    point: int | None = None
    taken: Collection[int] = ()

    async def post(self) -> int:
        """Post it, by the persona's webhook where the rules want that; gives its id, 0 where nobody tells.

        Where the webhook fails and nothing was posted, it comes in the bot's own voice.

        Raises:
            DiscordRefused: Discord did not take it.
            ChannelLost: nobody knows whether it was posted.
        """
        if self.context.backend.rules.faces == "webhook":
            for _ in range(2):  # a webhook that was deleted is made again
                identity = await self.context.webhooks.identity(self.target, self.persona)
                if identity is None:
                    break
                try:
                    return await self._by_webhook(identity)
                except DiscordRefused as error:
                    if error.code in (UNKNOWN_WEBHOOK, INVALID_WEBHOOK_TOKEN):
                        self.context.webhooks.lost(identity)
                        continue
                    if error.code or not error.status or error.status == 429:
                        raise
                    # No code of Discord's: this server has no such webhooks, or broken ones.
                    self.context.webhooks.failed(identity, self.target, error)
                except ChannelLost as error:
                    try:
                        found = await self.find()
                    except ChannelLost:
                        raise error from None  # it may stand there
                    if found is not None:
                        return found
                    self.context.webhooks.failed(identity, self.target, error)
                break
        return await self.post_as_bot()

    async def post_as_bot(self) -> int:
        """Post it as the bot itself, whatever the rules want.

        Raises:
            DiscordRefused: Discord did not take it.
            ChannelLost: nobody knows whether it was posted.
        """
        try:
            return await self._by_bot(self.point)
        except DiscordRefused as error:
            cannot_point = error.status == 400 or error.code in (UNKNOWN_MESSAGE, NO_HISTORY_NO_REPLY)
            if self.point is None or not cannot_point:
                raise
        return await self._by_bot(None)

    async def find(self) -> int | None:
        """Return the id of the message, if it was posted.

        Raises:
            ChannelForgot: the history is closed, or holds nothing by which the message can be known.
            ChannelLost: the history cannot be read now.
        """
        http, channel = self.context.client.http, self.target.id
        try:
            messages = await send_request(
                lambda: posted_after(http, channel, after=self.after), "history", seconds=_HISTORY_SECONDS
            )
        except ChannelError as error:
            kind = ChannelForgot if isinstance(error, DiscordRefused) else ChannelLost
            raise kind(f"the history cannot be read, so nobody knows what was posted. {error}") from error
        ours = [each for each in messages if self._is_ours(each) and each.id not in self.taken]
        for message in ours:
            if str(message.nonce) == self.nonce:
                return message.id
        if not self.content.is_text or self.after is None:  # older ones may say the same
            raise ChannelForgot("nothing but its nonce tells which message it is.")
        for message in ours:
            if not message.nonce and may_be(_without_pointer(message.content or ""), self.content.text):
                return message.id
        return None

    async def _by_bot(self, point: int | None) -> int:
        http, channel, content = self.context.client.http, self.target.id, self.content

        async def post() -> int:
            return await post_message(
                http, channel, content, nonce=self.nonce, mentions=self.mentions, reply_to=point
            )

        return await self._until_known(post, nonce_seconds=NONCE_SECONDS)

    async def _by_webhook(self, identity: WebhookIdentity) -> int:
        content = self.content
        if self.point is not None:
            guild = getattr(self.target, "guild", None)
            place = f"{guild.id if guild else '@me'}/{self.target.id}/{self.point}"
            pointed = f"{POINTER}{address_of_chat()}/channels/{place}\n{content.text}".rstrip()
            content = replace(content, text=pointed) if units(pointed) <= LIMIT else content
        return await self._until_known(
            lambda: post_by_webhook(identity, content, self.mentions), nonce_seconds=0.0, tries=_WEBHOOK_TRIES
        )

    async def _until_known(
        self, post: Callable[[], Awaitable[int]], *, nonce_seconds: float, tries: float = math.inf
    ) -> int:
        """Post; where the connection breaks, look whether it is there, and post again where it is not.

        Where the history cannot tell, it is posted again only while the nonce is known: it may stand there.

        Args:
            post: posts it once.
            nonce_seconds: for how long the nonce is known; webhooks know none.
            tries: how often it is posted at most.

        Raises:
            DiscordRefused: Discord did not take it.
            ChannelLost: nobody knew within the patience of the rules, or after so many tries.
        """
        patience = RetryTimer(self.context.backend.rules.patience_seconds)
        forgotten = time.monotonic() + nonce_seconds
        is_missing, lost = True, ChannelLost("it was not posted yet.")
        while True:
            if is_missing:
                try:
                    return await send_request(post, "message")
                except ChannelLost as error:
                    lost = error
                    tries -= 1
            goes_on = tries > 0 and await patience.pause()
            try:
                if (found := await self.find()) is not None:
                    return found
                is_missing = True
            except ChannelLost as error:
                is_missing = time.monotonic() < forgotten
                goes_on = goes_on and (is_missing or not isinstance(error, ChannelForgot))
            if not goes_on:
                raise lost

    def _is_ours(self, message: PostedMessage) -> bool:
        if message.webhook_id:
            webhooks, name = self.context.webhooks, message.author.username
            return webhooks.persona_of(message.webhook_id, message.application_id or 0, name) == self.persona
        me = self.context.client.user
        return me is not None and message.author.id == me.id


def _without_pointer(text: str) -> str:
    line, _, others = text.partition("\n")
    return others if line.startswith(POINTER) else text


def may_be(posted: str, text: str) -> bool:
    """Return whether a posted text is this one, where one person's name may have become their mention."""
    return posted == text or any(
        _may_be(posted, text, mention) for mention in {match[0] for match in _MENTION.finditer(posted)}
    )


def _may_be(posted: str, text: str, mention: str) -> bool:
    first, *others = posted.split(mention)
    places = {len(first)} if text.startswith(first) else set()
    for piece in others[:_MENTIONS]:  # a name stands before each
        places = {
            place + length + len(piece)
            for place in places
            if text.startswith("@", place)
            for length in range(2, _LONGEST_MENTIONED + 2)
            if text.startswith(piece, place + length)
        }
    return len(text) in places
