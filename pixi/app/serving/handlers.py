"""Tools for MCP clients: talks with personas, and their databases."""

import asyncio
import json
import re
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import blake2b
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal
from weakref import WeakValueDictionary

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from pydantic import Field

from pixi.addons.knowledge import RESULTS, described, query_result, search_result
from pixi.app.building import import_beside
from pixi.channels.gathering import GatheringChannel
from pixi.channels.terminal.lines import OWN_SECONDS
from pixi.core.errors import PixiError, Reporter, ToolError
from pixi.core.masking import SecretRedactor, hidden_in
from pixi.core.message import Author, Message
from pixi.core.persona import Persona
from pixi.core.prompt import fill
from pixi.core.spending import Count
from pixi.core.untrusted import clipped, prompt_name
from pixi.settings import Settings
from pixi.toolbox.arguments import checked
from pixi.toolbox.schema import Signature, safe_names, signature_of

if TYPE_CHECKING:
    from pixi.app.databases import DatabasePool
    from pixi.app.service import BotService
    from pixi.knowledge.database import DirectoryDatabase

LONGEST_MESSAGE = 8_000
"""Characters."""

_AT_ONCE = 8  # replies under way
_TALK = re.compile(r"[0-9a-f]{32}")


class McpTalks:
    """Opens all that answers when somebody first writes; `close` it.

    Args:
        settings: what the operator wants.
        user: the name of the one who writes.
        report: told what a person should know, in one line.
        alone: it is one person in all talks; otherwise each talk is another's.
    """

    def __init__(self, settings: Settings, user: str, report: Reporter, *, alone: bool) -> None:
        self._settings = settings
        self._user = user
        self._alone = alone
        self._report = report
        self._service: asyncio.Future[BotService] | None = None
        self._over = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def say(self, persona: str, text: str, talk: str, happens: Reporter) -> Mapping[str, Any]:
        """Say something to a persona; gives its answer as plain data.

        Args:
            persona: by the name of its file.
            text: what is said.
            talk: an earlier one that this goes on with, by what was given as `conversation`; "": a new one.
            happens: told in a line what is being done.

        Raises:
            ToolError: there is no answer; says why.
        """
        if not text.strip():
            raise ToolError("The message is empty: write something.")
        if len(text) > LONGEST_MESSAGE:
            raise ToolError(
                f"The message has {len(text)} characters, and {LONGEST_MESSAGE} are taken at most."
            )
        if talk and not _TALK.fullmatch(talk):
            raise ToolError("There is no such conversation: give what was given as `conversation`, or none.")
        if self._places.locked():
            raise ToolError(f"{_AT_ONCE} replies are being written already; try again in a moment.")
        talk = talk or uuid.uuid4().hex
        address = f"mcp:{talk}:{persona}"
        lock = self._locks.setdefault(address, asyncio.Lock())
        async with self._places, lock:
            channel = await self._answered(persona, address, text, happens)
        if channel.failure and not channel.messages:
            raise ToolError(channel.failure)
        answer = {"persona": persona, "conversation": talk, "messages": channel.messages}
        answer |= {"reactions": channel.reactions, "finish": channel.finish}
        return answer | ({"sources": channel.sources} if channel.sources else {})

    async def close(self) -> None:
        """Stop what is being written, and close what was opened."""
        self._over.set()
        if self._keeping is not None:
            with suppress(PixiError):  # who asked was told
                await self._keeping

    async def _answered(self, persona: str, address: str, text: str, happens: Reporter) -> GatheringChannel:
        try:
            service = await self._opened(happens)
        except PixiError as error:
            raise ToolError(f"Nobody can answer: {error}") from error
        if persona not in service.persona_set.personas:
            faults = " ".join(service.persona_set.faults)
            raise ToolError(f"{persona} cannot answer: {faults or 'there is no such persona.'}")
        channel = GatheringChannel(happens)
        person = self._user if self._alone else address.split(":")[1]
        author = Author(f"mcp:{person}", self._user)
        message = Message(uuid.uuid4().hex, address, author, text, time.time())
        try:
            await service.engine.own(address, seconds=OWN_SECONDS)
            await service.engine.receive(message, channel)
            await service.engine.settled(address)
        except asyncio.CancelledError:
            await service.engine.stop(address)
            raise
        except PixiError as error:
            raise ToolError(str(error)) from error
        return channel

    async def _opened(self, happens: Reporter) -> "BotService":
        """Return the service; a task of its own opens and closes it. It is tried anew where it failed."""
        if self._service is None or (self._service.done() and self._service.exception() is not None):
            happens("opening the model")
            self._service = asyncio.get_running_loop().create_future()
            self._keeping = asyncio.create_task(self._keep(self._service))
        return await asyncio.shield(self._service)

    async def _keep(self, opened: "asyncio.Future[BotService]") -> None:
        await import_beside("pixi.app.service")
        from pixi.app.service import open_service

        try:
            async with open_service(self._settings, report=self._report) as service:
                opened.set_result(service)
                await self._over.wait()
        except PixiError as error:
            if opened.done():
                raise
            opened.set_exception(error)
            opened.exception()  # whoever waited may have gone
        finally:
            if not opened.done():
                opened.cancel()


