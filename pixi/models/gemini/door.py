"""The door to Gemini, through the provider's own package (the extra `gemini`)."""

import logging
import re
import ssl
import warnings
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import aiohttp

from pixi.core.deltas import Delta, Request
from pixi.core.errors import ModelError
from pixi.models import faults
from pixi.models.attempts import Answer
from pixi.models.deadlines import FirstWait
from pixi.models.gemini.body import Kept, config_of, contents_of, talk_for
from pixi.models.gemini.chunks import ChunkAssembler
from pixi.models.keepsakes import Keepsakes
from pixi.models.packaged.model import PackagedModel, Provider
from pixi.models.packaged.watched import WatchedReply
from pixi.models.render import Quirk

if TYPE_CHECKING:
    from google import genai
    from google.genai import types

_VERSION = re.compile(r"/(v\d\w*)(/openai)?$")  # the second for its other API, of OpenAI's kind
_MOST_LISTED = 1000


class Gemini(PackagedModel["genai.Client", Kept]):
    """A model behind the Gemini API. See `PackagedModel` for the arguments.

    Whether the model thinks is its own matter, unless `extra_body` says, in the API's own words:
    `{ generationConfig = { thinkingConfig = { thinkingLevel = "low" } } }`. It signs its calls, and wants
    them back as they were while a turn lasts: they go back for as long as they are remembered here (see
    `keepsakes`). For calls that it did not make, as another model's, there is a word that it takes instead;
    it is sent once it was asked for.

    Older models do not search the web where they are offered tools: the tools stay, and the search goes.
    """

    provider = Provider(
        "Gemini",
        package="google.genai",
        extra="gemini",
        key_name="GEMINI_API_KEY",
        base_url="https://generativelanguage.googleapis.com",
        asks="streamGenerateContent",
    )

    def _connect(self, session: aiohttp.ClientSession) -> "genai.Client":
        # Imported here: it takes most of a second.
        import httpx2
        from google import genai
        from google.genai import types

        from pixi.models.packaged.carriage import Carriage

        # It warns of each new word of the server's, such as the reason for an end.
        warnings.filterwarnings("ignore", ".* is not a valid ", UserWarning)
        # And of two keys in the environment, though it is given one.
        logging.getLogger("google_genai").setLevel(logging.ERROR)
        transport = Carriage(self._server, session, self._proxy)
        version = _VERSION.search(self._server.base_url)
        return genai.Client(
            api_key=self._server.sent_key,
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=_VERSION.sub("", self._server.base_url),
                api_version=version[1] if version else None,
                httpx_async_client=httpx2.AsyncClient(transport=transport, trust_env=False),
                # For ways of the package that nobody goes here: each would read all certificates first.
                async_client_args={"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)},
                extra_body=dict(self._style.extra_body),
            ),
        )

    async def _disconnect(self, client: "genai.Client") -> None:
        await client.aio.aclose()
        client.close()

    async def _ask(
        self, client: "genai.Client", request: Request, quirks: frozenset[Quirk], wait: FirstWait
    ) -> Answer:
        from pixi.models.packaged.carriage import noting

        talk = talk_for(request, self._style, quirks)
        contents = contents_of(talk, quirks, self._kept.of)
        config = config_of(request, talk, self._style, quirks, search=self._search)
        with noting() as responses:
            try:
                chunks = await client.aio.models.generate_content_stream(
                    model=self.name, contents=list(contents), config=config
                )
                first = await anext(chunks)
            except BaseException as error:
                for response in responses:
                    response.close()
                if isinstance(error, StopAsyncIteration):
                    raise faults.no_reply(self._server, responses[0].content_type) from None
                if isinstance(error, ValueError):
                    raise self._unreadable(error) from error
                raise
        assembler = ChunkAssembler(self._server)
        stream = WatchedReply(
            self._read(first, chunks),
            assembler,
            responses[0],
            server=self._server,
            deadlines=self._deadlines,
            wait=wait,
        )
        return _Reply(stream, assembler, self._kept)

    async def _read(
        self,
        first: "types.GenerateContentResponse",
        others: "AsyncIterator[types.GenerateContentResponse]",
    ) -> "AsyncIterator[types.GenerateContentResponse]":
        yield first
        try:
            async for chunk in others:
                yield chunk
        except ValueError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: ValueError) -> ModelError:
        """The error of what the package cannot make sense of; it reads strictly."""
        what = type(error).__name__
        return ModelError(f"{self._server.place} sent what the package of its API cannot read: {what}.")

    async def _listed(self, client: "genai.Client") -> list[str]:
        try:
            listing = await client.aio.models.list(config={"page_size": _MOST_LISTED})
            names = [model.name or "" async for model in listing]
        except ValueError as error:
            raise self._unreadable(error) from error
        return [name.removeprefix("models/") for name in names if name]


class _Reply:
    """A reply, of which is kept what its calls must go back with."""

    def __init__(
        self,
        stream: WatchedReply["types.GenerateContentResponse"],
        assembler: ChunkAssembler,
        kept: Keepsakes[Kept],
    ) -> None:
        self._stream = stream
        self._assembler = assembler
        self._kept = kept

    async def read(self) -> list[Delta]:
        """Wait for the next deltas; none: the reply is over, and `Finished` was given.

        Raises:
            ModelError: the server failed, broke off, or let a deadline pass.
        """
        deltas = await self._stream.read()
        for call_id, keepsake in self._assembler.keepsakes().items():
            self._kept.keep([call_id], keepsake)
        return deltas

    async def drain(self) -> None:
        """Read what comes after the end, so that the connection can serve again."""
        await self._stream.drain()

    def close(self) -> None:
        """Give it up, unless it was read to its end."""
        self._stream.close()
