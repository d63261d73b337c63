"""The requests that speaking makes: by ids alone, so that nothing need have been announced before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import discord
import discord.http
from discord.http import HTTPClient, Route, handle_message_parameters

if TYPE_CHECKING:
    from discord.types.message import Message as Payload

HISTORY = 100
"""How many messages one question to a channel's history gives."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A message of a channel's history, as far as it tells whose it is. `webhook` is 0 where it is none's."""

    id: int
    author: int
    name: str
    text: str
    nonce: str
    webhook: int
    application: int


async def post(
    http: HTTPClient,
    channel_id: int,
    text: str,
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
        text, nonce=nonce, allowed_mentions=mentions, mention_author=False, message_reference=reference
    ) as parameters:
        message = await http.send_message(channel_id, params=parameters)
    return id_in(message)


async def post_by_webhook(
    webhook: discord.Webhook,
    text: str,
    *,
    name: str,
    picture: str,
    mentions: discord.AllowedMentions,
    thread: int | None,
) -> int:
    """Post a message by a webhook, under a name and with a picture; gives its id, 0 where nobody tells.

    Webhooks know no nonces. discord.py would post again where the server breaks, whether or not the message
    is there by then; so this asks once.
    """
    route = Route(
        "POST", "/webhooks/{webhook_id}/{webhook_token}", webhook_id=webhook.id, webhook_token=webhook.token
    )
    with handle_message_parameters(
        text, username=name, avatar_url=picture or discord.utils.MISSING, allowed_mentions=mentions
    ) as parameters:
        body = parameters.payload
    query = {"wait": "true"} | ({"thread_id": str(thread)} if thread else {})
    async with webhook.session.post(
        route.url,
        json=body,
        params=query,
        allow_redirects=False,  # aiohttp's errors tell of addresses, and this one holds a secret
        proxy=webhook.proxy,
        proxy_auth=webhook.proxy_auth,
    ) as response:
        answer = await discord.http.json_or_text(response)
        if response.status >= 300:
            raise discord.HTTPException(response, answer)
    return id_in(answer)


async def react(http: HTTPClient, channel_id: int, message_id: int, emoji: str) -> None:
    """Put a reaction on a message; one of a server's own emoji is `name:id`."""
    await http.add_reaction(channel_id, message_id, emoji)


async def type_there(http: HTTPClient, channel_id: int) -> None:
    """Show that the bot is writing."""
    await http.send_typing(channel_id)


async def history(http: HTTPClient, channel_id: int, *, after: int | None) -> Sequence[Posted]:
    """The messages that follow `after`, or the last ones; at most `HISTORY`, oldest first."""
    found = await http.logs_from(channel_id, HISTORY, after=after)
    try:
        return sorted((_posted(message) for message in found), key=lambda message: message.id)
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # another server's idea of it
        raise discord.InvalidData("the history is not as Discord writes it") from error


def id_in(answer: object) -> int:
    """The id of what was posted; 0 where it cannot be read."""
    found = str(answer.get("id")) if isinstance(answer, dict) else ""
    return int(found) if found.isdecimal() else 0


def _posted(message: "Payload") -> Posted:
    return Posted(
        id=int(message["id"]),
        author=int(message["author"]["id"]),
        name=message["author"]["username"],
        text=str(message.get("content") or ""),
        nonce=str(message.get("nonce") or ""),
        webhook=int(message.get("webhook_id") or 0),
        application=int(message.get("application_id") or 0),
    )
