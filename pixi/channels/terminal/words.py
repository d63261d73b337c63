"""Words on a terminal: text made plain, cards, calls of tools, and what is read just now."""

import math
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pixi.core.events import TurnEvent
from pixi.core.llm import PromptProgress
from pixi.core.message import Card, Image, Picture
from pixi.core.untrusted import printable, printable_line, without_middle


def card_lines(card: Card) -> list[str]:
    """A card as plain lines: the title, and what is below it indented. Nothing in it drives a terminal."""
    return [printable_line(card.title), *(f"  {line}".rstrip() for line in _below(card))]


def picture_told(picture: str | Image) -> str:
    """Return what stands for a picture where none can be shown: its address, or its kind and size."""
    if isinstance(picture, str):
        return f"[picture: {printable_line(picture)}]"
    return f"[picture: {printable_line(picture.media_type)}, {max(1, round(len(picture.data) / 1_000)):,} kB]"


def card_of(picture: Picture) -> Card:
    """A picture as a card: it itself below its words, then whose it is, and where."""
    return Card(picture.words, picture.credit, picture=picture.file, link=picture.link)


def _below(card: Card) -> Iterator[str]:
    if text := printable(card.text).strip():
        yield from text.split("\n")
    for field in card.fields:
        name, (first, *others) = printable_line(field.name), printable(field.value).strip().split("\n")
        yield f"{name}: {first}"
        yield from (f"  {other}" for other in others)
    if card.link:
        yield printable_line(card.link)
    if card.picture is not None:
        yield picture_told(card.picture)


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
    return without_middle(printable_line(str(value)), _LONGEST, " … ")


_SHORT_SECONDS = 1.0  # what does not take longer is not worth a word


class ReadingIndicator:
    """Knows what is read now. Tell it what happens, and ask for its words whenever they are shown."""

    def __init__(self) -> None:
        self._reading: PromptProgress | None = None
        self._told_at = 0.0
        self._since = 0.0

    def happened(self, event: TurnEvent) -> None:
        """Take in what happened: whatever is no reading ends it."""
        now = time.monotonic()
        if not isinstance(event, PromptProgress):
            self._reading = None
            return
        if self._reading is None:
            self._since = now
        self._reading, self._told_at = event, now

    @property
    def reads(self) -> bool:
        """Return whether something is left to be read."""
        return self._reading is not None and self._reading.done < self._reading.total

    @property
    def words(self) -> str:
        """Return how much is left, such as `reading 1,669 tokens · 40 s to go`; "" where it takes no time."""
        now = time.monotonic()
        if self._reading is None or not self.reads or now - self._since < _SHORT_SECONDS:
            return ""
        left = self._reading.total - self._reading.done
        words = f"reading {left:,} token{'s' if left > 1 else ''}"
        to_go = math.ceil((self._reading.seconds or 0.0) - (now - self._told_at))
        return f"{words} · {_told(to_go)} to go" if to_go > 0 else words


def _told(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"
