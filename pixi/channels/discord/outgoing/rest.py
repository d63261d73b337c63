"""The requests that speaking makes: by ids alone, so that nothing need have been announced before."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import aiohttp
import discord
import discord.http
from discord.http import HTTPClient, MultipartParameters, Route, handle_message_parameters

if TYPE_CHECKING:
    from discord.types.message import Message as Payload

HISTORY = 100
"""How many messages one question to a channel's history gives."""


class _Parts(TypedDict, total=False):
    """What a message holds, as discord.py wants to be given it."""

    content: str
    embed: discord.Embed
    file: discord.File
    view: discord.ui.View
    stickers: list[str | int]


@dataclass(frozen=True, slots=True)
class MessageContent:
    """What a message holds; of text, box, file and sticker at least one.

    Attributes:
        embed: a box below the text.
        file: its name, and what is in it; a box can show it as `attachment://NAME`.
        alt: what is to be seen in the file.
        view: buttons. Whoever posts them hears of clicks in another way.
        sticker: the id of one of the server's own. Webhooks cannot post one.
    """

    text: str = ""
    embed: discord.Embed | None = None
    file: tuple[str, bytes] | None = None
    alt: str = ""
    view: discord.ui.View | None = None
    sticker: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether the text is all that there is, so that the message can be known by it."""
        return all(each is None for each in (self.embed, self.file, self.view, self.sticker))

    def parts(self) -> _Parts:
        """It, for one request: a file can be sent once."""
        parts: _Parts = {"content": self.text} if self.text else {}
        if self.embed is not None:
            parts["embed"] = self.embed
        if self.file is not None:
            name, data = self.file
            parts["file"] = discord.File(io.BytesIO(data), name, description=self.alt or None)
        if self.view is not None:
            parts["view"] = self.view
        if self.sticker is not None:
            parts["stickers"] = [self.sticker]
        return parts


@dataclass(frozen=True, slots=True)
class PostedMessage:
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


async def edit(http: HTTPClient, channel_id: int, message_id: int, text: str) -> None:
    """Give a message of ours another text, and take its buttons away. It pings nobody."""
    nobody = discord.AllowedMentions.none()
    with handle_message_parameters(text, view=None, allowed_mentions=nobody) as parameters:
        await http.edit_message(channel_id, message_id, params=parameters)


async def post_by_webhook(
    webhook: discord.Webhook,
    content: MessageContent,
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
    query = {"wait": "true"} | ({"thread_id": str(thread)} if thread else {})
    with handle_message_parameters(
        **content.parts(),
        username=name,
        avatar_url=picture or discord.utils.MISSING,
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
    """The body of a request that carries a file; None where it carries none."""
    if not parameters.multipart:
        return None
    form = aiohttp.FormData(quote_fields=False)
    for part in parameters.multipart:
        form.add_field(**part)
    return form


async def react(http: HTTPClient, channel_id: int, message_id: int, emoji: str) -> None:
    """Put a reaction on a message; one of a server's own emoji is `name:id`."""
    await http.add_reaction(channel_id, message_id, emoji)


async def type_there(http: HTTPClient, channel_id: int) -> None:
    """Show that the bot is writing."""
    await http.send_typing(channel_id)


async def history(http: HTTPClient, channel_id: int, *, after: int | None) -> Sequence[PostedMessage]:
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


def _posted(message: "Payload") -> PostedMessage:
    return PostedMessage(
        id=int(message["id"]),
        author=int(message["author"]["id"]),
        name=message["author"]["username"],
        text=str(message.get("content") or ""),
        nonce=str(message.get("nonce") or ""),
        webhook=int(message.get("webhook_id") or 0),
        application=int(message.get("application_id") or 0),
    )
