"""Values that a stranger's schema speaks of: which of them servers take, and how they are told in words."""

import json
import math
from collections.abc import Sequence
from typing import Any

from pixi.core.untrusted import clipped
from pixi.toolbox.arguments import expected

LONGEST_VALUE = 100

_MOST_CHOICES = 100  # of one value
_FEW = 8  # that are told in words


def plain_text(text: object, longest: int) -> str:
    """A stranger's description: no control characters, and cut where it is long."""
    if not isinstance(text, str):
        return ""
    text = text[: longest + 1_000].encode("utf-8", "replace").decode("utf-8")
    return clipped("".join(c if c.isprintable() or c == "\n" else " " for c in text), longest)


def can_be_chosen(texts: Sequence[Any]) -> bool:
    """Whether servers take these choices, and they survive as they are."""
    whole = [each for each in texts if isinstance(each, str) and each]
    return (
        0 < len(whole) <= _MOST_CHOICES
        and sum(map(len, whole)) <= _MOST_CHOICES * 40
        and all(len(each) <= LONGEST_VALUE and plain_text(each, LONGEST_VALUE) == each for each in whole)
    )


def one_of_these(choices: Sequence[Any]) -> str:
    """The choices in words."""
    if len(choices) == 1:
        return f"always {expected({'const': choices[0]})}"
    words = expected({"enum": choices[:_FEW]})
    return f"{words} and {len(choices) - _FEW} more" if len(choices) > _FEW else words


def is_of(kind: str, value: object) -> bool:
    """Whether a value is of a JSON type, other than a list or an object."""
    match value:
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("integer", "number")
        case float():
            return math.isfinite(value) and (kind == "number" or (kind == "integer" and value.is_integer()))
        case str():
            return kind == "string"
        case _:
            return False


def number_in(value: object) -> int | float | None:
    """The number that a keyword gives; None where it gives none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def list_in(value: object) -> list[Any]:
    """The list that a keyword gives; an empty one where it gives none."""
    return value if isinstance(value, list) else []


def shown(value: object) -> str:
    """A short value as JSON; "" for any other."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return ""
    return text if len(text) <= LONGEST_VALUE else ""
