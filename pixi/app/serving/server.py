"""Serves Pixi to MCP clients: what there is, and how it is served over standard input and output."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, redirect_stdout
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pixi.app.databases import open_library
from pixi.app.personas import folders_of
from pixi.app.serving.output import Output, standard_output
from pixi.app.serving.talks import McpTalks
from pixi.channels.terminal.input import read_chunks
from pixi.core.errors import ConfigError
from pixi.core.masking import SecretRedactor
from pixi.personas.files import LoadedPersona
from pixi.personas.shelf import list_personas
from pixi.settings import Settings
from pixi.settings.secret import secrets_in

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from pixi.app.serving.served import Books

_LONGEST_LINE = 4 * 1024 * 1024  # bytes of one message of a client

Tell = Callable[[str], None]


def require_sdk() -> None:
    """See that the SDK is installed.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("mcp") is None:
        raise ConfigError('`pixi-persona mcp` needs the MCP SDK: pip install "pixi-persona[mcp]"')


@asynccontextmanager
async def open_server(
    settings: Settings, books: "Books", *, user: str, alone: bool, report: Tell
) -> AsyncGenerator["Server[Any]", None]:
    """Open what is served; the model that answers and the one that reads are opened when they are wanted.

    Args:
        settings: what the operator wants.
        books: where it is entered what is used.
        user: the name of the one who writes to personas.
        alone: the client that started the program is its only one.
        report: told what a person should know, in one line.

    Raises:
        ConfigError: a folder of personas or databases is not there.
    """
    from pixi.app.serving.handlers import Handlers
    from pixi.app.serving.served import Served

    found = await asyncio.to_thread(list_personas, folders_of(settings))
    personas = {each.path.stem: each.persona for each in found if isinstance(each, LoadedPersona)}
    for each in found:
        if not isinstance(each, LoadedPersona):
            for fault in each.faults:
                report(fault)
    talks = McpTalks(settings, user, report, alone=alone)
    async with open_library(settings, reads=False, follow=True) as library:
        try:
            mask = SecretRedactor()
            mask.learn(secrets_in(settings))
            yield Handlers(Served.of(library, personas, talks, books), mask, alone=alone).server()
        finally:
            await talks.close()


async def serve_stdio(server: "Server[Any]", descriptor: int) -> None:
    """Serve the client that started the program, until the input ends. Only that reaches standard output."""
    import anyio
    from mcp.server.stdio import stdio_server

    with standard_output() as output, redirect_stdout(sys.stderr):
        async with aclosing(_lines(descriptor, output)) as lines:
            # It wants files, and asks them for nothing but to give lines and to take text.
            stdin: anyio.AsyncFile[str] = lines  # type: ignore[assignment]
            stdout: anyio.AsyncFile[str] = output  # type: ignore[assignment]
            try:
                async with stdio_server(stdin, stdout) as (incoming, outgoing):
                    await server.run(incoming, outgoing, server.create_initialization_options())
            except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # nobody listens any more, or the SDK was ended while somebody spoke
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _lines(descriptor: int, output: Output) -> AsyncGenerator[str, None]:
    """Yield the lines of standard input; one that is too long is given as nothing that means anything.

    While a client does not take what it is told, nothing more is read.
    """
    pending = bytearray()
    async with aclosing(read_chunks(descriptor)) as chunks:
        async for chunk in chunks:
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                await output.idle.wait()
                pending += line
                yield pending.decode("utf-8", "replace") if len(pending) <= _LONGEST_LINE else "null"
                pending.clear()
            if len(pending) <= _LONGEST_LINE:
                pending += rest
