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
from pixi.channels.terminal.lines import OWN_SECONDS
from pixi.core.channel import Channel
from pixi.core.errors import ChannelForgot, PixiError, Reporter, ToolError
from pixi.core.events import Failed, Progressed, Reacted, Sourced, ToolCalled, TurnEnded, TurnEvent
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


class GatheringChannel(Channel):
    """Gathers the reply to one message, for a client that waits for the whole of it.

    Args:
        progress: called with a line for each thing that is being done.

    Attributes:
        messages: in order; cards and pictures are told in words among them.
        reactions: to the message.
        sources: pages of the web that the answer rests on.
        failure: why there is no answer, for people; "": there is one.
        finish: how the turn ended.
    """

    def __init__(self, progress: Reporter = lambda _: None) -> None:
        self._progress = progress
        self.messages: list[str] = []
        self.reactions: list[str] = []
        self.sources: list[dict[str, Any]] = []
        self.failure = ""
        self.finish = "stop"
        self._nonce = ""  # of the last message

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Keep a message."""
        self._nonce = nonce
        self.messages.append(text)
        self._progress(text)
        return None

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Look up what was kept last. Raises `ChannelForgot` for what an earlier process said."""
        if nonce != self._nonce:
            raise ChannelForgot("what was said earlier cannot be looked at.")
        return nonce

    def show(self, event: TurnEvent) -> None:
        """Keep what the answer holds besides messages, and report what takes time."""
        match event:
            case Reacted(emoji):
                self.reactions.append(emoji)
            case Sourced(sources):
                self.sources += [{"title": each.title, "url": each.url} for each in sources]
            case ToolCalled(_, name, _):
                self._progress(f"using {name}")
            case Progressed(text):
                self._progress(text)
            case Failed(text):
                self.failure = text
            case TurnEnded(finish):
                self.finish = finish
            case _:
                pass


class McpTalks:
    """The talks of MCP clients with personas. The first message opens the bot; `close` it at the end.

    Args:
        settings: of the operator.
        user: the name of the one who writes.
        report: called with lines that a person should know.
        alone: one person writes in all talks; otherwise each talk is another's.
    """

    def __init__(self, settings: Settings, user: str, report: Reporter, *, alone: bool) -> None:
        self._settings = settings
        self._user = user
        self._alone = alone
        self._report = report
        self._service: asyncio.Future[BotService] | None = None  # None: nobody has written yet
        self._keeping: asyncio.Task[None] | None = None  # opens the service, and closes it once it is over
        self._over = asyncio.Event()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by address

    async def say(self, persona: str, text: str, talk: str, progress: Reporter) -> Mapping[str, Any]:
        """Say something to a persona, and return its answer as plain data.

        Args:
            persona: the name of its file.
            text: the message.
            talk: the earlier one that this goes on with, as `conversation` named it; "": a new one.
            progress: called with a line for each thing that is being done.

        Raises:
            ToolError: there is no answer, with the reason.
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
            channel = await self._answer(persona, address, text, progress)
        if channel.failure and not channel.messages:
            raise ToolError(channel.failure)
        answer: dict[str, Any] = {
            "persona": persona,
            "conversation": talk,
            "messages": channel.messages,
            "reactions": channel.reactions,
            "finish": channel.finish,
        }
        if channel.sources:
            answer["sources"] = channel.sources
        return answer

    async def close(self) -> None:
        """Stop replies that are being written, and close the bot."""
        self._over.set()
        if self._keeping is not None:
            with suppress(PixiError):  # the caller who wanted it was told
                await self._keeping

    async def _answer(self, persona: str, address: str, text: str, progress: Reporter) -> GatheringChannel:
        """Return the channel with the answer to a message.

        Raises:
            ToolError: the bot cannot be opened, or the message not be taken.
        """
        try:
            service = await self._opened(progress)
        except PixiError as error:
            raise ToolError(f"Nobody can answer: {error}") from error
        if persona not in service.persona_set.personas:
            faults = " ".join(service.persona_set.faults)
            raise ToolError(f"{persona} cannot answer: {faults or 'there is no such persona.'}")
        channel = GatheringChannel(progress)
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

    async def _opened(self, progress: Reporter) -> "BotService":
        """Return the bot. A task of its own opens and closes it; where that failed, it is tried anew."""
        if self._service is None or (self._service.done() and self._service.exception() is not None):
            progress("opening the model")
            self._service = asyncio.get_running_loop().create_future()
            self._keeping = asyncio.create_task(self._keep(self._service))
        return await asyncio.shield(self._service)

    async def _keep(self, opened: "asyncio.Future[BotService]") -> None:
        try:
            await import_beside("pixi.app.service")
            from pixi.app.service import open_service

            async with open_service(self._settings, report=self._report) as service:
                opened.set_result(service)
                await self._over.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
            opened.exception()  # seen, also where the caller has gone
        finally:
            if not opened.done():
                opened.cancel()


OpenUsage = Callable[[], AbstractAsyncContextManager[Count]]
"""Opens the record of use while a model is asked."""

_MOST_RESULTS = 20
_LONGEST_WORDS = 2_000  # of a search, a question, or a name of a person
_LONGEST_ABOUT = 300
_READY_SECONDS = 10.0


class ServedCall(Struct, frozen=True):
    """A call by a client.

    Attributes:
        progress: called with a line for each thing that is being done.
        talk: the conversation of this client; "": it has none of its own.
    """

    progress: Reporter
    talk: str


class ServedTool(Struct, frozen=True):
    """A tool for clients. `reads`: it changes nothing."""

    signature: Signature
    function: Callable[..., Awaitable[Mapping[str, Any]]]
    reads: bool

    async def call(self, call: ServedCall, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the tool.

        Raises:
            ToolError: the arguments do not fit, or it could not be done.
        """
        return await self.function(call, **checked(self.signature, arguments))


