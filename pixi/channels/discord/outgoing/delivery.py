"""One message on its way to a channel: posted until it is known what became of it, and found again."""

import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.gateway.server import address_of_chat
from pixi.channels.discord.outgoing import rest
from pixi.channels.discord.outgoing.context import PostingContext
from pixi.channels.discord.outgoing.identities import WebhookIdentity
from pixi.channels.discord.outgoing.mentions import may_be
from pixi.channels.discord.outgoing.splitting import LIMIT, units
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

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

POINTER = "-# ↩ "
"""Begins the line by which a webhook, which cannot reply, points at a message."""

NONCE_SECONDS = 120.0
"""For so long at least Discord remembers a nonce, so that posting again under it does no harm."""

_WEBHOOK_TRIES = 4  # where the history can be read: then it is the webhook that does not work, not Discord
_HISTORY_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message of a persona for a channel.

    Attributes:
        content: as it is posted.
        nonce: the same whenever it is tried again.
        mentions: whom it may ping.
        after: id of a message that came before it; None: unknown.
        point: id of the message that it points at.
        taken: ids of our messages that are other messages than this one.
    """

    shared: PostingContext
    target: "MessageableChannel"
    persona: str
    content: rest.MessageContent
    nonce: str
    mentions: discord.AllowedMentions
    after: int | None = None
    point: int | None = None
    taken: Collection[int] = ()

    async def post(self) -> int:
        """Post it, by the persona's webhook where the rules want that; gives its id, 0 where nobody tells.

        Where the webhook fails and nothing was posted, it comes in the bot's own voice.

        Raises:
            Refused: Discord did not take it.
            ChannelLost: nobody knows whether it was posted.
        """
        if self.shared.backend.rules.faces == "webhook":
            for _ in range(2):  # a webhook that was deleted is made again
                mask = await self.shared.webhooks.mask(self.target, self.persona)
                if mask is None:
                    break
                try:
                    return await self._by_webhook(mask)
                except DiscordRefused as error:
                    if error.code in (UNKNOWN_WEBHOOK, INVALID_WEBHOOK_TOKEN):
                        self.shared.webhooks.lost(mask)
                        continue
                    if error.code or not error.status or error.status == 429:
                        raise
                    # No code of Discord's: this server has no such webhooks, or broken ones.
                    self.shared.webhooks.failed(mask, self.target, error)
                except ChannelLost as error:
                    try:
                        found = await self.find()
                    except ChannelLost:
                        raise error from None  # it may stand there
                    if found is not None:
                        return found
                    self.shared.webhooks.failed(mask, self.target, error)
                break
        return await self.post_as_bot()

    async def post_as_bot(self) -> int:
        """Post it as the bot itself, whatever the rules want.

        Raises:
            Refused: Discord did not take it.
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
        http, channel = self.shared.client.http, self.target.id
        try:
            messages = await send_request(
                lambda: rest.history(http, channel, after=self.after), "history", seconds=_HISTORY_SECONDS
            )
        except ChannelError as error:
            kind = ChannelForgot if isinstance(error, DiscordRefused) else ChannelLost
            raise kind(f"the history cannot be read, so nobody knows what was posted. {error}") from error
        ours = [each for each in messages if self._is_ours(each) and each.id not in self.taken]
        for message in ours:
            if message.nonce == self.nonce:
                return message.id
        if not self.content.is_text or self.after is None:  # older ones may say the same
            raise ChannelForgot("nothing but its nonce tells which message it is.")
        for message in ours:
            if not message.nonce and may_be(_without_pointer(message.text), self.content.text):
                return message.id
        return None

    async def _by_bot(self, point: int | None) -> int:
        http, channel, content = self.shared.client.http, self.target.id, self.content

        async def post() -> int:
            return await rest.post(
                http, channel, content, nonce=self.nonce, mentions=self.mentions, reply_to=point
            )

        return await self._until_known(post, nonce_seconds=NONCE_SECONDS)

    async def _by_webhook(self, mask: WebhookIdentity) -> int:
        content = self.content
        if self.point is not None:
            guild = getattr(self.target, "guild", None)
            place = f"{guild.id if guild else '@me'}/{self.target.id}/{self.point}"
            pointed = f"{POINTER}{address_of_chat()}/channels/{place}\n{content.text}".rstrip()
            content = replace(content, text=pointed) if units(pointed) <= LIMIT else content
        return await self._until_known(
            lambda: mask.post(content, self.mentions), nonce_seconds=0.0, tries=_WEBHOOK_TRIES
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
            Refused: Discord did not take it.
            ChannelLost: nobody knew within the patience of the rules, or after so many tries.
        """
        patience = RetryTimer(self.shared.backend.rules.patience_seconds)
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

    def _is_ours(self, message: rest.PostedMessage) -> bool:
        if message.webhook:
            speaker = self.shared.webhooks.persona_of(message.webhook, message.application, message.name)
            return speaker == self.persona
        me = self.shared.client.user
        return me is not None and message.author == me.id


def _without_pointer(text: str) -> str:
    line, _, others = text.partition("\n")
    return others if line.startswith(POINTER) else text
