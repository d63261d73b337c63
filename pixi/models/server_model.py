"""A model at a server: asked by HTTP in the dialect of its API, answered with a stream of events.

Servers that speak one API differ in what they take. A request that is refused teaches a `Quirk`: the next one
is written with it in mind, and made at once. So the loop of `ServerModel.push` makes a request again for one
of three reasons: a quirk was learnt, a server near by was seen to read on, or another attempt may do better.
"""

import asyncio
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import aiohttp
from msgspec.structs import replace

from pixi.core.control_words import breaking, cleaned
from pixi.core.errors import ModelError
from pixi.core.llm import Request, ToolLine, ToolMode, UserLine, estimate_all
from pixi.core.providers import key_name_of
from pixi.models import faults
from pixi.models.breaker import Breakers
from pixi.models.connections import (
    beginning_of,
    checked_address,
    checked_key,
    is_near,
    open_session,
    proxy_for,
)
from pixi.models.deadlines import FAR_SECONDS, DeadlineExceeded, Deadlines, FirstWait, ReadingSpeed
from pixi.models.dialects.chat import Chat
from pixi.models.dialects.dialect import Dialect
from pixi.models.dialects.prompt import GrammarField, JsonObject, Quirk, Style, encoded
from pixi.models.faults import Complaint, Refusal, Retries, Server, looks_like_page, refusal_in
from pixi.models.model import PushedModel, Take, Traits
from pixi.models.reply import Reply
from pixi.models.traits import ask_about_model, size_in, sized, tools_for

