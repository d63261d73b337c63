"""A model behind some API of a server that is asked by HTTP and answers with a stream of events.

aiohttp sends the request and carries the stream; `sse` and the API's own assembler read it. The openai
package would build pydantic objects for each chunk, some forty times the processor time of this door, and
takes half a second and some 50 MB to import; it serves what is not hot (see `listing`) and is imported there.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar, Literal

import aiohttp

from pixi.core.control_words import breaking
from pixi.core.deltas import Delta, Request
from pixi.core.errors import ModelError
from pixi.core.tokens import estimate_all
from pixi.models import faults
from pixi.models.asking import checked_address, checked_key, is_near, open_session, proxy_for, refusal_in
from pixi.models.attempts import Attempts
from pixi.models.breaker import Breakers
from pixi.models.cleaning import cleaned
from pixi.models.deadlines import FAR_SECONDS, Deadlines, FirstWait, ReadingSpeed
from pixi.models.faults import Retries, Server
from pixi.models.listing import listed_models
from pixi.models.model import Traits
from pixi.models.providers import key_name_of
from pixi.models.quirks import quirk_in
from pixi.models.render import GrammarField, Quirk, Style, ToolMode
from pixi.models.reply import Assembler, Reply
from pixi.models.served import ask_about_model
from pixi.models.size import size_in, sized, tools_for

_log = logging.getLogger("pixi.models")


class ServerModel(ABC):
    """A model behind an API of some server. A door says how that API is written and read.

    Args:
        name: the model's id at the server.
        base_url: the address that the API's path follows, e.g. `https://api.openai.com/v1`.
        api_key: None where the server is one's own and wants none; then any key is sent.
        traits: what the prompt must know of it. Where `parameters` are not told, its name may; where they are
            known, `small` follows from them.
        temperature, max_tokens: left out where None.
        extra_body: fields merged into each request's body, last.
        tools: `auto` offers them to a model that is large enough, natively, and in the text form once the
            server refused them.
        grammar: the field in which the server takes `Request.grammar`; never sent while tools are offered.
            `auto`: llama.cpp's, where that runs a tiny model.
        tiny_style: fields of the body that suit a tiny model on a server nearby; what is set goes before.
        search: it searches the web by itself where a request allows it, if the API knows such a thing.
        control_words: of the model's own template, which no request may hold besides; None: the server is
            asked for them, where `grammar` says that it is llama.cpp.
        learns: a server on this machine or a private network is asked before the first request for both the
            control words and, unless `traits` tell, the size.
        deadlines: how long to wait for content.
        retries: how often to ask, while nothing was yielded.
        session: shared with others and closed by its owner; None: one is opened at the first request.
        breakers: shared with all others that may ask the same servers; None: this door stands alone.
        speed: at which the server reads prompts, as far as other doors to it have seen.

    Raises:
        ConfigError: `base_url`, the key or the environment's proxy is nothing to ask with.
    """

    path: ClassVar[str]
    """What follows the server's address."""
    serves: ClassVar[str]
    """What is asked of it, for people."""

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
        grammar: GrammarField | Literal["auto"] = "off",
        tiny_style: Mapping[str, object] | None = None,
        search: bool = False,
        control_words: Iterable[str] | None = None,
        learns: bool = False,
        deadlines: Deadlines | None = None,
        retries: Retries | None = None,
        session: aiohttp.ClientSession | None = None,
        breakers: Breakers | None = None,
        speed: ReadingSpeed | None = None,
    ) -> None:
        base = checked_address(base_url)
        near = is_near(base.host or "")
        traits = traits or Traits()
        self._style = Style(
            model=name,
            tools=tools,
            grammar="off" if grammar == "auto" else grammar,
            vision=traits.vision,
            temperature=temperature,
            max_tokens=max_tokens,
            extra_body=extra_body or {},
            search=self._search_tool(base.host or "") if search else "",
            progress=near or grammar == "llama.cpp",
        )
        self._deadlines = deadlines or Deadlines()
        reads_long = near and self._deadlines.first is None
        self._traits = replace(traits, searches=bool(self._style.search), reads_long=reads_long)
        self._speed = speed or ReadingSpeed()
        place = f"{base.host}:{base.port}"
        key_name = key_name_of(base.host or "")
        key = checked_key(api_key, key_name=key_name)
        self._server = Server(
            place, str(base), name, key, serves=self.serves, key_name=key_name, is_near=near
        )
        breaker = (breakers or Breakers()).of(place)
        self._attempts = Attempts(self._server, breaker, retries or Retries())
        self._url = base.joinpath(*self.path.split("/"))
        self._proxy = proxy_for(base)
        self._quirks: frozenset[Quirk] = frozenset()
        self._wanted = self._style
        self._tiny_style = tiny_style or {}
        self._grammar_is_open = grammar == "auto"
        self._asks = control_words is None and (grammar == "llama.cpp" or (learns and near))
        self._asks_for_size = learns and near and traits.parameters is None
        self._broken = breaking(control_words or ())
        self._go_by(traits.parameters or size_in(name), by_llama=False)
        self._session = session
        self._owns_session = session is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self._server.base_url!r})"

    @property
    def name(self) -> str:
        """The model's id."""
        return self._style.model

    @property
    def traits(self) -> Traits:
        """What the prompt must know of it, by what is known now: a server may refuse to search."""
        return self._traits

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask, and yield the reply as it is written; the last delta is `Finished`.

        Raises:
            ModelError: the server could not be asked, refused, failed, or let a deadline pass.
        """
        if not self._traits.searches:
            request = replace(request, search=False)
        quirks = self._quirks

        async def ask(wait: FirstWait) -> Reply:
            await self.learn()
            return await self._ask(self._body(cleaned(request, self._broken), quirks), wait)

        def learn(fault: ModelError) -> bool:
            nonlocal quirks
            lesson = self._lesson(fault, request, quirks)
            quirks |= {lesson} if lesson else set()
            return lesson is not None

        near = self._server.is_near
        tokens = estimate_all(request.lines) if near else 0
        wait = FirstWait(self._deadlines, self._speed, near=near, tokens=tokens)
        async with aclosing(self._attempts.stream(ask, learn, wait)) as deltas:
            async for delta in deltas:
                yield delta

    async def learn(self) -> None:
        """Ask the server what model it serves, if it is to be asked and was not yet. Raises nothing.

        Each request does so by itself; before that, `traits` are what the settings tell. A server that does
        not answer in time is not asked again: each request would wait for that.
        """
        if not self._asks:
            return
        try:
            served = await ask_about_model(
                self._opened(), self._server, self._proxy, size=self._asks_for_size
            )
        except aiohttp.ClientError:
            return  # the request that follows says what is wrong with the server
        except TimeoutError:
            self._asks = False
            return
        except OSError:
            return
        self._asks = False
        self._broken = breaking(served.control_words)
        self._go_by(served.parameters or self._traits.parameters, by_llama=served.by_llama)

    async def models(self) -> list[str]:
        """The ids of the models that the server lists.

        Raises:
            ModelError: as for `stream`; there is one attempt.
        """
        return await listed_models(self._server, self._deadlines.first or FAR_SECONDS)

    async def close(self) -> None:
        """Close the session, if it is the door's own. Calling it twice does no harm."""
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    @abstractmethod
    def _body(self, request: Request, quirks: Collection[Quirk]) -> bytes:
        """The body of a request."""

    @abstractmethod
    def _assembler(self) -> Assembler:
        """What reads one reply."""

    def _search_tool(self, host: str) -> str:
        """The name under which a host searches the web by itself; "" where it does not."""
        return ""

    def _go_by(self, parameters: float | None, *, by_llama: bool) -> None:
        """Write requests for a model of so many billion parameters; None: for a large one."""
        tools = tools_for(parameters, self._wanted.tools)
        self._traits = sized(self._traits, parameters, tools)
        self._style = replace(self._wanted, tools=tools)
        if self._traits.small and self._server.is_near:
            own = {"temperature": self._wanted.temperature, "max_tokens": self._wanted.max_tokens}
            fitting = {key: value for key, value in self._tiny_style.items() if own.get(key) is None}
            self._style = replace(self._style, extra_body={**fitting, **self._wanted.extra_body})
        if self._traits.small and by_llama and self._grammar_is_open:
            self._style = replace(self._style, grammar="llama.cpp")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session()
        return self._session

    async def _ask(self, content: bytes, wait: FirstWait) -> Reply:
        """Make one request; gives the reply once its headers said yes."""
        headers = {
            "Authorization": f"Bearer {self._server.sent_key}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            # A compressed stream would come in gulps.
            "Accept-Encoding": "identity",
        }
        try:
            async with asyncio.timeout_at(wait.ends_at):
                response = await self._opened().post(
                    self._url, data=content, headers=headers, proxy=self._proxy, allow_redirects=False
                )
                if response.status == 200 and response.content_type != "text/html":
                    return Reply(response, self._assembler(), self._server, self._deadlines, wait)
                async with response:
                    raise await refusal_in(response, self._server)
        except aiohttp.ConnectionTimeoutError as error:
            raise faults.unreachable(self._server, error) from error
        except TimeoutError:
            raise faults.overdue(self._server, wait.overdue()) from None
        except (aiohttp.ClientError, OSError) as error:
            raise faults.unreachable(self._server, error) from error

    def _lesson(self, fault: ModelError, request: Request, quirks: frozenset[Quirk]) -> Quirk | None:
        """What a refusal teaches beyond what was minded already: it makes the next request another one."""
        quirk = quirk_in(fault, request, quirks)
        if quirk is None or quirk in quirks:
            return None
        if quirk is Quirk.NO_TOOLS and self._style.tools != "auto":
            raise faults.tools_refused(self._server, fault)
        if quirk is not Quirk.NO_PICTURES:
            # One picture that was refused says nothing of the next.
            self._quirks |= {quirk}
        if quirk is Quirk.NO_SEARCH and self._traits.searches:
            self._traits = replace(self._traits, searches=False)
            _log.warning("%s cannot search the web by itself: from now on Pixi does. %s", self.name, fault)
        return quirk
