"""Calls of tools in words, for people: `looks up “crepe batter” in pancakes`."""

import re
from collections.abc import Mapping
from typing import Any

from pixi.channels.shortening import shortened
from pixi.channels.terminal_text import one_line

_WORDS: Mapping[str, tuple[str, str, str]] = {
    "search": ("looks up “{}” in {name}", "looks into {name}", "keyword query"),
    "query": ("reads {name} for “{}”", "reads {name}", "query question"),
    "web_search": ("searches the web for “{}”", "searches the web", "query"),
    "read_page": ("reads {}", "reads a page", "url"),
    "remember": ("remembers “{}”", "remembers something", "fact"),
    "recall": ("thinks back to “{}”", "thinks back", "query"),
    "forget": ("forgets “{}”", "forgets something", "what"),
    "search_messages": ("looks for “{}” in what was written here", "looks through what was written", "words"),
}
"""By the name of a tool: with what it is given, without, and the names of the argument that tells most."""

_OF_A_SOURCE = re.compile(r"(search|query)_(.+)_(?:database|wiki)")
_LONGEST = 80  # characters of an argument
_MOST_ARGUMENTS = 4


def call_in_words(tool: str, arguments: Mapping[str, Any]) -> str:
    """Say what a call of a tool does, as the rest of a sentence that begins with who calls."""
    source = _OF_A_SOURCE.fullmatch(tool)
    kind, name = (source[1], _plain(source[2].replace("_", " "))) if source else (tool, "")
    if kind in _WORDS and (source or kind not in ("search", "query")):
        with_it, without, keys = _WORDS[kind]
        given = next((_plain(arguments[key]) for key in keys.split() if arguments.get(key)), "")
        return with_it.format(given, name=name) if given else without.format(name=name)
    told = ", ".join(
        f"{_plain(key)} {_plain(value)}" for key, value in [*arguments.items()][:_MOST_ARGUMENTS]
    )
    more = ", …" if len(arguments) > _MOST_ARGUMENTS else ""
    return f"uses {_plain(tool)}: {told}{more}" if told else f"uses {_plain(tool)}"


def _plain(value: object) -> str:
    return shortened(one_line(str(value)), _LONGEST, gap=" … ")[0]