def _database_tools(
    library: "DatabasePool", database: "DirectoryDatabase", tool_name: str, open_usage: OpenUsage
) -> Iterator[ServedTool]:
    """Return the tools of a database: its search, which needs no model, and its query."""

    async def search(
        call: ServedCall,
        keyword: Annotated[
            str, Field(description="a few words, in the language of the documents", max_length=_LONGEST_WORDS)
        ],
        limit: Annotated[int, Field(description="how many entries", ge=1, le=_MOST_RESULTS)] = RESULTS,
    ) -> Mapping[str, Any]:
        await _wait_until_read(database)
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
        await _wait_until_read(database)
        call.progress("looking for a model that reads")
        try:
            async with open_usage() as count:
                agent = await library.reader()
                call.progress(f"reading what {database.title} says of that")
                return await query_result(database, agent, query, ids, count, progress=call.progress)
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
    yield ServedTool(signature_of(search), search, reads=True)
    yield ServedTool(signature_of(query), query, reads=True)


async def _wait_until_read(database: "DirectoryDatabase") -> None:
    """Wait a while for the files to be read. The result names those that are still missing then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_READY_SECONDS):
            await database.ready()


def _talk_tool(personas: Mapping[str, Persona], talks: McpTalks) -> ServedTool:
    who = Literal[tuple(personas)]  # type: ignore[valid-type]  # known only now

    async def talk_to(
        call: ServedCall,
        persona: Annotated[Any, Field(description="who is to answer")],
        message: Annotated[str, Field(description="what you say", max_length=LONGEST_MESSAGE)],
        conversation: Annotated[
            str, Field(description="to go on with an earlier talk: what it gave as `conversation`")
        ] = "",
    ) -> Mapping[str, Any]:
        return await talks.say(persona, message, conversation or call.talk, call.progress)

    talk_to.__annotations__["persona"] = Annotated[who, Field(description="who is to answer")]
    about = "\n".join(f"- {name}: {_about(persona)}" for name, persona in personas.items())
    talk_to.__doc__ = f"Say something to a persona, and get its answer.\n\n{about}"
    return ServedTool(signature_of(talk_to), talk_to, reads=False)


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
        library: its open databases are served.
        personas: that can be talked to, by the names of their files.
        talks: with personas.
        open_usage: opens the record of use.
        mask: hides secrets in all that goes out.
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
        tools: list[ServedTool] = []
        for name, database in library.databases.items():
            tools += _database_tools(library, database, library.find(name).tool, open_usage)
        if personas:
            tools.append(_talk_tool(personas, talks))
        self._tools = {tool.signature.schema.name: tool for tool in tools}
        names = safe_names(personas)  # of their prompts
        self._personas = {names[name]: persona for name, persona in personas.items()}
        self._mask = mask
        self._alone = alone
        self._key = secrets.token_bytes(16)  # so that the name of a conversation tells nothing of its session

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
                description=tool.signature.schema.description,
                input_schema=tool.signature.schema.parameters,
                annotations=types.ToolAnnotations(
                    read_only_hint=tool.reads, destructive_hint=False, open_world_hint=not tool.reads
                ),
            )
            for name, tool in self._tools.items()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        """Carry out a call. What could not be done is told in the result, for the model.

        Raises:
            MCPError: there is no such tool.
        """
        tool = self._tools.get(asked.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise MCPError(
                types.INVALID_PARAMS, f"There is no tool {prompt_name(asked.name)!r}. Tools: {known}."
            )
        async with _progress_to_client(context, self._mask) as progress:
            try:
                result = await tool.call(ServedCall(progress, self._talk(context)), asked.arguments or {})
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
        return blake2b(session.encode(), key=self._key, digest_size=16).hexdigest() if session else ""


@asynccontextmanager
async def _progress_to_client(context: Context, mask: SecretRedactor) -> AsyncGenerator[Reporter, None]:
    """Give a reporter whose lines go to the client, if it wants progress, in order and without waiting."""
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
    """Return the messages of a persona as text, and any other result as JSON."""
    if "messages" not in result:
        return json.dumps(result, ensure_ascii=False)
    said = [*result["messages"], *(f"({emoji})" for emoji in result["reactions"])]
    return "\n\n".join(said) or "(no answer)"
