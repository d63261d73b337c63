"""Answers what MCP clients ask: lists, calls and prompts, in the words of the protocol."""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from pixi.app.serving.served import Served, ServedCall
from pixi.app.serving.talks import Tell
from pixi.core.errors import ToolError
from pixi.core.masking import SecretRedactor
from pixi.core.untrusted import clipped, prompt_name

_INSTRUCTIONS = (
    "Search a database first, then have its entries read for a question. With talk_to you get the answer of "
    "somebody who has a character of their own."
)
_SESSION = "mcp-session-id"  # the header that tells sessions apart over HTTP
_LONGEST_NEWS = 300
_NEWS_SECONDS = 2.0

Context = ServerRequestContext[Any, Any]


class Handlers:
    """What an MCP server does.

    Args:
        served: what there is.
        mask: hides secrets in whatever goes out.
        alone: there is one client, as long as the program runs.
    """

    def __init__(self, served: Served, mask: SecretRedactor, *, alone: bool) -> None:
        self._served = served
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
                description=offer.schema.description,
                input_schema=offer.schema.parameters,
                annotations=types.ToolAnnotations(
                    read_only_hint=offer.reads, destructive_hint=False, open_world_hint=not offer.reads
                ),
            )
            for name, offer in self._served.tools.items()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        """Carry out a call. What could not be done is told in the result, for the model.

        Raises:
            MCPError: there is no such tool.
        """
        offer = self._served.tools.get(asked.name)
        if offer is None:
            known = ", ".join(self._served.tools) or "none"
            raise MCPError(
                types.INVALID_PARAMS, f"There is no tool {prompt_name(asked.name)!r}. Tools: {known}."
            )
        async with _progress(context, self._mask) as happens:
            try:
                result = await offer.call(ServedCall(happens, self._talk(context)), asked.arguments or {})
            except ToolError as error:
                text = types.TextContent(type="text", text=self._mask.redact(str(error)))
                return types.CallToolResult(content=[text], is_error=True)
        told = _hidden(dict(result), self._mask)
        content = types.TextContent(type="text", text=_as_text(told))
        return types.CallToolResult(content=[content], structured_content=told)

    async def list_prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        """Return a prompt for each persona."""
        who = types.PromptArgument(name="user", description="your name", required=False)
        prompts = [
            types.Prompt(name=name, title=persona.name, description=persona.about or None, arguments=[who])
            for name, persona in self._served.personas.items()
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, _: Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the text of a persona.

        Raises:
            MCPError: there is no such prompt.
        """
        try:
            text = self._served.prompt(asked.name, (asked.arguments or {}).get("user", ""))
        except ToolError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        content = types.TextContent(type="text", text=self._mask.hide(text))
        return types.GetPromptResult(
            description=self._served.personas[asked.name].about or None,
            messages=[types.PromptMessage(role="user", content=content)],
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
async def _progress(context: Context, mask: SecretRedactor) -> AsyncGenerator[Tell, None]:
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


def _hidden(value: Any, mask: SecretRedactor) -> Any:
    match value:
        case str():
            return mask.hide(value)
        case dict():
            return {name: _hidden(each, mask) for name, each in value.items()}
        case list() | tuple():
            return [_hidden(each, mask) for each in value]
        case _:
            return value
