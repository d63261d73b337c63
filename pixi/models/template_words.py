"""The control words of a model's own template: from its `.gguf` file, or from llama.cpp."""

import contextlib
import mmap
import struct
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from pixi.core.control_words import words_in
from pixi.models.faults import Server

_TOKENS = "tokenizer.ggml.tokens"
_TYPES = "tokenizer.ggml.token_type"
_TEMPLATE = "tokenizer.chat_template"  # and others behind it, such as `tokenizer.chat_template.tool_use`

# Of the format, as its specification has it: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_LENGTH = struct.Struct("<Q")
_CONTROL = 3  # the type of a token that llama.cpp reads in anybody's text as what it stands for

_LONGEST_PROPS = 4 * 1024 * 1024  # bytes
_PROPS_SECONDS = 5.0


class _Props(msgspec.Struct):
    """What llama.cpp tells of a model that it serves."""

    chat_template: str = ""
    bos_token: str = ""
    eos_token: str = ""


def words_of_file(path: Path) -> list[str]:
    """The control words of a `.gguf` file: the tokens that it marks so, and what its templates write.

    Only the head of the file is read. Of one that cannot be read so far, there are those that were found.
    """
    words: list[str] = []
    tokens: Sequence[int] = ()
    kinds: Sequence[object] = ()
    with (
        contextlib.suppress(OSError, struct.error, ValueError),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        head = _Head(data)
        for key, value in head.fields():
            if key.startswith(_TEMPLATE) and isinstance(value, str):
                words += words_in(value)
            elif key == _TOKENS and isinstance(value, list):
                tokens = value
            elif key == _TYPES and isinstance(value, tuple):
                kinds = value
            if tokens and kinds:  # in either order
                marked = (at for at, kind in zip(tokens, kinds, strict=False) if kind == _CONTROL)
                words += map(head.text_at, marked)
                tokens = kinds = ()
    return list(dict.fromkeys(words))


class _Head:
    """Reads the fields at the head of a `.gguf` file, from its first byte on."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def fields(self) -> Iterator[tuple[str, object]]:
        """Yield each field: its key, and a text, a number, a tuple of numbers, or the places of texts.

        Raises:
            struct.error, ValueError: the file ends too early, or holds what the format does not know.
        """
        magic, version, _, count = self._numbers("4sIQQ")
        if magic != b"GGUF" or version < 2:  # whose lengths had other sizes
            raise ValueError("an unknown format")
        for _ in range(count):
            key = self._text()
            (kind,) = self._numbers("I")
            yield key, self._array() if kind == _ARRAY else self._one(kind)

    def text_at(self, at: int) -> str:
        """Return the text at a place of the file."""
        (length,) = _LENGTH.unpack_from(self._data, at)
        text: bytes = self._data[at + _LENGTH.size : at + _LENGTH.size + length]
        return text.decode("utf-8", "replace")

    def _one(self, kind: int) -> object:
        return self._text() if kind == _STRING else self._numbers(_code(kind))[0]

    def _array(self) -> object:
        kind, length = self._numbers("IQ")
        if length > len(self._data):
            raise ValueError("more items than bytes")
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


def _code(kind: int) -> str:
    if kind not in _NUMBERS:
        raise ValueError("a value of an unknown type")
    return _NUMBERS[kind]


async def words_at_server(
    session: aiohttp.ClientSession, server: Server, proxy: str | None
) -> Collection[str]:
    """The control words that a llama.cpp server tells of one of its models; none where it tells nothing.

    Raises:
        aiohttp.ClientError, OSError: it could not be asked, or has no time; it may have later.
        TimeoutError: it does not answer within 5 s.
    """
    response = await session.get(
        f"{server.base_url.removesuffix('/v1')}/props",
        params={"model": server.model},
        headers={"Authorization": f"Bearer {server.sent_key}", "Accept-Encoding": "identity"},
        proxy=proxy,
        allow_redirects=False,
        timeout=aiohttp.ClientTimeout(total=_PROPS_SECONDS),
    )
    async with response:
        if response.status == 429 or response.status >= 500:  # llama.cpp loads its model, or is busy
            response.raise_for_status()
        content = bytearray()
        while len(content) < _LONGEST_PROPS and (data := await response.content.readany()):
            content += data
    if response.status != 200:
        return ()
    try:
        told = msgspec.json.decode(content, type=_Props)
    except (ValueError, RecursionError):
        return ()
    return [*words_in(told.chat_template), told.bos_token, told.eos_token]
