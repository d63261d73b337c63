"""The door to every OpenAI-compatible server that turns text into vectors."""

import asyncio
import json
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import aiohttp
import msgspec

from pixi.core.errors import ModelError
from pixi.core.llm import Prices, Usage
from pixi.core.spending import Count
from pixi.models import faults
from pixi.models.breaker import Breakers
from pixi.models.connections import beginning_of, checked_address, checked_key, open_session, proxy_for
from pixi.models.faults import Retries, Server, refusal_in

_MOST_TEXTS = 256  # in one request; what servers of one's own often take at most
_MOST_BYTES = 128 * 1024  # of text in one request, unless it is a single one
_LONGEST_TEXT = 6_000  # characters: models read some 8,000 tokens at most, and refuse what is longer
_MOST_REPLY = 64 * 1024 * 1024
_SHORTEST = 1e-9  # a vector that is shorter points nowhere


class _Item(msgspec.Struct, gc=False):
    embedding: list[float]
    index: int | None = None


class _Used(msgspec.Struct, gc=False):
    prompt_tokens: int = 0


class _Answer(msgspec.Struct, gc=False):
    data: list[_Item]
    usage: object = None


class OpenAIEmbeddings:
    """Turns texts into vectors, near each other where the meaning is, at a server of the embeddings API.

    Args:
        name: the model's id at the server.
        base_url: the address that `/embeddings` follows.
        api_key: None where the server is one's own and wants none; then any key is sent.
        extra_body: fields merged into each request's body, last.
        seconds: how long one request may take, attempts and pauses between them included.
        at_once: requests under way side by side.
        retries: how often to ask.
        session: shared with others and closed by its owner; None: one is opened at the first request.
        breakers: shared with all others that may ask the same servers; None: this door stands alone.
        prices: what it costs; None: not known.
        count: told what each request used, where the server says so.

    Raises:
        ConfigError: `base_url`, the key or the environment's proxy is nothing to ask with.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        extra_body: Mapping[str, object] | None = None,
        seconds: float = 30.0,
        at_once: int = 4,
        retries: Retries | None = None,
        session: aiohttp.ClientSession | None = None,
        breakers: Breakers | None = None,
        prices: Prices | None = None,
        count: Count | None = None,
    ) -> None:
        base = checked_address(base_url)
        self._model = name
        self._extra = dict(extra_body or {})
        self._server = Server(
            f"{base.host}:{base.port}", str(base), name, checked_key(api_key), serves="embeddings"
        )
        self._breaker = (breakers or Breakers()).of(self._server.place)
        self._prices = prices
        self._count = count
        self._url = base / "embeddings"
        self._proxy = proxy_for(base)
        self._seconds = seconds
        self._gate = asyncio.Semaphore(at_once)
        self._retries = retries or Retries()
        self._dimensions = 0  # of its vectors; 0: not known yet
        self._session = session
        self._owns_session = session is None

    def __repr__(self) -> str:
        return f"OpenAIEmbeddings({self._model!r}, base_url={self._server.base_url!r})"

    @property
    def name(self) -> str:
        """Return a name of model, server and `extra_body`: vectors of one name can be compared."""
        beside = f" {json.dumps(self._extra, sort_keys=True, default=str)}" if self._extra else ""
        return f"{self._model} at {self._server.base_url}{beside}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text, in order. Of a long text only the beginning is read.

        Raises:
            ModelError: the server could not be asked, refused, failed, was too slow, or gave what are no
                vectors of these texts.
        """
        batches = list(_batches(texts))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._embed(batch)) for batch in batches]
        except ExceptionGroup as failed:
            fault = next((each for each in failed.exceptions if isinstance(each, ModelError)), None)
            if fault is None:
                raise
            raise fault from None  # the others nearly always say the same
        return list(chain.from_iterable(task.result() for task in tasks))

    async def close(self) -> None:
        """Close the session, if it is the door's own. Calling it twice does no harm."""
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    async def _embed(self, texts: Sequence[str]) -> list["array[float]"]:
        async with self._gate:
            content = await self._asked(texts)
        vectors, tokens = await asyncio.to_thread(self._vectors_in, content, len(texts))
        if tokens and self._count is not None:
            self._count(self._model, Usage(tokens), self._prices)
        dimensions = len(vectors[0])
        if self._dimensions not in (0, dimensions):
            raise self._broken(f"vectors of {dimensions} dimensions after some of {self._dimensions}")
        self._dimensions = dimensions
        return vectors

    async def _asked(self, texts: Sequence[str]) -> bytes:
        """Return the answer to one request, however often it is tried."""
        asked_at = asyncio.get_running_loop().time()
        attempt = 1
        with self._breaker.asking() as asking:
            while True:
                try:
                    content = await self._ask(texts, asked_at)
                except ModelError as fault:
                    left = asked_at + self._seconds - asyncio.get_running_loop().time()
                    pause = self._retries.pause_after(fault, attempt, left, asking)
                    if pause is None:
                        raise
                else:
                    asking.answered()
                    return content
                await self._retries.sleep(pause)
                attempt += 1

    async def _ask(self, texts: Sequence[str], asked_at: float) -> bytes:
        if self._session is None:
            self._session = open_session()
        body = {"model": self._model, "input": list(texts)} | self._extra
        # Half a surrogate pair, which no server takes, becomes a question mark.
        data = json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
        headers = {
            "Authorization": f"Bearer {self._server.sent_key}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        late = ModelError(f"{self._server.place} sent no vectors within {self._seconds:g} s.")
        with faults.connecting(self._server, lambda: late):
            async with asyncio.timeout_at(asked_at + self._seconds):
                async with self._session.post(
                    self._url, data=data, headers=headers, proxy=self._proxy, allow_redirects=False
                ) as response:
                    if response.status != 200 or response.content_type == "text/html":
                        raise await refusal_in(response, self._server)
                    content = await beginning_of(response, _MOST_REPLY)
                    if len(content) > _MOST_REPLY:
                        raise self._broken(f"more than {_MOST_REPLY} bytes")
                    return content

    def _vectors_in(self, content: bytes, count: int) -> tuple[list["array[float]"], int]:
        """Return the vectors of a response, and the tokens of their texts, 0 where the server does not say.

        The vectors stand in the order of the texts, each of length 1.
        """
        try:
            answer = msgspec.json.decode(content, type=_Answer)
            items = answer.data
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self._broken("what is no list of vectors") from None
        if len(items) != count:
            raise self._broken(f"{len(items)} vectors for {count} texts")
        if all(item.index is not None for item in items):
            items.sort(key=lambda item: item.index or 0)
            if [item.index for item in items] != list(range(count)):
                raise self._broken("vectors whose numbers are not those of the texts")
        vectors = [self._vector(item.embedding) for item in items]
        if len({len(vector) for vector in vectors}) != 1:
            raise self._broken("vectors of different dimensions")
        return vectors, _tokens_in(answer.usage)

    def _vector(self, given: list[float]) -> "array[float]":
        length = math.hypot(*given)
        if not _SHORTEST < length < math.inf:  # false of what is no number, too
            raise self._broken("a vector without a direction")
        return array("f", [number / length for number in given])

    def _broken(self, what: str) -> ModelError:
        return ModelError(
            f"{self._server.place} answered with {what}: is {self._model!r} an embedding model?"
        )


def _tokens_in(usage: object) -> int:
    """Return the tokens that a server counted; 0 for anything else that stands there."""
    try:
        return max(0, msgspec.convert(usage, _Used).prompt_tokens)
    except msgspec.ValidationError:
        return 0


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Return the texts in requests, as they are sent: none is empty, none too long."""
    batch: list[str] = []
    size = 0
    for text in texts:
        sent = text[:_LONGEST_TEXT].strip() or "-"  # servers refuse what is empty
        length = len(sent.encode("utf-8", "replace"))
        if batch and (len(batch) == _MOST_TEXTS or size + length > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(sent)
        size += length
    if batch:
        yield batch
