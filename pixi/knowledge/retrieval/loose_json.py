"""Reads what a model meant to be JSON: other quotation marks, too many commas, a missing end."""

import re
from typing import Final

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL)
_BARE = re.compile(r"[^\s,:{}\[\]\"']+")
_CODES = re.compile(r"u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*")  # pairs of surrogates belong together
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`"}
_DEEPEST = 20


class _Cut:
    """Stands for a value that the text ends in the middle of."""


_CUT: Final = _Cut()


def loosely_read(text: str, start: int) -> object:
    """The value that begins at a brace or bracket. Never fails.

    Lists and objects that are cut off hold what of them was whole.
    """
    value, _ = _value(text, start, 0)
    return None if isinstance(value, _Cut) else value


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> tuple[object, int]:
    at = _blank(text, at)
    if at >= len(text) or depth > _DEEPEST:
        return _CUT, len(text)
    if text[at] == "{":
        return _object(text, at + 1, depth)
    if text[at] == "[":
        return _list(text, at + 1, depth)
    if text[at] in _CLOSING:
        return _string(text, at)
    bare = _BARE.match(text, at)
    if bare is None:
        return None, at + 1
    if bare.end() == len(text):
        return _CUT, len(text)  # it may have gone on
    return _bare(bare[0]), bare.end()


def _bare(word: str) -> object:
    known: dict[str, object] = {"true": True, "false": False, "null": None, "none": None}
    if word.lower() in known:
        return known[word.lower()]
    try:
        return float(word)
    except ValueError:
        return word


def _list(text: str, at: int, depth: int) -> tuple[object, int]:
    items: list[object] = []
    while True:
        at = _blank(text, at)
        if at >= len(text):
            return items, at
        if text[at] in "]}":
            return items, at + 1
        if text[at] in ",;:":
            at += 1
            continue
        item, at = _value(text, at, depth + 1)
        if not isinstance(item, _Cut):
            items.append(item)


def _object(text: str, at: int, depth: int) -> tuple[object, int]:
    fields: dict[str, object] = {}
    while True:
        at = _blank(text, at)
        if at >= len(text):
            return fields, at
        if text[at] == "}":
            return fields, at + 1
        if text[at] == "]":
            return fields, at  # its own end is missing
        if text[at] in ",;:":
            at += 1
            continue
        key, at = _value(text, at, depth + 1)
        at = _blank(text, at)
        if isinstance(key, _Cut) or at >= len(text):
            return fields, len(text)
        if text[at] not in ":=":
            continue
        value, at = _value(text, at + 1, depth + 1)
        if not isinstance(value, _Cut):
            fields[str(key)] = value


def _string(text: str, at: int) -> tuple[object, int]:
    """A string ends at a quotation mark with something behind it that goes on with the JSON."""
    closing = _CLOSING[text[at]]
    pieces: list[str] = []
    at += 1
    while at < len(text):
        c = text[at]
        if c == "\\" and at + 1 < len(text):
            escaped, at = _escaped(text, at + 1)
            pieces.append(escaped)
            continue
        if c == closing:
            after = _blank(text, at + 1)
            if after >= len(text) or text[after] in ",:}]":
                return "".join(pieces), at + 1
        pieces.append(c)
        at += 1
    return _CUT, at


def _escaped(text: str, at: int) -> tuple[str, int]:
    if codes := _CODES.match(text, at):
        units = bytes.fromhex(codes[0].replace("\\u", "").removeprefix("u"))
        return units.decode("utf-16-be", "replace"), codes.end()
    return _ESCAPES.get(text[at], text[at]), at + 1
