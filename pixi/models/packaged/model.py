"""What the doors to providers with an API and a package of their own share: how they ask, and learn."""

import asyncio
import importlib.util
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import aiohttp

from pixi.core.control_words import broken
from pixi.core.deltas import Delta, Request
from pixi.core.errors import ConfigError, ModelError
from pixi.core.tokens import estimate_all
from pixi.models import faults
from pixi.models.asking import checked_address, checked_key, is_near, open_session, proxy_for
from pixi.models.attempts import Answer, Attempts
from pixi.models.breaker import Breakers
from pixi.models.cleaning import cleaned
from pixi.models.deadlines import FAR_SECONDS, Deadlines, FirstWait, Overdue, ReadingSpeed
from pixi.models.faults import Retries, Server
from pixi.models.keepsakes import Keepsakes
from pixi.models.model import Traits
from pixi.models.packaged.lessons import lesson_in
from pixi.models.render import Quirk, Style, ToolMode
from pixi.models.size import size_in, sized, tools_for

_log = logging.getLogger("pixi.models")

_Client = TypeVar("_Client")
_Keepsake = TypeVar("_Keepsake")

_MISSING = '{} models need a package that is not installed: pip install "pixi-persona[{}]"'


@dataclass(frozen=True, slots=True)
class Provider:
    """What one provider's own API is like.

    Attributes:
        name: for people.
        package: to import; `extra`: the extra that brings it.
        key_name: the variable that holds its key.
        base_url: the address of its service.
        asks: what is asked of it, for people.
    """

    name: str
    package: str
    extra: str
    key_name: str
    base_url: str
    asks: str


