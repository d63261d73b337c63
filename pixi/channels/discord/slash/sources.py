"""Which documents stood behind a reply, read out of what the tools of databases answered."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pixi.channels.discord.outgoing.formatting import escape_line
from pixi.core.lines import Line, ToolLine

_TOOL = re.compile(r"(?P<kind>query|search)_(?P<database>.+)_database")
_DATABASE = re.compile(r'"database"\s*:\s*"((?:[^"\\]|\\.){1,200})"')
_MOST = 50  # documents in one result
_READ = 200_000  # characters of one result
_NAME, _TITLE, _SECTION = 40, 70, 60
_BREAKS = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


class Say(Protocol):
    """Gives a text in somebody's language."""

    def __call__(self, key: str, **values: object) -> str:
        """The text of a key, with these values in its placeholders."""
        ...


@dataclass(frozen=True, slots=True)
class _Cited:
    """A place in a document, as far as it was told; all of it strangers' words."""

    database: str
    title: str
    section: str = ""
    line: int = 0
    page: int = 0


def documents_in(lines: Sequence[Line], say: Say) -> list[str]:
    """The documents that were read for a reply, a line each, fit to be shown; each once.

    Of a database that was only searched, what was found counts: the reply can rest on nothing else of it.
    """
    read = dict.fromkeys(_found(lines, "query"))
    asked = {each.database for each in read}
    found = dict.fromkeys(each for each in _found(lines, "search") if each.database not in asked)
    return list(dict.fromkeys(_shown(each, say) for each in (*read, *found)))


def _found(lines: Sequence[Line], kind: str) -> Iterator[_Cited]:
    for line in lines:
        match = _TOOL.fullmatch(line.name) if isinstance(line, ToolLine) else None
        if isinstance(line, ToolLine) and match is not None and match["kind"] == kind:
            text = line.text[:_READ]
            database = _named(text) or match["database"]
            for each in _objects(text, "relevant" if kind == "query" else "results"):
                source = each.get("source") if kind == "query" else each
                cited = _cited(source, database)
                if cited is not None:
                    yield cited


def _cited(source: object, database: str) -> _Cited | None:
    """A place, where that is one: a result can hold anything."""
    if not isinstance(source, dict):
        return None
    title, section = source.get("title"), source.get("section")
    if not isinstance(title, str) or not title.strip():
        return None
    return _Cited(
        database,
        title,
        section if isinstance(section, str) else "",
        _counted(source.get("line")),
        _counted(source.get("page")),
    )


def _counted(value: object) -> int:
    return value if type(value) is int and 0 < value < 10_000_000 else 0


def _named(text: str) -> str:
    """The name of the database, as it is called; "" where the result does not tell."""
    match = _DATABASE.search(text)
    if match is None:
        return ""
    try:
        return str(json.loads(f'"{match[1]}"'))
    except ValueError:
        return ""


def _objects(text: str, key: str) -> Iterator[dict[str, object]]:
    """The objects in the list of a key; of a result that was cut off, those that are whole."""
    begun = re.search(rf'"{key}"\s*:\s*\[', text)
    if begun is None:
        return
    at = begun.end()
    for _ in range(_MOST):
        match = _BREAKS.match(text, at)
        at = match.end() if match else at
        if not text.startswith("{", at):
            return
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def _shown(cited: _Cited, say: Say) -> str:
    """`pancakes: Lemon sugar › Toppings, line 12`, with nothing in it that acts."""
    database, title = escape_line(cited.database, _NAME), escape_line(cited.title, _TITLE)
    section = escape_line(cited.section, _SECTION)
    where = f"{database}: {title}" + (f" › {section}" if section and section != title else "")
    if cited.line:
        return say("says.why.line", where=where, number=cited.line)
    return say("says.why.page", where=where, number=cited.page) if cited.page else where
