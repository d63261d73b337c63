"""What a helper model answered, read whatever it made of the JSON that it was asked for."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pixi.knowledge.retrieval.loose_json import loosely_read

LONGEST_REPLY = 64_000
"""Characters of a reply that are read."""

_MOST_CLAIMS = 100
_MOST_STARTS = 20
_LISTS = ("relevant", "facts", "results", "answers", "quotes", "findings", "keep")
_TEXTS = ("fact", "text", "quote", "answer", "statement", "sentence", "content")
_SOURCES = ("source", "sources", "line", "number", "id", "paragraph", "ref")
_CONFIDENCES = ("confidence", "score", "certainty", "probability")
_WORDS = {
    "very high": 0.95,
    "high": 0.9,
    "medium": 0.6,
    "moderate": 0.6,
    "low": 0.3,
    "very low": 0.1,
    "certain": 0.95,
}
_UNSAID = 0.5
_NOTHING = re.compile(r"\[\s*\]|\bnull\b|\bNone\b")
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•>]+|\d{1,3}[.)]|\[\d+\])\s*")
_QUOTES = "\"'“”‘’«»「」`* \t"


@dataclass(frozen=True, slots=True)
class Claim:
    """A fact as the helper gives it, not yet checked.

    Attributes:
        text: its words.
        source: the number of the line that it names; None where it names none.
        confidence: from 0 to 1.
    """

    text: str
    source: int | None
    confidence: float


@dataclass(frozen=True, slots=True)
class Claims:
    """The facts of a reply. `certain`: it was an answer in form; otherwise they are lines of prose."""

    claims: tuple[Claim, ...]
    certain: bool


def claims_in(reply: str) -> Claims:
    """The facts that a reply names: from JSON, however it is wrapped or broken, or else from its lines."""
    reply = _without_thoughts(reply[:LONGEST_REPLY])
    for value in _values(reply):
        listed = _listed(value)
        if listed is not None:
            claims = [claim for item in listed[:_MOST_CLAIMS] if (claim := _claim(item)) is not None]
            # `as line [12] says` is no list of facts, and one that was cut off before the first is not empty.
            if claims or (not listed and _NOTHING.search(reply)):
                return Claims(tuple(dict.fromkeys(claims)), certain=True)
    lines = (_BULLET.sub("", line).strip(_QUOTES) for line in reply.splitlines()[:_MOST_CLAIMS])
    return Claims(tuple(Claim(line, None, _UNSAID) for line in lines if line), certain=False)


def numbers_in(reply: str) -> list[int] | None:
    """The numbers that a reply chooses; None where it is no answer in form."""
    for value in _values(_without_thoughts(reply[:LONGEST_REPLY])):
        listed = _listed(value)
        if listed is not None:
            numbers = [number for item in listed if (number := _number(item)) is not None]
            return list(dict.fromkeys(numbers)) if numbers or not listed else None
    return None


def _without_thoughts(reply: str) -> str:
    reply = _THOUGHTS.sub("", reply)
    # Thoughts whose beginning stood in the prompt.
    return re.split(r"</(?:think|thinking|reasoning)>", reply, flags=re.IGNORECASE)[-1]


def _values(reply: str) -> Iterator[object]:
    """The JSON values in a text, read strictly where that works: outermost first, in their order."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(_MOST_STARTS):
        starts = [place for place in (reply.find("{", at), reply.find("[", at)) if place >= 0]
        if not starts:
            return
        start = min(starts)
        try:
            value, at = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            # A brace of the prose may seem to hold all that follows, the answer too.
            value, at = loosely_read(reply, start), start + 1
        yield value


def _listed(value: object) -> list[object] | None:
    """The facts in a value, in whatever shape; None where it is none of them."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    fields = {str(key).strip().lower(): field for key, field in value.items()}
    for name in _LISTS:
        if name in fields:
            given = fields[name]
            return given if isinstance(given, list) else [] if given is None else [given]
    inner = next((field for field in fields.values() if isinstance(field, list)), None)
    if any(name in fields for name in _TEXTS) and not (inner and isinstance(inner[0], dict)):
        return [value]
    return inner


def _claim(item: object) -> Claim | None:
    if isinstance(item, str):
        return Claim(item.strip(), None, _UNSAID) if item.strip() else None
    if not isinstance(item, dict):
        return None
    fields = {str(key).strip().lower(): field for key, field in item.items()}
    text = next((fields[name] for name in _TEXTS if isinstance(fields.get(name), str)), None)
    if not isinstance(text, str) or not text.strip():
        return None
    source = next((fields[name] for name in _SOURCES if name in fields), None)
    confidence = next((fields[name] for name in _CONFIDENCES if name in fields), None)
    return Claim(text.strip(), _number(source), _confidence(confidence))


def _number(value: object) -> int | None:
    match value:
        case bool() | None:
            return None
        case int():
            return value
        case float():
            return int(value) if math.isfinite(value) else None
        case str():
            found = re.search(r"\d{1,9}", value)
            return int(found[0]) if found else None
        case [first, *_]:
            return _number(first)
        case dict():
            return next((number for field in value.values() if (number := _number(field)) is not None), None)
        case _:
            return None


def _confidence(value: object) -> float:
    """From 0 to 1, whether it was written so, or as a percentage, of ten, or in a word."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        found = re.search(r"\d+(?:[.,]\d+)?", word)
        if found is None:
            return _UNSAID
        value = float(found[0].replace(",", "."))
        if "%" in word:
            value /= 100
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return _UNSAID
    for scale in (1, 10, 100):
        if value <= scale:
            return max(0.0, value / scale)
    return _UNSAID  # small models write numbers without end
