"""Makes the content of messages, cards and pictures, within all limits; no stranger's words act in it."""

import io
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import discord
from msgspec import Struct

from pixi.channels.discord.formatting import LIMIT, clipped, escape_line, escape_markdown, units
from pixi.channels.discord.requests import INVALID_FORM, MISSING_PERMISSIONS, TOO_LARGE, DiscordRefused
from pixi.core.errors import ChannelError
from pixi.core.message import Card, Image, Picture

COLOR = 0xF2A65A

_TITLE, _TEXT, _FIELDS, _NAME, _VALUE, _ALL = 256, 4_096, 25, 256, 1_024, 6_000
_LONGEST_ADDRESS = 2_048
_LARGEST_PICTURE = 8_000_000  # bytes
_NOTHING = "\u200b"  # stands where Discord wants something and there is nothing
_INLINE = 40  # so short are fields that stand side by side
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_ADDRESS = re.compile(r"https?://[^\s<>]+", re.IGNORECASE)
_LIKE_THIS = (MISSING_PERMISSIONS, INVALID_FORM, TOO_LARGE)  # what is plainer may be taken all the same

_LONGEST_ALT = 1_024


class MessageContent(Struct, frozen=True):
    """The content of a message: at least one of text, box, file and sticker.

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
        """Return True if the text is all that there is, so that the message can be known by it."""
        return all(each is None for each in (self.embed, self.file, self.view, self.sticker))

    def parts(self) -> dict[str, Any]:
        """Return it as discord.py's parameters for one request: a file can be sent once."""
        parts: dict[str, Any] = {"content": self.text or None, "embed": self.embed, "view": self.view}
        parts["stickers"] = None if self.sticker is None else [self.sticker]
        if self.file is not None:
            name, data = self.file
            parts["file"] = discord.File(io.BytesIO(data), name, description=self.alt or None)
        return {key: value for key, value in parts.items() if value is not None}


async def post_card(
    card: Card, post: Callable[[MessageContent], Awaitable[int]], *, boxes: bool, files: bool
) -> int:
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
    """Return the messages that can show a card, the richest first; none where there is nothing on it."""
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
    if text := _text(card):
        forms.append(MessageContent(text))
    return forms


def public_address(written: str, *schemes: str) -> str:
    """Return an address that may be shown and fetched; "" for what is none, or would show a password."""
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
    """Return the box without its picture."""
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
    """Return a picture as a file that Discord shows."""
    if not isinstance(picture, Image) or not 0 < len(picture.data) <= _LARGEST_PICTURE:
        return None
    ending = _ENDINGS.get(picture.media_type.lower())
    return (f"picture.{ending}", picture.data) if ending else None


def _text(card: Card) -> str:
    """Return the card where there are no boxes. Addresses open no boxes of their own."""
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


def picture_content(picture: Picture, *, files: bool) -> MessageContent:
    """Return the message that shows a picture.

    Args:
        picture: what is to be shown.
        files: whether the place takes files.

    Raises:
        ChannelError: it cannot be shown there.
    """
    if link := public_address(picture.link, "https"):
        return MessageContent(link)
    if not files:
        raise ChannelError("A picture cannot be shown here: the bot may attach no files.")
    file = file_of(picture.file)
    if file is None:
        raise ChannelError("A picture cannot be shown here: it is too large, or none that Discord shows.")
    return MessageContent(file=file, alt=picture.words.strip()[:_LONGEST_ALT])
