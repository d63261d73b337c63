"""One message on its way to a channel: posted until it is known what became of it, and found again."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.refusals import (
    INVALID_WEBHOOK_TOKEN,
    NO_HISTORY_NO_REPLY,
    UNKNOWN_MESSAGE,
    UNKNOWN_WEBHOOK,
    Refused,
    asked,
)
from pixi.channels.discord.server import address_of_chat
from pixi.channels.discord.speaking import rest
from pixi.channels.discord.speaking.mentions import may_be
from pixi.channels.discord.speaking.shared import Shared
from pixi.channels.discord.speaking.splitting import LIMIT, units
from pixi.channels.discord.speaking.webhooks import Mask
from pixi.core.errors import ChannelError, ChannelLost

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_log = logging.getLogger("pixi.discord")

POINTER = "-# ↩ "
"""Begins the line by which a webhook, which cannot reply, points at a message."""

_WAITS = (0.5, 2.0, 5.0)  # seconds before a message whose fate is not known is posted again
_PATIENCE = 30.0  # seconds in all
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

    shared: Shared
    target: "MessageableChannel"
    persona: str
    content: rest.Content
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
        if self.shared.house.rules.faces == "webhook":
            for _ in range(2):  # a webhook that was deleted is made again
                mask = await self.shared.webhooks.mask(self.target, self.persona)
                if mask is None:
                    break
                try:
                    return await self._by_webhook(mask)
                except Refused as error:
                    if error.code in (UNKNOWN_WEBHOOK, INVALID_WEBHOOK_TOKEN):
                        self.shared.webhooks.lost(mask)
                        continue
                    if error.code or not error.status or error.status == 429:
                        raise
                    # No code of Discord's: this server has no such webhooks, or broken ones.
                    self.shared.webhooks.failed(mask, self.target, error)
                except ChannelLost as error:
                    found, is_known = await self.find()
                    if found is not None:
                        return found
                    if not is_known or self.after is None:
                        raise  # it may stand there
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
        except Refused as error:
            cannot_point = error.status == 400 or error.code in (UNKNOWN_MESSAGE, NO_HISTORY_NO_REPLY)
            if self.point is None or not cannot_point:
                raise
        return await self._by_bot(None)

    async def find(self) -> tuple[int | None, bool]:
        """The id of the message, if it was posted; and whether the history could be read at all."""
        http, channel = self.shared.client.http, self.target.id
        try:
            messages = await asked(
                lambda: rest.history(http, channel, after=self.after), "history", seconds=_HISTORY_SECONDS
            )
        except ChannelError as error:
            _log.info("channel %s: %s", channel, error)
            return None, False
        ours = [each for each in messages if self._is_ours(each) and each.id not in self.taken]
        for message in ours:
            if message.nonce == self.nonce:
                return message.id, True
        if not self.content.is_text:
            return None, False  # nothing else tells which one it is
        for message in ours if self.after else ():  # among older ones it may be another that says the same
            if not message.nonce and may_be(_without_pointer(message.text), self.content.text):
                return message.id, True
        return None, True

    async def _by_bot(self, point: int | None) -> int:
        http, channel, content = self.shared.client.http, self.target.id, self.content

        async def post() -> int:
            return await rest.post(
                http, channel, content, nonce=self.nonce, mentions=self.mentions, reply_to=point
            )

        return await self._until_known(post, knows_nonces=True)

    async def _by_webhook(self, mask: Mask) -> int:
        content = self.content
        if self.point is not None:
            guild = getattr(self.target, "guild", None)
            place = f"{guild.id if guild else '@me'}/{self.target.id}/{self.point}"
            pointed = f"{POINTER}{address_of_chat()}/channels/{place}\n{content.text}".rstrip()
            content = replace(content, text=pointed) if units(pointed) <= LIMIT else content
        return await self._until_known(lambda: mask.post(content, self.mentions), knows_nonces=False)

    async def _until_known(self, post: Callable[[], Awaitable[int]], *, knows_nonces: bool) -> int:
        """Post; where the connection breaks, look whether it is there, and post again where it is not.

        Without nonces it is only posted again where the history could be read.
        """
        give_up = time.monotonic() + _PATIENCE
        waits = iter(_WAITS)
        while True:
            try:
                return await asked(post, "message")
            except ChannelLost:
                found, is_known = await self.find()
                if found is not None:
                    return found
                wait = next(waits, None)
                if wait is None or not (is_known or knows_nonces) or time.monotonic() > give_up:
                    raise
            await asyncio.sleep(wait)

    def _is_ours(self, message: rest.Posted) -> bool:
        if message.webhook:
            speaker = self.shared.webhooks.persona_of(message.webhook, message.application, message.name)
            return speaker == self.persona
        me = self.shared.client.user
        return me is not None and message.author == me.id


def _without_pointer(text: str) -> str:
    line, _, others = text.partition("\n")
    return others if line.startswith(POINTER) else text
