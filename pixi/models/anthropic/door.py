"""The door to Anthropic's Messages API, through the provider's own package (the extra `anthropic`)."""

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import aiohttp

from pixi.core.deltas import Request
from pixi.core.errors import ModelError
from pixi.models.anthropic.body import Kept, fields_of
from pixi.models.anthropic.events import MessageAssembler
from pixi.models.anthropic.reply import MessageReply, Part
from pixi.models.attempts import Answer
from pixi.models.deadlines import Deadlines, FirstWait
from pixi.models.faults import Server
from pixi.models.listing import ids_in
from pixi.models.packaged.model import PackagedModel, Provider
from pixi.models.packaged.watched import WatchedReply
from pixi.models.render import JsonObject, Quirk
from pixi.models.sse import SSEDecoder

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_log = logging.getLogger("pixi.models")

_MOST_LISTED = 1000


class AnthropicMessages(PackagedModel["AsyncAnthropic", Kept]):
    """A model behind Anthropic's Messages API. See `PackagedModel` for the arguments.

    A reply has at most `max_tokens`, 8192 where the settings name none: the API wants a number. Whether the
    model thinks is its own matter, unless `extra_body` says: `{ thinking = { type = "adaptive" } }`. What it
    thought before it called tools goes back to it with those calls while the turn lasts, and what it found on
    the web for as long as it is remembered here (see `keepsakes`): a history has no room for it.
    """

    provider = Provider(
        "Anthropic",
        package="anthropic",
        extra="anthropic",
        key_name="ANTHROPIC_API_KEY",
        base_url="https://api.anthropic.com",
        asks="messages",
    )

    def _connect(self, session: aiohttp.ClientSession) -> "AsyncAnthropic":
        # Imported here: it takes a second.
        import httpx2
        from anthropic import AsyncAnthropic

        from pixi.models.packaged.carriage import Carriage

        if self._style.temperature is not None:
            _log.warning("Anthropic takes no temperature any more: that of %s is left out.", self.name)
        transport = Carriage(self._server, session, self._proxy)
        client = AsyncAnthropic(
            api_key=self._server.sent_key,
            base_url=self._server.base_url.removesuffix("/v1"),
            max_retries=0,
            timeout=None,
            http_client=httpx2.AsyncClient(transport=transport, trust_env=False),
        )
        # Those of ANTHROPIC_CUSTOM_HEADERS, which may hold another server's key, and would displace this one.
        client._custom_headers = {}
        return client

    async def _disconnect(self, client: "AsyncAnthropic") -> None:
        await client.close()

    async def _ask(
        self, client: "AsyncAnthropic", request: Request, quirks: frozenset[Quirk], wait: FirstWait
    ) -> Answer:
        fields = fields_of(request, self._style, quirks, self._kept.of, search=self._search)

        async def ask(fields: JsonObject, wait: FirstWait, deadlines: Deadlines) -> Part:
            return await self._part(client, fields, wait, deadlines)

        first = await ask(fields, wait, self._deadlines)
        return MessageReply(
            ask,
            fields,
            first,
            server=self._server,
            deadlines=self._deadlines,
            asked_at=wait.asked_at,
            kept=self._kept,
        )

    async def _part(
        self, client: "AsyncAnthropic", fields: JsonObject, wait: FirstWait, deadlines: Deadlines
    ) -> Part:
        import anthropic

        from pixi.models.packaged.carriage import noting

        asked = client.messages.with_streaming_response.create(
            model=self.name,
            max_tokens=1,
            messages=[],
            stream=True,
            # These take the place of what stands above for the sake of the types.
            extra_body=fields,
        )
        try:
            with noting() as responses:
                answer = await asked.__aenter__()
        except anthropic.AnthropicError as error:
            raise _what_happened(error, self._server) from error
        assembler = MessageAssembler(self._server)
        stream = WatchedReply(
            _payloads(answer.http_response.aiter_raw()),
            assembler,
            responses[0],
            server=self._server,
            deadlines=deadlines,
            wait=wait,
        )
        return Part(stream, assembler)

    async def _listed(self, client: "AsyncAnthropic") -> list[str]:
        import anthropic

        try:
            # Raw, because the package's own reading of a foreign body ends in errors of its own.
            answer = await client.models.with_raw_response.list(limit=_MOST_LISTED)
        except anthropic.AnthropicError as error:
            raise _what_happened(error, self._server) from error
        return ids_in(await answer.read(), self._server)


async def _payloads(body: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The data of the events that each piece of a body completes."""
    decoder = SSEDecoder()
    async for data in body:
        yield decoder.feed(data)


def _what_happened(error: Exception, server: Server) -> ModelError:
    """The error that a package raised and that it wrapped: whatever can go wrong, the carriage says so."""
    inner: BaseException = error
    while inner.__cause__ is not None and not isinstance(inner, ModelError):
        inner = inner.__cause__
    if isinstance(inner, ModelError):
        return inner
    return ModelError(f"{server.place} could not be asked: {type(inner).__name__}.")
