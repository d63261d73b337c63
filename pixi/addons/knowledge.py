"""Databases as tools: for each folder one that searches it, and one that reads entries out for a question."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field

from pixi.core.errors import Reporter, ToolError, silent
from pixi.core.spending import Count
from pixi.core.untrusted import clipped
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.registry import source_of
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from pixi.toolbox.tools import NOTHING_FOUND

RESULTS = 8
"""Entries that a search gives unless more are asked for."""

_MOST_RESULTS = 20
_MOST_ENTRIES = 8  # read for one question
_ENTRIES = 3  # read for a question that names none
_LONGEST_QUESTION = 2_000  # characters
_LONGEST_ABOUT = 400  # characters
_NO_DOCUMENTS = "Nothing was found: there are no documents in this database."
_READING = "The documents are still being read; there may be more to find in a moment."


def knowledge_of(
    database: DirectoryDatabase, agent: RetrievalAgent, tool_name: str
) -> Callable[[Addon], None]:
    """Return the `setup` that registers the two tools of a database.

    Args:
        database: open.
        agent: reads its entries.
        tool_name: by which the tools are called: `search_NAME_database` and `query_NAME_database`.
    """

    def setup(addon: Addon) -> None:
        async def search(
            context: Context,
            keyword: Annotated[str, Field(description="a few words, in the language of the documents")],
            limit: Annotated[int, Field(description="how many entries", ge=1, le=_MOST_RESULTS)] = RESULTS,
        ) -> dict[str, Any]:
            return await search_result(database, keyword, limit)

        async def query(
            context: Context,
            query: Annotated[str, Field(description="what you want to know, as a whole question")],
            ids: Annotated[
                list[int], Field(description=f"ids from the search, {_MOST_ENTRIES} at most")
            ] = [],  # noqa: B006 - pydantic copies it
        ) -> dict[str, Any]:
            return await query_result(
                database,
                agent,
                query,
                ids,
                context.count,
                seconds=context.seconds_left,
                progress=context.progress,
            )

        search.__name__, query.__name__ = f"search_{tool_name}_database", f"query_{tool_name}_database"
        search.__doc__ = (
            f"Search {described(database)}\n\nGives ids, titles and snippets of entries; "
            f"`{query.__name__}` then reads whole entries for you."
        )
        query.__doc__ = (
            f"Have entries of {database.title} read, and get back what they say about a question, word for "
            f"word and with its place. Search first, for the ids."
        )
        source = source_of(database.name)
        addon.tool(source=source)(search)
        addon.tool(source=source, timeout=None)(query)

    return setup


async def search_result(database: DirectoryDatabase, keyword: str, limit: int = RESULTS) -> dict[str, Any]:
    """Return what a model gets from a search."""
    found = await database.search(keyword, limit)
    results = [
        {"id": hit.source.entry, "title": hit.source.title}
        | ({"section": hit.source.section} if hit.source.section else {})
        | {"snippet": hit.snippet}
        for hit in found.hits
    ]
    result: dict[str, Any] = {"database": database.name, "results": results}
    if found.read_as:
        result["read_as"] = dict(found.read_as)
    notes = [*([] if results else [_nothing_in(database)]), *([] if database.state.finished else [_READING])]
    return result | ({"note": " ".join(notes)} if notes else {})


async def query_result(
    database: DirectoryDatabase,
    agent: RetrievalAgent,
    question: str,
    ids: Sequence[int] = (),
    count: Count | None = None,
    *,
    seconds: float | None = None,
    progress: Reporter = silent,
) -> dict[str, Any]:
    """Read entries for a question and return what a model gets; without ids, the best that a search finds.

    For `count`, `seconds` and `progress` see `RetrievalAgent.query`.

    Raises:
        ToolError: there is no question, or none of the entries exists.
    """
    question = question.strip()[:_LONGEST_QUESTION]
    if not question:
        raise ToolError("The query is empty: ask a whole question.")
    clock = asyncio.get_running_loop()
    began = clock.time()
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        found = await database.search(question, _ENTRIES)
        wanted = [hit.source.entry for hit in found.hits]
    entries = await database.read(wanted[:_MOST_ENTRIES])
    known = {entry.id for entry in entries}
    unknown = [each for each in wanted[:_MOST_ENTRIES] if each not in known]
    if not entries and unknown:
        raise ToolError(
            f"{database.title} has no entry {', '.join(map(str, unknown))}. "
            "Search first, and give ids that the search gave."
        )
    result: dict[str, Any] = {"database": database.name}
    if entries:
        left = None if seconds is None else max(0.0, seconds - (clock.time() - began))
        findings = await agent.query(question, entries, count, seconds=left, progress=progress)
        result |= findings.to_json()
    else:
        result["relevant"] = []
    if not entries:
        result["note"] = _nothing_in(database)
    if unknown:
        result["unknown_ids"] = unknown
    if len(wanted) > _MOST_ENTRIES:
        result["not_read"] = wanted[_MOST_ENTRIES:]
    return result


def _nothing_in(database: DirectoryDatabase) -> str:
    """Return what to say where nothing was found."""
    return _NO_DOCUMENTS if database.state.finished and not database.entries else NOTHING_FOUND


def described(database: DirectoryDatabase) -> str:
    """Return what a model must know of a database to choose it: its title, and how its description begins."""
    about = " ".join(database.about.partition("\n\n")[0].split())
    name = "" if database.title == database.name else f' (the folder "{database.name}")'
    return f"{database.title}{name}{f': {clipped(about, _LONGEST_ABOUT)}' if about else '.'}"