OpenUsage = Callable[[], AbstractAsyncContextManager[Count]]
"""Entered while a model is asked, and told what that used."""

_MOST_RESULTS = 20
_LONGEST_WORDS = 2_000  # of a search, a question, or a name of a person
_LONGEST_ABOUT = 300
_READY_SECONDS = 10.0


class ServedCall(Struct, frozen=True):
    """A call by a client.

    Attributes:
        happens: told in a line what is being done.
        talk: the conversation of this client, where it has one of its own.
    """

    happens: Reporter
    talk: str


class Offer(Struct, frozen=True):
    """A tool that is served."""

    signature: Signature
    function: Callable[..., Awaitable[Mapping[str, Any]]]
    reads: bool

    async def call(self, call: ServedCall, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry it out.

        Raises:
            ToolError: the arguments do not fit, or it could not be done.
        """
        return await self.function(call, **checked(self.signature, arguments))


def _of_database(
    library: "DatabasePool", database: "DirectoryDatabase", tool_name: str, open_usage: OpenUsage
) -> Iterator[Offer]:
    """Return the tools of a database: its search, which needs no model, and its query."""

    async def search(
        call: ServedCall,
        keyword: Annotated[
            str, Field(description="a few words, in the language of the documents", max_length=_LONGEST_WORDS)
        ],
        limit: Annotated[int, Field(description="how many entries", ge=1, le=_MOST_RESULTS)] = RESULTS,
    ) -> Mapping[str, Any]:
        await _read(database)
        return await search_result(database, keyword, limit)

    async def query(
        call: ServedCall,
        query: Annotated[
            str, Field(description="what you want to know, as a whole question", max_length=_LONGEST_WORDS)
        ],
        ids: Annotated[
            list[int], Field(description="ids from the search; without any, the best that a search finds")
        ] = [],  # noqa: B006 - pydantic copies it
    ) -> Mapping[str, Any]:
        await _read(database)
        call.happens("looking for a model that reads")
        try:
            async with open_usage() as count:
                agent = await library.reader()
                call.happens(f"reading what {database.title} says of that")
                return await query_result(database, agent, query, ids, count, progress=call.happens)
        except ToolError:
            raise
        except PixiError as error:
            raise ToolError(f"Nobody can read it out: {error}") from error

    search.__name__, query.__name__ = f"search_{tool_name}_database", f"query_{tool_name}_database"
    search.__doc__ = (
        f"Search {described(database)}\n\nGives ids, titles and snippets of entries; "
        f"`{query.__name__}` reads whole entries."
    )
    query.__doc__ = (
        f"Have entries of {database.title} read, and get back what they say about a question, word for word "
        "and with its place."
    )
    yield Offer(signature_of(search), search, reads=True)
    yield Offer(signature_of(query), query, reads=True)


async def _read(database: "DirectoryDatabase") -> None:
    """Wait a while for its files to be read; what is still missing then is told with the result."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_READY_SECONDS):
            await database.ready()


def _talk_to(personas: Mapping[str, Persona], talks: McpTalks) -> Offer:
    who = Literal[tuple(personas)]  # type: ignore[valid-type]  # known only now

    async def talk_to(
        call: ServedCall,
        persona: Annotated[Any, Field(description="who is to answer")],
        message: Annotated[str, Field(description="what you say", max_length=LONGEST_MESSAGE)],
        conversation: Annotated[
            str, Field(description="to go on with an earlier talk: what it gave as `conversation`")
        ] = "",
    ) -> Mapping[str, Any]:
        return await talks.say(persona, message, conversation or call.talk, call.happens)

    talk_to.__annotations__["persona"] = Annotated[who, Field(description="who is to answer")]
    about = "\n".join(f"- {name}: {_about(persona)}" for name, persona in personas.items())
    talk_to.__doc__ = f"Say something to a persona, and get its answer.\n\n{about}"
    return Offer(signature_of(talk_to), talk_to, reads=False)


def _about(persona: Persona) -> str:
    return clipped(" ".join(persona.about.split()) or persona.name, _LONGEST_ABOUT)


_INSTRUCTIONS = (
    "Search a database first, then have its entries read for a question. With talk_to you get the answer of "
    "somebody who has a character of their own."
)
_SESSION = "mcp-session-id"  # the header that tells sessions apart over HTTP
_LONGEST_NEWS = 300
_NEWS_SECONDS = 2.0

Context = ServerRequestContext[Any, Any]


class Handlers:
    """Handlers of an MCP server.

    Args:
        library: the databases that are open are offered.
        personas: offered too, by the names of their files.
        talks: with personas.
        open_usage: where use is recorded.
        mask: hides secrets in whatever goes out.
        alone: there is one client, as long as the program runs.
    """

    def __init__(
        self,
        library: "DatabasePool",
        personas: Mapping[str, Persona],
        talks: McpTalks,
        open_usage: OpenUsage,
        mask: SecretRedactor,
        *,
        alone: bool,
    ) -> None:
        offers = [
            offer
            for name, database in library.databases.items()
            for offer in _of_database(library, database, library.find(name).tool, open_usage)
        ]
        if personas:
            offers.append(_talk_to(personas, talks))
        self._tools = {offer.signature.schema.name: offer for offer in offers}
        names = safe_names(personas)  # of their prompts
        self._personas = {names[name]: persona for name, persona in personas.items()}
        self._mask = mask
        self._alone = alone
        self._key = secrets.token_bytes(16)

    def server(self) -> Server[Any]:
        """Return the SDK's server with these handlers."""
        return Server(
            "pixi",
            title="Pixi",
            version=version("pixi-persona"),
            instructions=_INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
        )

    async def list_tools(self, _: Context, __: object) -> types.ListToolsResult:
        """Return all tools."""
        tools = [
            types.Tool(
                name=name,
                description=offer.signature.schema.description,
                input_schema=offer.signature.schema.parameters,
                annotations=types.ToolAnnotations(
                    read_only_hint=offer.reads, destructive_hint=False, open_world_hint=not offer.reads
                ),
            )
            for name, offer in self._tools.items()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        """Carry out a call. What could not be done is told in the result, for the model.

        Raises:
            MCPError: there is no such tool.
        """
        offer = self._tools.get(asked.name)
        if offer is None:
            known = ", ".join(self._tools) or "none"
            raise MCPError(
                types.INVALID_PARAMS, f"There is no tool {prompt_name(asked.name)!r}. Tools: {known}."
            )
        async with _progress(context, self._mask) as happens:
            try:
                result = await offer.call(ServedCall(happens, self._talk(context)), asked.arguments or {})
            except ToolError as error:
                text = types.TextContent(type="text", text=self._mask.redact(str(error)))
                return types.CallToolResult(content=[text], is_error=True)
        told = hidden_in(dict(result), self._mask.hide)
        content = types.TextContent(type="text", text=_as_text(told))
        return types.CallToolResult(content=[content], structured_content=told)

    async def list_prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        """Return a prompt for each persona."""
        who = types.PromptArgument(name="user", description="your name", required=False)
        prompts = [
            types.Prompt(name=name, title=persona.name, description=persona.about or None, arguments=[who])
            for name, persona in self._personas.items()
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, _: Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the text of a persona.

        Raises:
            MCPError: there is no such prompt.
        """
        persona = self._personas.get(asked.name)
        if persona is None:
            known = ", ".join(self._personas)
            raise MCPError(
                types.INVALID_PARAMS, f"There is no prompt {prompt_name(asked.name)!r}. Prompts: {known}."
            )
        user = (asked.arguments or {}).get("user", "")[:_LONGEST_WORDS]
        names = {"user": prompt_name(user) or "somebody", "char": persona.name, "persona": persona.name}
        content = types.TextContent(type="text", text=self._mask.hide(fill(persona.prompt, names)))
        return types.GetPromptResult(
            description=persona.about or None, messages=[types.PromptMessage(role="user", content=content)]
        )

    def _talk(self, context: Context) -> str:
        """Return the conversation of the caller; "" where it is unknown: then each call begins a new one."""
        if self._alone:
            session = "alone"
        else:
            session = "" if context.request is None else context.request.headers.get(_SESSION, "")
        # What is told of a conversation leads to no session.
        return blake2b(session.encode(), key=self._key, digest_size=16).hexdigest() if session else ""


@asynccontextmanager
async def _progress(context: Context, mask: SecretRedactor) -> AsyncGenerator[Reporter, None]:
    """Send what is told within the block to the client, if it wants to know, in order and without waiting."""
    news: asyncio.Queue[str | None] = asyncio.Queue()

    async def report() -> None:
        number = 0
        while (line := await news.get()) is not None:
            number += 1
            await context.session.report_progress(number, None, mask.redact(clipped(line, _LONGEST_NEWS)))

    reporting = asyncio.create_task(report())
    try:
        yield news.put_nowait
        news.put_nowait(None)
        await asyncio.wait([reporting], timeout=_NEWS_SECONDS)
    finally:
        reporting.cancel()
        await asyncio.wait([reporting])


def _as_text(result: Mapping[str, Any]) -> str:
    """Return a text as it is, and anything else as JSON."""
    if "messages" not in result:
        return json.dumps(result, ensure_ascii=False)
    said = [*result["messages"], *(f"({emoji})" for emoji in result["reactions"])]
    return "\n\n".join(said) or "(no answer)"
