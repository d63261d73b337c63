"""What changed of an MCP server since it was approved: its command, or what its tools say of themselves."""

import json
from collections.abc import Iterator
from difflib import unified_diff

from pixi.mcp.lock import Approved, in_full, kept, sifted
from pixi.mcp.offers import ForeignTool
from pixi.mcp.where import Where, visible

SECONDS = 60.0
"""How long a server may take to start and list its tools."""

_MOST_LINES = 2_000  # of what differs in one tool; more than what is kept of it can have in earnest


async def changed_tools(name: str, where: Where, approved: Approved) -> tuple[ForeignTool, ...]:
    """Start a server, as it was approved, and list its tools that are described otherwise than approved.

    Raises:
        PixiError: it cannot be started, or does not list its tools.
    """
    from pixi.mcp.connection import connected  # large, and of an extra that is not always there

    async with connected(name, where, SECONDS) as connection:
        return sifted(approved, (await connection.list()).tools).changed


def told_changes(tool: ForeignTool, approved: Approved) -> list[str]:
    """Tell what differs in a tool that was approved: lines as of a diff, fit to be shown."""
    before, now = approved.tools[tool.name], kept(tool)
    lines = [*_differing(before.description, now.description)]
    lines += _differing(_spread(before.schema), _spread(now.schema))
    if beyond := sum(map(len, in_full(tool))) - len(now.description) - len(now.schema):
        lines.append(f"  (what stands after that was not kept, and may differ too: {beyond:,} characters)")
    if not lines:
        lines = ["  (it differs far down, in what was not kept)"]
    more = len(lines) - _MOST_LINES
    told = [visible(line) for line in lines[:_MOST_LINES]]
    return told + ([f"  … and {more} lines more"] if more > 0 else [])


def _differing(before: str, now: str) -> Iterator[str]:
    for line in unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=1):
        if not line.startswith(("---", "+++", "@@")):
            yield f"  {line}"


def _spread(schema: str) -> str:
    """A schema on lines of its own; as it is where it was cut."""
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema
