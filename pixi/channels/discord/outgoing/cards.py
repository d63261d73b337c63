"""A card as Discord shows it: a box, within all limits, in which nothing that a stranger wrote acts."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from urllib.parse import urlsplit

import discord

from pixi.channels.discord.outgoing.formatting import clipped, escape_line, escape_markdown
from pixi.channels.discord.outgoing.rest import MessageContent
from pixi.channels.discord.outgoing.splitting import LIMIT, units
from pixi.channels.discord.requests import INVALID_FORM, MISSING_PERMISSIONS, TOO_LARGE, DiscordRefused
from pixi.core.card import Card
from pixi.core.errors import ChannelError
from pixi.core.message import Image

COLOR = 0xF2A65A

_TITLE, _TEXT, _FIELDS, _NAME, _VALUE, _ALL = 256, 4_096, 25, 256, 1_024, 6_000
_LONGEST_ADDRESS = 2_048
_LARGEST_PICTURE = 8_000_000  # bytes
_NOTHING = "\u200b"  # stands where Discord wants something and there is nothing
_INLINE = 40  # so short are fields that stand side by side
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_ADDRESS = re.compile(r"https?://[^\s<>]+", re.IGNORECASE)
_LIKE_THIS = (MISSING_PERMISSIONS, INVALID_FORM, TOO_LARGE)  # what is plainer may be taken all the same

Post = Callable[[MessageContent], Awaitable[int]]


async def post_card(card: Card, post: Post, *, boxes: bool, files: bool) -> int:
    """Post a card as richly as it is taken; gives the id of the message, 0 where nobody tells.

    Args:
        card: what is to be shown.
        post: posts a message.
        boxes: whether the place takes boxes.
        files: whether it takes files.

    Raises:
        ChannelError: there is nothing on the card, or it is refused even as text.
    """
    forms = forms_of(card, boxes=boxes, files=files)
    if not forms:
        raise ChannelError("There is nothing on the card.")
    for form in forms[:-1]:
        try:
            return await post(form)
        except DiscordRefused as error:
            if error.code not in _LIKE_THIS and error.status != 413:
                raise
    return await post(forms[-1])


def forms_of(card: Card, *, boxes: bool, files: bool) -> Sequence[MessageContent]:
    """The messages that can show a card, the richest first; none where there is nothing on it."""
    forms = []
    if boxes:
        embed = _embed(card)
        file = file_of(card.picture) if files else None
        address = public_address(card.picture, "https") if isinstance(card.picture, str) else ""
        shown = bool(embed.title or embed.description or embed.fields)
        if file is not None:
            forms.append(
                MessageContent(embed=embed.copy().set_image(url=f"attachment://{file[0]}"), file=file)
            )
        elif address:
            forms.append(MessageContent(embed=embed.copy().set_image(url=address)))
        if shown:
            forms.append(MessageContent(embed=embed))
        if shown and embed.url:
            plain = embed.copy()
            plain.url = None
            forms.append(MessageContent(embed=plain))
    if text := _text(card):
        forms.append(MessageContent(text))
    return forms


def public_address(written: str, *schemes: str) -> str:
    """An address that may be shown and fetched; "" for what is none, or would show a password."""
    written = written.strip()
    if len(written) > _LONGEST_ADDRESS or not _ADDRESS.fullmatch(written) or not written.isprintable():
        return ""
    try:
        parts = urlsplit(written)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return ""
    public = bool(host) and parts.username is None and parts.password is None
    return parts.scheme + written[len(parts.scheme) :] if public and parts.scheme in schemes else ""


def _embed(card: Card) -> discord.Embed:
    """The box without its picture."""
    title = escape_line(card.title, _TITLE)
    room = _ALL - units(title)
    text = escape_markdown(card.text, min(_TEXT, room))
    room -= units(text)
    link = public_address(card.link, "http", "https")
    embed = discord.Embed(title=title or None, description=text or None, color=COLOR)
    embed.url = link if link and title else None
    for field in card.fields[:_FIELDS]:
        name, value = (
            escape_line(field.name, _NAME) or _NOTHING,
            escape_markdown(field.value, _VALUE) or _NOTHING,
        )
        if name == value == _NOTHING:
            continue
        value = clipped(value, min(_VALUE, room - units(name)), backslash=True)
        if not value:
            break
        embed.add_field(name=name, value=value, inline=units(value) <= _INLINE and "\n" not in value)
        room -= units(name) + units(value)
    return embed


def file_of(picture: str | Image | None) -> tuple[str, bytes] | None:
    """A picture as a file that Discord shows."""
    if not isinstance(picture, Image) or not 0 < len(picture.data) <= _LARGEST_PICTURE:
        return None
    ending = _ENDINGS.get(picture.media_type.lower())
    return (f"picture.{ending}", picture.data) if ending else None


def _text(card: Card) -> str:
    """The card where there are no boxes. Addresses open no boxes of their own."""
    return clipped("\n".join(_lines(card)), LIMIT, backslash=True)


def _lines(card: Card) -> Iterator[str]:
    if title := escape_line(card.title, _TITLE):
        yield f"**{title}**"
    if link := public_address(card.link, "http", "https"):
        yield f"<{link}>"
    if text := escape_markdown(card.text, _TEXT):
        yield _ADDRESS.sub(lambda found: f"<{found[0]}>", text)
    for field in card.fields[:_FIELDS]:
        name, value = escape_line(field.name, _NAME), escape_markdown(field.value, _VALUE)
        if name or value:
            yield f"**{name}:** {_ADDRESS.sub(lambda found: f'<{found[0]}>', value)}"
    if isinstance(card.picture, str) and (address := public_address(card.picture, "https")):
        yield f"<{address}>"
