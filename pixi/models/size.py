"""How large a model is, from what it is called, and what follows from that for its prompt and its tools.

A tiny model gets a short prompt, examples as turns and a grammar; from `WHOLE_PROMPT` billion parameters on a
model gets the whole prompt; from `CALLS_TOOLS` on it is offered tools. One whose size nobody knows is large.
"""

import contextlib
import math
import mmap
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pixi.core.control_words import words_in
from pixi.models.dialects.prompt import ToolMode
from pixi.models.model import Traits

WHOLE_PROMPT = 0.7
"""Billions of parameters from which on a model is given the whole prompt, and follows it."""

CALLS_TOOLS = 3.0
"""Billions of parameters from which on a model is offered tools, unless it is set otherwise."""

# `8x7b` is a mixture of eight; `e4b` works as if it had four billion; the `a3b` of `30b-a3b` tells how many
# of them work at a time, and is not the size. No letter or digit stands beside: neither `4bit` nor `r7b`.
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x|e)?(\d{1,4}(?:\.\d{1,3})?)([bm])(?![a-z0-9])", re.IGNORECASE)
_FEWEST_MILLIONS = 14  # `1m` and `10m` in names of models tell how many tokens these can hold


def size_in(name: str) -> float | None:
    """Return the billions of parameters that a name such as `qwen2.5-1.5b-instruct` tells; None: it does not.

    Where it tells several, the largest is meant.
    """
    sizes = []
    for experts, number, unit in _SIZE.findall(name):
        size = int(experts or 1) * float(number)
        if unit in "bB":
            sizes.append(size)
        elif size >= _FEWEST_MILLIONS:
            sizes.append(size / 1_000)
    return max(sizes, default=None) or None


def tools_for(parameters: float | None, wanted: ToolMode) -> ToolMode:
    """Return how a model of so many billion parameters is offered tools, where the settings want `wanted`."""
    too_small = parameters is not None and parameters < CALLS_TOOLS
    return "off" if wanted == "auto" and too_small else wanted


def sized(traits: Traits, parameters: float | None, tools: ToolMode) -> Traits:
    """Return the traits of a model of so many billion parameters, which is offered tools in that form.

    Where nobody knows its size, it is as large as `traits` tell.
    """
    small = traits.small if parameters is None else parameters < WHOLE_PROMPT
    return replace(traits, parameters=parameters, small=small, tools=tools != "off")


def describe(traits: Traits) -> str:
    """Describe in one line how large a model is, and what follows: `1.5B: whole prompt, no tools`."""
    size = "size unknown" if traits.parameters is None else size_label(traits.parameters)
    prompt = "short prompt" if traits.small else "whole prompt"
    return f"{size}: {prompt}, {'tools' if traits.tools else 'no tools'}"


def size_label(parameters: float) -> str:
    """Return a size as names of models have it: `135M`, `1.5B`, `70B`."""
    if parameters < 0.9995:
        return f"{parameters * 1_000:.3g}M"
    return f"{parameters:.2g}B" if parameters < 9.95 else f"{parameters:.0f}B"


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
