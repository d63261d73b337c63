"""The door to every OpenAI-compatible server: chat completions, streamed.

aiohttp sends the request and carries the stream; `sse`, `chunks` and `calls` read it. The openai package
would build pydantic objects for each chunk, some forty times the processor time of this door, and takes
half a second and some 50 MB to import; it serves what is not hot (see `listing`) and is imported there.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import aiohttp

from pixi.core.deltas import Delta, Request
from pixi.core.errors import ModelError
from pixi.models import faults
from pixi.models.asking import checked_address, checked_key, proxy_for, refusal_in
from pixi.models.breaker import Asking, Breakers
from pixi.models.deadlines import Deadlines, Overdue
from pixi.models.faults import Retries, Server
from pixi.models.listing import listed_models
from pixi.models.model import Traits
from pixi.models.quirks import quirk_in
from pixi.models.render import GrammarField, Quirk, Style, ToolMode, body
from pixi.models.reply import Reply

_CONNECT_SECONDS = 10.0


def open_session() -> aiohttp.ClientSession:
    """A session as `OpenAIChat` wants it. One for all models of a process; its owner closes it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        # The deadlines are on content, and are the door's own.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
    )


class OpenAIChat:
    """A model behind the chat-completions API of some server.

    Args:
        name: the model's id at the server.
        base_url: the address that `/chat/completions` follows, e.g. `https://api.openai.com/v1`.
        api_key: None where the server is one's own and wants none; then any key is sent.
        traits: what the prompt must know of it.
        temperature, max_tokens: left out where None.
        extra_body: fields merged into each request's body, last.
        tools: `auto` offers them natively, and in the text form once the server refused them.
        grammar: the field in which the server takes `Request.grammar`; never sent while tools are offered.
        deadlines: how long to wait for content.
        retries: how often to ask, while nothing was yielded.
        session: shared with others and closed by its owner; None: one is opened at the first request.
        breakers: shared with all others that may ask the same servers; None: this door stands alone.

    Raises:
        ConfigError: `base_url`, the key or the environment's proxy is nothing to ask with.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        traits: Traits | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        extra_body: Mapping[str, object] | None = None,
        tools: ToolMode = "auto",
        grammar: GrammarField = "off",
        deadlines: Deadlines | None = None,
        retries: Retries | None = None,
        session: aiohttp.ClientSession | None = None,
        breakers: Breakers | None = None,
    ) -> None:
        base = checked_address(base_url)
        self._traits = traits or Traits()
        self._style = Style(
            model=name,
            tools=tools,
            grammar=grammar,
            vision=self._traits.vision,
            temperature=temperature,
            max_tokens=max_tokens,
            extra_body=extra_body or {},
        )
        self._deadlines = deadlines or Deadlines()
        self._retries = retries or Retries()
        self._server = Server(f"{base.host}:{base.port}", str(base), name, checked_key(api_key))
        self._breaker = (breakers or Breakers()).of(self._server.place)
        self._url = base / "chat" / "completions"
        self._proxy = proxy_for(base)
        self._quirks: frozenset[Quirk] = frozenset()
        self._session = session
        self._owns_session = session is None

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r}, base_url={self._server.base_url!r})"

    @property
    def name(self) -> str:
        """The model's id."""
        return self._style.model

    @property
    def traits(self) -> Traits:
        """What the prompt must know of it."""
        return self._traits

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask, and yield the reply as it is written; the last delta is `Finished`.

        Raises:
            ModelError: the server could not be asked, refused, failed, or let a deadline pass.
        """
        asked_at = asyncio.get_running_loop().time()
        quirks = self._quirks
        attempt = 1
        with self._breaker.asking() as asking:
            while True:
                await self._wait_as_asked(asked_at)
                reply: Reply | None = None
                yielded = False
                try:
                    reply = await self._ask(body(request, self._style, quirks), asked_at)
                    while deltas := await reply.read():
                        if not yielded:
                            yielded = True
                            asking.answered()
                        for delta in deltas:
                            yield delta
                    await reply.drain()
                    return
                except ModelError as fault:
                    if yielded:
                        raise
                    lesson = self._lesson(fault, request, quirks)
                    if lesson is not None:
                        quirks |= {lesson}
                        continue
                    pause = self._pause_after(fault, attempt, asked_at, asking)
                    if pause is None:
                        raise
                finally:
                    if reply is not None:
                        reply.close()
                await asyncio.sleep(pause)
                attempt += 1

    async def models(self) -> list[str]:
        """The ids of the models that the server lists.

        Raises:
            ModelError: as for `stream`; there is one attempt.
        """
        return await listed_models(self._server, self._deadlines.first)

    async def close(self) -> None:
        """Close the session, if it is the door's own. Calling it twice does no harm."""
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, content: bytes, asked_at: float) -> Reply:
        """Make one request; gives the reply once its headers said yes."""
        if self._session is None:
            self._session = open_session()
        headers = {
            "Authorization": f"Bearer {self._server.sent_key}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            # A compressed stream would come in gulps.
            "Accept-Encoding": "identity",
        }
        try:
            async with asyncio.timeout_at(asked_at + self._deadlines.first):
                response = await self._session.post(
                    self._url, data=content, headers=headers, proxy=self._proxy, allow_redirects=False
                )
                if response.status == 200 and response.content_type != "text/html":
                    return Reply(response, self._server, self._deadlines, asked_at)
                async with response:
                    raise await refusal_in(response, self._server)
        except aiohttp.ConnectionTimeoutError as error:
            raise faults.unreachable(self._server, error) from error
        except TimeoutError:
            raise faults.overdue(self._server, Overdue("first", self._deadlines.first)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise faults.unreachable(self._server, error) from error

    def _lesson(self, fault: ModelError, request: Request, quirks: frozenset[Quirk]) -> Quirk | None:
        """What a refusal teaches beyond what was minded already: it makes the next request another one."""
        quirk = quirk_in(fault, request)
        if quirk is None or quirk in quirks:
            return None
        if quirk is Quirk.NO_TOOLS and self._style.tools != "auto":
            raise faults.tools_refused(self._server, fault)
        if quirk is not Quirk.NO_PICTURES:
            # One picture that was refused says nothing of the next.
            self._quirks |= {quirk}
        return quirk

    async def _wait_as_asked(self, asked_at: float) -> None:
        """Leave the server alone for as long as it asked for, whomever it told.

        Raises:
            ModelError: that is longer than anybody waits.
        """
        pause = self._breaker.seconds_to_wait(self.name)
        if not pause:
            return
        if pause >= self._left(asked_at) or pause > self._retries.wait:
            raise faults.asked_to_wait(self._server, pause)
        await asyncio.sleep(pause)

    def _pause_after(self, fault: ModelError, attempt: int, asked_at: float, asking: Asking) -> float | None:
        """Seconds to wait before the next attempt; None where there is to be none."""
        if fault.retry_after is not None:
            self._breaker.leave_alone(self.name, fault.retry_after)
        if asking.may_be_tried_again:
            pause = self._retries.pause_after(fault, attempt, self._left(asked_at))
            if pause is not None:
                return pause
        if faults.is_the_servers(fault):
            asking.failed(fault)
        else:
            asking.answered()
        return None

    def _left(self, asked_at: float) -> float:
        """Seconds until the first content is overdue."""
        return asked_at + self._deadlines.first - asyncio.get_running_loop().time()