class PackagedModel(ABC, Generic[_Client, _Keepsake]):
    """A model behind the API of one provider, asked through the package that the provider makes for it.

    The package writes requests and reads answers. Its own retries and timeouts are off: attempts, deadlines
    and the breaker are those of every door here, and it speaks over the same connections (see `carriage`).
    It is imported in a thread at the first request.

    Args:
        name: the model's id.
        base_url: the address of the service; None: the provider's.
        api_key: None where a server of one's own wants none; then any key is sent.
        traits: what the prompt must know of it. `searches` is what `search` says; where `parameters` are not
            told, its name may, and where they are known, `small` and `tools` follow from them.
        temperature: left out where None.
        max_tokens: of a reply.
        extra_body: fields merged into each request's body, last.
        tools: `auto` offers them natively, and in the text form once the server refused them.
        deadlines: how long to wait for content.
        retries: how often to ask, while nothing was yielded.
        breakers: shared with all others that may ask the same servers; None: this door stands alone.
        search: the provider searches the web by itself where a request allows it, until it refused to.

    Raises:
        ConfigError: the package is missing, or address, key or proxy are nothing to ask with.
    """

    provider: ClassVar[Provider]

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        traits: Traits | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        extra_body: Mapping[str, object] | None = None,
        tools: ToolMode = "auto",
        deadlines: Deadlines | None = None,
        retries: Retries | None = None,
        breakers: Breakers | None = None,
        search: bool = False,
    ) -> None:
        provider = self.provider
        if not _is_installed(provider.package):
            raise ConfigError(_MISSING.format(provider.name, provider.extra))
        key_name = provider.key_name
        base = checked_address(base_url or provider.base_url, key_name=key_name, example=provider.base_url)
        key = checked_key(api_key, key_name=key_name)
        near = is_near(base.host or "")
        self._deadlines = deadlines or Deadlines()
        reads_long = near and self._deadlines.first is None
        traits = replace(traits or Traits(), searches=search, reads_long=reads_long)
        parameters = traits.parameters or size_in(name)
        tools = tools_for(parameters, tools)
        self._traits = sized(traits, parameters, tools)
        self._style = Style(
            name,
            tools=tools,
            vision=self._traits.vision,
            temperature=temperature,
            max_tokens=max_tokens,
            extra_body=extra_body or {},
        )
        self._server = Server(
            f"{base.host}:{base.port}",
            str(base),
            name,
            key,
            provider.asks,
            key_name,
            ends_in="",
            is_near=near,
        )
        self._speed = ReadingSpeed()
        breaker = (breakers or Breakers()).of(self._server.place)
        self._attempts = Attempts(self._server, breaker, retries or Retries())
        self._proxy = proxy_for(base)
        self._search = search
        self._quirks: frozenset[Quirk] = frozenset()
        self._kept: Keepsakes[_Keepsake] = Keepsakes()
        self._session: aiohttp.ClientSession | None = None
        self._client: _Client | None = None
        self._connecting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self._server.base_url!r})"

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
        client = await self._connected()
        request = cleaned(request, broken)
        quirks = self._quirks

        async def ask(wait: FirstWait) -> Answer:
            try:
                async with asyncio.timeout_at(wait.ends_at):
                    return await self._ask(client, request, quirks, wait)
            except TimeoutError:
                raise faults.overdue(self._server, wait.overdue()) from None

        def learn(fault: ModelError) -> bool:
            nonlocal quirks
            lesson = self._lesson(fault, request, quirks)
            quirks |= {lesson} if lesson else frozenset()
            return lesson is not None

        near = self._server.is_near
        tokens = estimate_all(request.lines) if near else 0
        wait = FirstWait(self._deadlines, self._speed, near=near, tokens=tokens)
        async with aclosing(self._attempts.stream(ask, learn, wait)) as deltas:
            async for delta in deltas:
                yield delta

    async def models(self) -> list[str]:
        """The ids of the models that the server lists. One attempt.

        Raises:
            ModelError: as for `stream`.
        """
        client = await self._connected()
        seconds = self._deadlines.first or FAR_SECONDS
        try:
            async with asyncio.timeout(seconds):
                return await self._listed(client)
        except TimeoutError:
            raise faults.overdue(self._server, Overdue("listing", seconds)) from None

    async def close(self) -> None:
        """Close the connections. Calling it twice does no harm."""
        client, self._client = self._client, None
        if client is not None:
            await self._disconnect(client)
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _connected(self) -> _Client:
        async with self._connecting:
            if self._session is None:
                self._session = open_session()
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect, self._session)
            return self._client

    def _lesson(self, fault: ModelError, request: Request, quirks: frozenset[Quirk]) -> Quirk | None:
        """What a refusal teaches beyond what was minded already: it makes the next request another one."""
        quirk = lesson_in(fault, request, quirks)
        if quirk is None or quirk in quirks:
            return None
        if quirk is Quirk.NO_TOOLS and self._style.tools != "auto":
            raise faults.tools_refused(self._server, fault)
        if quirk is not Quirk.NO_PICTURES:
            # One picture that was refused says nothing of the next.
            self._quirks |= {quirk}
        if quirk in (Quirk.NO_SEARCH, Quirk.NO_SEARCH_BESIDE_TOOLS) and self._traits.searches:
            self._traits = replace(self._traits, searches=False)
            what = "cannot search the web by itself"
            if quirk is Quirk.NO_SEARCH_BESIDE_TOOLS:
                what += " where it is offered tools"
            _log.warning("%s %s: from now on Pixi does. %s", self.name, what, fault)
        return quirk

    @abstractmethod
    def _connect(self, session: aiohttp.ClientSession) -> _Client:
        """Import the package and open its client. Runs in a thread: it takes long."""

    @abstractmethod
    async def _disconnect(self, client: _Client) -> None:
        """Close the client."""

    @abstractmethod
    async def _ask(
        self, client: _Client, request: Request, quirks: frozenset[Quirk], wait: FirstWait
    ) -> Answer:
        """Make one request; gives the reply once the server said yes.

        Raises:
            ModelError: it did not.
        """

    @abstractmethod
    async def _listed(self, client: _Client) -> list[str]:
        """The ids of the models that the server lists.

        Raises:
            ModelError: it could not be asked, refused, or answered something else.
        """


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # nor what it is a part of
        return False
