"""What a server tells of a model that it serves, beside its listing: its size, and its template's words."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
import msgspec

from pixi.core.control_words import words_in
from pixi.models.connections import beginning_of
from pixi.models.faults import Server
from pixi.models.size import size_in

_LONGEST_ANSWER = 4 * 1024 * 1024  # bytes
_SECONDS = 5.0  # for all questions together
_MOST_PARAMETERS = 10**16  # no model has so many: a larger number is none


class _Props(msgspec.Struct):
    """What llama.cpp tells of a model."""

    chat_template: str
    bos_token: str = ""
    eos_token: str = ""


class _Meta(msgspec.Struct):
    n_params: int = 0


class _Listed(msgspec.Struct):
    id: str = ""
    meta: _Meta | None = None


class _Listing(msgspec.Struct):
    """llama.cpp's list of models, which tells how large each is that is loaded."""

    data: list[_Listed] = []


class _Details(msgspec.Struct):
    parameter_size: str = ""


class _Shown(msgspec.Struct):
    """What Ollama tells of a model."""

    details: _Details | None = None
    model_info: dict[str, object] | None = None


_Answer = TypeVar("_Answer", _Props, _Listing, _Shown)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What a server told of a model.

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
            return await _read(response, answer)

    async with asyncio.timeout(_SECONDS):
        props = await ask("GET", "/props", _Props, params={"model": server.model})
        if props is not None:
            words = (*words_in(props.chat_template), props.bos_token, props.eos_token)
            listing = await ask("GET", "/v1/models", _Listing) if size else None
            return ServedModel(_size_listed(listing, server.model), words, by_llama=True)
        shown = await ask("POST", "/api/show", _Shown, json={"model": server.model}) if size else None
        return ServedModel(_size_shown(shown))


async def _read(response: aiohttp.ClientResponse, answer: type[_Answer]) -> _Answer | None:
    """Return what a server answered; None where that is something else."""
    if response.status in (429, 503):  # llama.cpp loads its model, or is busy
        response.raise_for_status()
    content = await beginning_of(response, _LONGEST_ANSWER)
    try:
        return msgspec.json.decode(content, type=answer) if response.status == 200 else None
    except (ValueError, RecursionError):
        return None


def _size_listed(listing: _Listing | None, model: str) -> float | None:
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
