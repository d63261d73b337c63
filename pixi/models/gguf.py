"""What the head of a `.gguf` file tells of its model: the control words of its template, and its size."""

import contextlib
import math
import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pixi.core.control_words import words_in
from pixi.models.size import size_in

_TOKENS = "tokenizer.ggml.tokens"
_TYPES = "tokenizer.ggml.token_type"
_TEMPLATE = "tokenizer.chat_template"  # and others behind it, such as `tokenizer.chat_template.tool_use`
_COUNT = "general.parameter_count"
_LABEL = "general.size_label"  # such as `1.5B` or `8x7B`
# A file that is one of several holds only some of the tensors. One that was put together of several says 0.
_PARTS = "split.count"

# Of the format, as its specification has it: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_LENGTH = struct.Struct("<Q")
_CONTROL = 3  # the type of a token that llama.cpp reads in anybody's text as what it stands for

# Anybody's file may be tried, so nothing is read without a bound. The largest models have about a hundred
# fields, a few thousand tensors, and half a million merges.
_MOST_FIELDS = 65_536
_MOST_ITEMS = 4_194_304
_MOST_DIMENSIONS = 8
_LONGEST_TEXT = 4 * 1024 * 1024
_DENSEST = 8  # parameters a byte: none of llama.cpp's ways to pack them holds more than six


@dataclass(slots=True)
class GgufHead:
    """What the head of a file tells.

    Attributes:
        control_words: the tokens that it marks so, and what its templates write.
        parameters: how many the model has, in billions; None: it does not tell.
    """

    control_words: list[str] = field(default_factory=list)
    parameters: float | None = None


def read_head(path: Path) -> GgufHead:
    """Read the head of a file. Of one that cannot be read so far, there is what was found."""
    found = GgufHead()
    with (
        contextlib.suppress(OSError, struct.error, ValueError, OverflowError),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        _read(_Reader(data), found)
    return found


def _read(head: "_Reader", found: GgufHead) -> None:
    words: dict[str, None] = {}
    try:
        _read_fields(head, found, words)
    finally:
        found.control_words = list(words)


def _read_fields(head: "_Reader", found: GgufHead, words: dict[str, None]) -> None:
    """Read all fields, and what follows them, into `found`; the control words into `words`, each once."""
    tokens: Sequence[int] = ()
    kinds: Sequence[object] = ()
    label, is_part = "", False
    for key, value in head.fields():
        if key.startswith(_TEMPLATE) and isinstance(value, str):
            words.update(dict.fromkeys(words_in(value)))
        elif key == _TOKENS and isinstance(value, list):
            tokens = value
        elif key == _TYPES and isinstance(value, tuple):
            kinds = value
        elif key == _COUNT and isinstance(value, int) and value > 0:
            found.parameters = value / 1e9
        elif key == _LABEL and isinstance(value, str):
            label = value
        elif key == _PARTS:
            is_part = isinstance(value, int) and value > 1
        if tokens and kinds:  # in either order
            marked = (at for at, kind in zip(tokens, kinds, strict=False) if kind == _CONTROL)
            words.update(dict.fromkeys(map(head.text_at, marked)))
            tokens = kinds = ()
    if found.parameters is None:
        found.parameters = (None if is_part else head.elements() / 1e9) or size_in(label)


class _Reader:
    """Reads a file from its first byte on: its fields, then what it says of its tensors.

    All its methods raise struct.error or ValueError where the file ends too early, or holds what the
    format does not know or nobody needs.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0
        self._tensors = 0

    def fields(self) -> Iterator[tuple[str, object]]:
        """Yield each field: its key, and a text, a number, a tuple of numbers, or the places of texts."""
        magic, version, self._tensors, count = self._numbers("4sIQQ")
        if magic != b"GGUF" or version < 2:  # whose lengths had other sizes
            raise ValueError("an unknown format")
        for _ in range(_bounded(count, _MOST_FIELDS)):
            key = self._text()
            (kind,) = self._numbers("I")
            yield key, self._array() if kind == _ARRAY else self._one(kind)

    def elements(self) -> int:
        """Return how many numbers all tensors hold, once all fields are read."""
        elements = 0
        for _ in range(_bounded(self._tensors, _MOST_FIELDS)):
            self._text()
            (dimensions,) = self._numbers("I")
            elements += math.prod(self._numbers(f"{_bounded(dimensions, _MOST_DIMENSIONS)}Q"))
            self._numbers("IQ")  # how they are packed, and where
        return _bounded(elements, _DENSEST * len(self._data))

    def text_at(self, at: int) -> str:
        """Return the text at a place of the file."""
        (length,) = _LENGTH.unpack_from(self._data, at)
        start = at + _LENGTH.size
        text: bytes = self._data[start : start + _bounded(length, _LONGEST_TEXT)]
        return text.decode("utf-8", "replace")

    def _one(self, kind: int) -> object:
        return self._text() if kind == _STRING else self._numbers(_code(kind))[0]

    def _array(self) -> object:
        kind, length = self._numbers("IQ")
        _bounded(length, _MOST_ITEMS)
        return self._places(length) if kind == _STRING else self._numbers(f"{length}{_code(kind)}")

    def _text(self) -> str:
        (at,) = self._places(1)
        return self.text_at(at)

    def _places(self, count: int) -> list[int]:
        """Where so many texts stand that follow each other: a vocabulary has hundreds of thousands."""
        places, at, size = [], self._at, len(self._data)
        for _ in range(count):
            places.append(at)
            (length,) = _LENGTH.unpack_from(self._data, at)
            at += _LENGTH.size + length
            if at > size:
                raise ValueError("a text longer than the file")
        self._at = at
        return places

    def _numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found


def _bounded(count: int, most: int) -> int:
    if count > most:
        raise ValueError("more than any model has")
    return count


def _code(kind: int) -> str:
    if kind not in _NUMBERS:  # an array of arrays, too: nothing that is looked for is one
        raise ValueError("a value of an unknown type")
    return _NUMBERS[kind]
