"""Results of tools, as parts that a model can be told and people can be shown."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from pixi.core.errors import ToolError
from pixi.core.masking import SecretRedactor, hidden_in
from pixi.core.message import Card, Image
from pixi.models.pictures import PictureError, fit_for_model

Part = str | Image | Card

NOTHING_FOUND = "Nothing was found. Try other words, or fewer."
"""Answer to a model of a search that finds nothing."""

MOST_PICTURES = 4
"""Limit of one result. Each costs a model about a thousand tokens, in every round that follows."""

_LONGEST_SIDE = 1_024  # pixels
_MARGIN = 4_096  # characters beyond the limit in which a secret that stands across it is still found


def parts_of(result: object) -> tuple[Part, ...]:
    """Return the result in parts: pictures, cards, and all else as text, of any type that JSON can say.

    A list or a mapping that holds pictures or cards gives them in their places.

    Raises:
        ToolError: it is of no use to anybody.
    """
    match result:
        case str() | Image():
            return (result,)
        case Card():
            return (result.fitted(),)
        case None:
            return ("Done.",)
        case list() | tuple() if any(isinstance(each, Image | Card) for each in result):
            return tuple(part for each in result for part in parts_of(each))
        case dict() if any(isinstance(each, Image | Card) for each in result.values()):
            shown = [each for each in result.values() if isinstance(each, Image | Card)]
            rest = {name: each for name, each in result.items() if not isinstance(each, Image | Card)}
            return (*((as_json(rest),) if rest else ()), *(part for each in shown for part in parts_of(each)))
        case _:
            return (as_json(result),)


def as_json(value: object) -> str:
    """Return a value as JSON text.

    Raises:
        ToolError: it cannot be said so.
    """
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value, fallback=_named, inf_nan_mode="null", bytes_mode="base64")
        return json.dumps(plain, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        raise ToolError(f"It gave a {type(value).__name__} that cannot be written down.") from None


def _named(value: object) -> Any:
    """Return what JSON cannot say. Its own text may hold anything, an address in memory or a key."""
    if isinstance(value, GeneratorType | AsyncGeneratorType):
        raise TypeError("it may never end")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return f"<{type(value).__name__}>"


async def with_pictures_checked(parts: Sequence[Part], *, vision: bool) -> tuple[Part, ...]:
    """The parts, each picture decoded and written anew; one that is none, or one too many, becomes words.

    `vision`: the model can be shown pictures; one that cannot is told of each.
    """
    checked: list[Part] = []
    for part in parts:
        if isinstance(part, Card):
            checked.append(await with_picture_checked(part))
        elif not isinstance(part, Image):
            checked.append(part)
        elif not vision:
            checked.append("(a picture that you cannot see)")
        elif sum(isinstance(each, Image) for each in checked) == MOST_PICTURES:
            checked.append("(one picture more, which is left out)")
        else:
            try:
                checked.append(await asyncio.to_thread(_fitted, part))
            except PictureError as error:
                checked.append(f"(a picture that cannot be shown: {error})")
    return tuple(checked)


async def with_picture_checked(card: Card) -> Card:
    """Return the card; a picture in it that is none is left out."""
    if not isinstance(card.picture, Image):
        return card
    try:
        picture = await asyncio.to_thread(_fitted, card.picture)
    except PictureError:
        return replace(card, picture=None)
    return replace(card, picture=picture)


def _fitted(image: Image) -> Image:
    return fit_for_model(image.data, longest_side=_LONGEST_SIDE)


def within_bytes(text: str, limit: int, mask: SecretRedactor | None = None) -> str:
    """Return the text within so many bytes of UTF-8; where it is cut, it says so.

    With a mask, without secrets.
    """
    whole = len(text)
    if mask is not None:
        # Of a huge text only the beginning is looked through. Its last characters go: there a secret may
        # have been cut in two.
        margin = max(_MARGIN, mask.longest)
        hidden = mask.hide(text[: limit + margin])
        text = hidden[:-margin] if whole > limit + margin else hidden
        whole = whole if whole > limit + margin else len(text)
    head = text[:limit].encode("utf-8", "replace")
    if len(head) <= limit and len(text) <= limit and whole == len(text):
        return head.decode("utf-8")
    notice = f"\n[cut here; the whole has {whole} characters]"
    return head[: max(0, limit - len(notice))].decode("utf-8", "ignore") + notice


def masked(card: Card, mask: SecretRedactor) -> Card:
    """Return the card without secrets; without its picture, where the address holds one."""
    hide = mask.hide
    picture = card.picture
    if isinstance(picture, str) and hide(picture) != picture:
        picture = None
    fields = tuple(replace(f, name=hide(f.name), value=hide(f.value)) for f in card.fields)
    link = card.link if hide(card.link) == card.link else ""
    return replace(
        card,
        title=hide(card.title),
        text=hide(card.text),
        fields=fields,
        picture=picture,
        link=link,
        data=hidden_in(card.data, hide, names=True),
    )