_NOT_TAKEN = re.compile(
    r"not support|unsupported|doesn't support|only supported|no endpoints|requires? --|not permitted|"
    r"not allowed|unknown|unrecognized|unexpected|not available|not enabled|not implemented|at most 0|not a ",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\b(tools?|tool_choice|functions?|function.calling)\b", re.IGNORECASE)
_BAD_SCHEMA = re.compile(r"schema", re.IGNORECASE)  # a fault in one tool, not in having tools
_REPLY_FORM = re.compile(
    r"response_format|text\.format|json_schema|json.mode|structured.outputs?|guided|grammar|"
    r"output_(config|format)|response_?(json_?)?schema|response.?mime",
    re.IGNORECASE,
)
_SEARCH = re.compile(
    r"web.?search|google.?search|grounding|hosted.tools?|server.tools?|built-?in.tools?|"
    r"tools[.\[]\d+\]?\.type|tool.types?",
    re.IGNORECASE,
)
_BESIDE_TOOLS = re.compile(
    r"tool use with function calling|server.?side.?tool|"
    r"(built.?in|search).{0,99}function.?(calling|declaration)|"
    r"function.?(calling|declaration).{0,99}(built.?in|search)|multiple tools",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)
_SEALED = re.compile(r"encrypted.content|required following item|type 'reasoning'", re.IGNORECASE)
_PICTURES = re.compile(r"image|picture|multimodal|vision", re.IGNORECASE)
_log = logging.getLogger("pixi.models")
_LONGEST_LISTING = 4 * 1024 * 1024  # bytes


def _quirks_in(complaint: Complaint, request: Request, minded: Collection[Quirk]) -> Iterator[Quirk]:
    """Yield the quirks that a refusal may tell of, the likeliest first.

    Args:
        minded: the quirks with which the request was written.
    """
    words = f"{complaint.code} {complaint.message}"
    if "stream_options" in words or "include_usage" in words:
        yield Quirk.NO_USAGE
    if "return_progress" in words:
        yield Quirk.NO_PROGRESS
    if "max_completion_tokens" in words:
        yield Quirk.COMPLETION_TOKENS
    if "alternate" in words and "role" in words:
        yield Quirk.ALTERNATE
    if _SIGNATURE.search(words):
        yield Quirk.SIGNED_CALLS
    if _SEALED.search(words):
        yield Quirk.NO_REASONING
    searching = request.search and Quirk.NO_SEARCH not in minded
    if searching and complaint.status < 500:
        if request.tools and _BESIDE_TOOLS.search(words):
            yield Quirk.NO_SEARCH_BESIDE_TOOLS
        if _SEARCH.search(words):
            yield Quirk.NO_SEARCH
    if request.schema is not None and _REPLY_FORM.search(words):
        yield Quirk.NO_SCHEMA
    if not _NOT_TAKEN.search(words):
        return
    if "temperature" in words:
        yield Quirk.NO_TEMPERATURE
    if request.tools and "parallel_tool_calls" in words:
        yield Quirk.NO_PARALLEL
    if (request.tools or searching) and _TOOLS.search(words) and not _BAD_SCHEMA.search(words):
        if searching:
            yield Quirk.NO_SEARCH  # which is missed less
        if request.tools:
            yield Quirk.NO_TOOLS
    pictured = any(isinstance(line, UserLine | ToolLine) and line.images for line in request.lines)
    if pictured and _PICTURES.search(words):
        yield Quirk.NO_PICTURES


class ServerModel(PushedModel):
    """A model behind an API of some server.

    Args:
        name: the model's id at the server.
        dialect: of this model alone; how its API is spoken. None: as chat completions.
        base_url: the address that the API's path follows, e.g. `https://api.openai.com/v1`; None: that of the
            dialect's service.
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
        retries: how often to ask, while nothing of a reply was handed on.
        session: made by `open_session`, shared with others and closed by its owner; None: one is opened at
            the first request.
        breakers: shared with all others that may ask the same servers; None: this door stands alone.
        speed: at which the server reads prompts, as far as other doors to it have seen.

    Raises:
        ConfigError: `base_url`, the key or the environment's proxy is nothing to ask with.
    """

    def __init__(
        self,
        name: str,
        dialect: Dialect | None = None,
        *,
        base_url: str | None = None,
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
        self._dialect = dialect = dialect or Chat()
        base = checked_address(
            dialect.base_url if base_url is None else base_url,
            key_name=dialect.key_name or "OPENAI_API_KEY",
            example=dialect.base_url,
        )
        host = base.host or ""
        near = is_near(host)
        key_name = dialect.key_name or key_name_of(host)
        key = checked_key(api_key, key_name=key_name)
        if temperature is not None and not dialect.takes_temperature:
            _log.warning("%s takes no temperature any more: that of %s is left out.", base.host, name)
        traits = traits or Traits()
        self._style = Style(
            model=name,
            tools=tools,
            grammar="off" if grammar == "auto" else grammar,
            vision=traits.vision,
            temperature=temperature,
            max_tokens=max_tokens,
            extra_body=extra_body or {},
            search=dialect.search_tool(host) if search else "",
            progress=near or grammar == "llama.cpp",
        )
        self._deadlines = deadlines or Deadlines()
        reads_long = near and self._deadlines.first is None
        self._traits = replace(traits, searches=bool(self._style.search), reads_long=reads_long)
        self._speed = speed or ReadingSpeed()
        place = f"{base.host}:{base.port}"
        self._server = Server(
            place, str(base), name, key, dialect.serves, key_name, ends_in=dialect.ends_in, is_near=near
        )
        self._breaker = (breakers or Breakers()).of(place)
        self._retries = retries or Retries()
        self._base = base
        self._proxy = proxy_for(base)
        self._quirks: frozenset[Quirk] = frozenset()  # learnt from refusals; each request begins with them
        # What depends on the model's size: `_style` is made of the settings' own when the size is known.
        self._style_of_settings = self._style
        self._tiny_style = tiny_style or {}
        self._grammar_is_open = grammar == "auto"
        # What the server is still to be asked about its model; see `learn`.
        self._asks = control_words is None and (grammar == "llama.cpp" or (learns and near))
        self._asks_for_size = learns and near and traits.parameters is None
        self._breaking_words = breaking(control_words or ())
        self._set_size(traits.parameters or size_in(name), by_llama=False)
        self._session = session
        self._owns_session = session is None

    def __repr__(self) -> str:
        return f"ServerModel({self.name!r}, {self._dialect.name!r}, base_url={self._server.base_url!r})"

    @property
    def name(self) -> str:
        """The model's id."""
        return self._style.model

    @property
    def traits(self) -> Traits:
        """Return the traits that the prompt must know, as known by now: a server may refuse to search."""
        return self._traits

    async def push(self, request: Request, take: Take) -> None:
        """Ask, and hand on each delta as it arrives; see `PushedModel.push`.

        The server is asked again while nothing of the reply was handed on, as often as is worth it. Signs
        that the prompt is read are none of the reply.
        """
        if not self._style.search:
            request = replace(request, search=False)
        quirks = self._quirks
        near = self._server.is_near
        tokens = estimate_all(request.lines) if near else 0
        wait = FirstWait(self._deadlines, self._speed, near=near, tokens=tokens)
        attempt = 1
        with self._breaker.asking() as asking:
            while True:
                await self._wait_as_asked(wait)
                wait.begin()
                await self.learn()
                fields = self._dialect.fields(cleaned(request, self._breaking_words), self._style, quirks)
                reader = self._dialect.reader(self._server, fields)
                reply = Reply(
                    reader,
                    take,
                    server=self._server,
                    deadlines=self._deadlines,
                    wait=wait,
                    answered=asking.answered,
                )
                try:
                    await self._ask(fields, reply, wait)
                    if not reply.is_enough:
                        await reply.finish()
                    return
                except ModelError as fault:
                    if reply.seen:
                        raise
                    quirk = self._learnt(fault, request, quirks)
                    if quirk is not None:
                        quirks |= {quirk}  # the next request is another one: no attempt is lost
                        continue
                    if isinstance(fault, faults.Overran) and asking.may_be_tried_again and wait.goes_on():
                        continue
                    if fault.retry_after is not None:
                        self._breaker.leave_alone(self.name, fault.retry_after)
                    pause = self._retries.pause_after(fault, attempt, wait.left, asking)
                    if pause is None:
                        raise
                finally:
                    reply.close()
                await self._retries.sleep(pause)
                attempt += 1

    async def learn(self) -> None:
        """Ask the server which model it serves, once, if the settings leave that open. Raises nothing.

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
        self._breaking_words = breaking(served.control_words)
        self._set_size(served.parameters or self._traits.parameters, by_llama=served.by_llama)

    async def models(self) -> list[str]:
        """List the ids of the server's models, in its order. One attempt.

        Raises:
            ModelError: the server could not be asked, refused, or answered something else.
        """
        seconds = self._deadlines.first or FAR_SECONDS
        late = faults.overdue(self._server, DeadlineExceeded("listing", seconds))
        with faults.connecting(self._server, lambda: late):
            async with asyncio.timeout(seconds):
                response = await self._opened().get(
                    self._dialect.listing(self._base),
                    headers={**self._dialect.headers(self._server.sent_key), "Accept-Encoding": "identity"},
                    proxy=self._proxy,
                    allow_redirects=False,
                )
                async with response:
                    if response.status != 200:
                        raise await refusal_in(response, self._server)
                    content = await beginning_of(response, _LONGEST_LISTING)
        try:
            return self._dialect.names_in(content)
        except (ValueError, RecursionError):
            content_type = "a web page" if looks_like_page(content) else "something else"
            raise faults.no_reply(self._server, content_type) from None

    async def close(self) -> None:
        """Close the session, if it is the door's own. Calling it twice does no harm."""
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, fields: JsonObject, reply: Reply, wait: FirstWait) -> None:
        """Ask for a reply and read it, in as many requests as the server wants for it."""
        more: JsonObject | None = fields
        while more is not None:
            response = await self._post(encoded(more), wait)
            await reply.read(response, wait)
            more = None if reply.is_enough else reply.more()
            wait = FirstWait(self._deadlines, ReadingSpeed(), near=self._server.is_near, tokens=0)

    async def _post(self, content: bytes, wait: FirstWait) -> aiohttp.ClientResponse:
        """Make one request; return its response once the headers accept it."""
        headers = {
            **self._dialect.headers(self._server.sent_key),
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            # A compressed stream would come in gulps.
            "Accept-Encoding": "identity",
        }
        with faults.connecting(self._server, lambda: faults.overdue(self._server, wait.overdue())):
            async with asyncio.timeout_at(wait.ends_at):
                response = await self._opened().post(
                    self._dialect.address(self._base, self.name),
                    data=content,
                    headers=headers,
                    proxy=self._proxy,
                    allow_redirects=False,
                )
                if response.status == 200 and response.content_type != "text/html":
                    return response
                async with response:
                    raise await refusal_in(response, self._server)

    async def _wait_as_asked(self, wait: FirstWait) -> None:
        """Leave the server alone for as long as it asked for, in answer to any request for this model.

        Raises:
            ModelError: that is longer than anybody waits.
        """
        pause = self._breaker.seconds_to_wait(self.name)
        if not pause:
            return
        if pause >= wait.left or pause > self._retries.wait:
            raise faults.asked_to_wait(self._server, pause)
        await self._retries.sleep(pause)

    def _learnt(self, fault: ModelError, request: Request, quirks: frozenset[Quirk]) -> Quirk | None:
        """Learn a quirk from a refusal; None where it teaches none with which another request would be made.

        Raises:
            ModelError: the server takes no tools, where the settings say that it must.
        """
        if not isinstance(fault, Refusal) or fault.complaint.status in (401, 402, 403, 408, 429):
            return None
        for quirk in _quirks_in(fault.complaint, request, quirks):
            if self._changes(request, quirks, quirk):
                break
        else:
            return None
        if quirk is Quirk.NO_TOOLS and self._style.tools != "auto":
            raise faults.tools_refused(self._server, fault)
        if quirk is not Quirk.NO_PICTURES:
            # One picture that was refused says nothing of the next.
            self._quirks |= {quirk}
        if quirk in (Quirk.NO_SEARCH, Quirk.NO_SEARCH_BESIDE_TOOLS) and self._traits.searches:
            self._traits = replace(self._traits, searches=False)
            where = " where it is offered tools" if quirk is Quirk.NO_SEARCH_BESIDE_TOOLS else ""
            _log.warning(
                "%s cannot search the web by itself%s: from now on Pixi does. %s", self.name, where, fault
            )
        return quirk

    def _changes(self, request: Request, quirks: frozenset[Quirk], quirk: Quirk) -> bool:
        """Return True if a quirk is news, and another request is written with it in mind."""
        if quirk in quirks:
            return False
        if quirk is Quirk.NO_TOOLS:
            return True  # where the settings want tools all the same, that is told
        fields = self._dialect.fields
        return fields(request, self._style, quirks) != fields(request, self._style, quirks | {quirk})

    def _set_size(self, parameters: float | None, *, by_llama: bool) -> None:
        """Write requests for a model of so many billion parameters from now on; None: for a large one."""
        wanted = self._style_of_settings
        tools = tools_for(parameters, wanted.tools)
        self._traits = sized(self._traits, parameters, tools)
        self._style = replace(wanted, tools=tools)
        if self._traits.small and self._server.is_near:
            own = {"temperature": wanted.temperature, "max_tokens": wanted.max_tokens}
            fitting = {key: value for key, value in self._tiny_style.items() if own.get(key) is None}
            self._style = replace(self._style, extra_body={**fitting, **wanted.extra_body})
        if self._traits.small and by_llama and self._grammar_is_open:
            self._style = replace(self._style, grammar="llama.cpp")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session()
        return self._session
