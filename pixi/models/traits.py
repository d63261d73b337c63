"""Traits of a model before it is asked: its size and its template's control words.

They are read from the model's name, from the head of its `.gguf` file, or asked of its server.
"""

import asyncio
import contextlib
import math
import mmap
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from msgspec.structs import replace

from pixi.core.control_words import words_in
from pixi.core.llm import ToolMode
from pixi.models.connections import beginning_of
from pixi.models.faults import Server
from pixi.models.model import Traits

WHOLE_PROMPT = 0.7
"""Billions of parameters from which on a model is given the whole prompt, and follows it."""
CALLS_TOOLS = 3.0
"""Billions of parameters from which on a model is offered tools, unless it is set otherwise."""
# `8x7b` is a mixture of eight; `e4b` works as if it had four billion; the `a3b` of `30b-a3b` tells how many
# of them work at a time, and is not the size. No letter or digit stands beside: neither `4bit` nor `r7b`.
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x|e)?(\d{1,4}(?:\.\d{1,3})?)([bm])(?![a-z0-9])", re.IGNORECASE)
_FEWEST_MILLIONS = 14  # `1m` and `10m` in names of models tell how many tokens these can hold
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
_LONGEST_ANSWER = 4 * 1024 * 1024  # bytes
_SECONDS = 5.0  # for all questions together
_MOST_PARAMETERS = 10**16  # no model has so many: a larger number is none


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


class GgufHead(msgspec.Struct):
    """The head of a file.

    Attributes:
        control_words: the tokens that it marks so, and what its templates write.
        parameters: how many the model has, in billions; None: it does not tell.
    """

    control_words: list[str] = msgspec.field(default_factory=list)
    parameters: float | None = None


def read_head(path: Path) -> GgufHead:
    """Read the head of a file. Where it breaks off, or breaks a rule, what stands before that counts."""
    head = GgufHead()
    with (
        contextlib.suppress(OSError, struct.error, ValueError, OverflowError),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        _read_into(head, _GgufReader(data))
    head.control_words = list(dict.fromkeys(head.control_words))  # each once
    return head


def _read_into(head: GgufHead, reader: "_GgufReader") -> None:
    """Read the fields of a file, and where these tell no size, the tensors."""
    tokens: Sequence[int] = ()  # where the text of each stands in the file
    kinds: Sequence[object] = ()  # of the same tokens
    label, is_part = "", False
    for key, value in reader.fields():
        if key.startswith(_TEMPLATE) and isinstance(value, str):
            head.control_words += words_in(value)
        elif key == _TOKENS and isinstance(value, list):
            tokens = value
        elif key == _TYPES and isinstance(value, tuple):
            kinds = value
        elif key == _COUNT and isinstance(value, int) and value > 0:
            head.parameters = value / 1e9
        elif key == _LABEL and isinstance(value, str):
            label = value
        elif key == _PARTS:
            is_part = isinstance(value, int) and value > 1
        if tokens and kinds:  # they come in either order
            for at, kind in zip(tokens, kinds, strict=False):
                if kind == _CONTROL:
                    head.control_words.append(reader.text_at(at))
            tokens = kinds = ()
    if head.parameters is None and not is_part:
        head.parameters = reader.elements() / 1e9 or None
    if head.parameters is None:
        head.parameters = size_in(label)


class _GgufReader:
    """Reads a GGUF file from its first byte on: its fields, then the descriptions of its tensors.

    All methods raise struct.error or ValueError where the file ends too early, or holds values that the
    format does not know or that are larger than any model needs.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0  # the next byte to read
        self._tensors = 0  # how many there are; known once `fields` began

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
        """Return how many numbers all tensors hold. To be called once all fields are read."""
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
        """Skip texts that follow each other, and return where each stands.

        A vocabulary has hundreds of thousands: few of them are wanted as texts.
        """
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


class _Props(msgspec.Struct):
    """llama.cpp's answer about a model, of `/props`."""

    chat_template: str
    bos_token: str = ""
    eos_token: str = ""


class _Meta(msgspec.Struct):
    n_params: int = 0
    n_ctx_train: int = 0


class _Listed(msgspec.Struct):
    id: str = ""
    meta: _Meta | None = None


class LlamaListing(msgspec.Struct):
    """llama.cpp's list of models, which tells what it knows of each that is loaded."""

    data: list[_Listed] = []


class _Details(msgspec.Struct):
    parameter_size: str = ""


class _Shown(msgspec.Struct):
    """Ollama's answer about a model."""

    details: _Details | None = None
    model_info: dict[str, object] | None = None


_Answer = TypeVar("_Answer", _Props, LlamaListing, _Shown)


class ServedModel(msgspec.Struct, frozen=True):
    """A server's answer about a model.

    Attributes:
        parameters: how many it has, in billions; None: it was not told.
        control_words: of its template.
        by_llama: llama.cpp runs it.
    """

    parameters: float | None = None
    control_words: tuple[str, ...] = ()
    by_llama: bool = False


async def ask_about_model(
    session: aiohttp.ClientSession, server: Server, proxy: str | None, *, size: bool
) -> ServedModel:
    """Ask a server about one of its models, in the words of llama.cpp and of Ollama.

    Args:
        size: ask how large it is, too; otherwise only for the words of its template.

    Raises:
        aiohttp.ClientError, OSError: it could not be asked, or has no time; it may have later.
        TimeoutError: it does not answer within 5 s.
    """

    async def ask(
        method: str,
        path: str,
        answer: type[_Answer],
        params: Mapping[str, str] | None = None,
        json: object = None,
    ) -> _Answer | None:
        response = await session.request(
            method,
            # What is asked stands at the server's root, whatever path the API of its models has.
            server.base_url.removesuffix("/v1") + path,
            headers={"Authorization": f"Bearer {server.sent_key}", "Accept-Encoding": "identity"},
            proxy=proxy,
            allow_redirects=False,
            params=params,
            json=json,
        )
        async with response:
            return await _parsed_answer(response, answer)

    async with asyncio.timeout(_SECONDS):
        props = await ask("GET", "/props", _Props, params={"model": server.model})
        if props is not None:
            words = (*words_in(props.chat_template), props.bos_token, props.eos_token)
            listing = await ask("GET", "/v1/models", LlamaListing) if size else None
            return ServedModel(_size_listed(listing, server.model), words, by_llama=True)
        shown = await ask("POST", "/api/show", _Shown, json={"model": server.model}) if size else None
        return ServedModel(_size_shown(shown))


async def _parsed_answer(response: aiohttp.ClientResponse, answer: type[_Answer]) -> _Answer | None:
    """Return what a server answered; None where that is something else."""
    if response.status in (429, 503):  # llama.cpp loads its model, or is busy
        response.raise_for_status()
    content = await beginning_of(response, _LONGEST_ANSWER)
    try:
        return msgspec.json.decode(content, type=answer) if response.status == 200 else None
    except (ValueError, RecursionError):
        return None


def _size_listed(listing: LlamaListing | None, model: str) -> float | None:
    models = listing.data if listing else []
    # llama.cpp serves one model under whatever name it is asked for; as a router it has several.
    named = [each for each in models if each.id == model] or (models if len(models) == 1 else [])
    count = named[0].meta.n_params if named and named[0].meta else 0
    return count / 1e9 if 0 < count < _MOST_PARAMETERS else None


def _size_shown(shown: _Shown | None) -> float | None:
    if shown is None:
        return None
    count = (shown.model_info or {}).get("general.parameter_count")
    if isinstance(count, int) and 0 < count < _MOST_PARAMETERS:
        return count / 1e9
    return size_in(shown.details.parameter_size) if shown.details else None
