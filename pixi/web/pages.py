"""Pages of the web, read as text; what sites ask robots to leave alone is left alone."""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct
from yarl import URL

from pixi.core.errors import ConfigError
from pixi.core.lru import LRU
from pixi.documents import FileLimits, SetAside
from pixi.documents.files import FETCHED, Document, Section
from pixi.documents.formats.fetched import Kind, Label, labelled
from pixi.documents.formats.text import as_markdown
from pixi.documents.readers import Readers
from pixi.fetching.guard import parsed
from pixi.fetching.web import Check, Fetched, Refused, Web, WebError
from pixi.web.wiki_api import check_in

if TYPE_CHECKING:
    from protego import Protego

NAME = "pixi-persona"
"""Name of this program in a robots.txt."""

_MOST_BYTES = 512_000  # of one; what comes after is not read, as RFC 9309 allows
_SECONDS = 5.0
_RULES_KEPT_SECONDS = 3_600.0
_FAULT_SECONDS = 120.0  # after which a site is asked again that could not tell
_RULES_KEPT = 200
_RULES_KEPT_CHARACTERS = 2_000_000

_FOR_WHOM = re.compile(r"\s*user[- ]?agent[\s:]+(.*)", re.IGNORECASE)


class _Rules(Struct, frozen=True):
    """Rules of one site.

    Attributes:
        read: None: it said nothing.
        fault: why it could not tell; "" where it could.
        size: characters.
        until: when it is asked again.
    """

    read: "Protego | None"
    fault: str
    size: int
    until: float


class Robots:
    """Sites' rules.

    Args:
        web: fetches them.
        clock: seconds that only ever grow.
    """

    def __init__(self, web: Web, clock: Callable[[], float] = time.monotonic) -> None:
        self._web = web
        self._clock = clock
        self._kept: LRU[str, _Rules] = LRU(_RULES_KEPT, _RULES_KEPT_CHARACTERS, lambda rules: rules.size)

    async def check(self, url: URL) -> None:
        """See that the site lets programs read this. As RFC 9309 has it: where there are no rules, all may be
        read; where they could not be asked for, nothing.

        Raises:
            WebError: it may not be read.
        """
        rules = await self._rules(url.origin())
        if rules.fault:
            raise WebError(rules.fault)
        if rules.read is None:
            return
        if not await asyncio.to_thread(rules.read.can_fetch, str(url), NAME):
            raise WebError(f"{url.host} does not let programs read this page (its robots.txt says so).")

    async def _rules(self, site: URL) -> _Rules:
        key = str(site)
        known = self._kept.get(key)
        if known is None or known.until <= self._clock():
            known = await self._fetched(site)
            self._kept.put(key, known)
        return known

    async def _fetched(self, site: URL) -> _Rules:
        """Return what a site says now.

        Raises:
            Refused: it is none that may be asked.
        """
        now = self._clock()
        try:
            answer = await self._web.get(
                str(site.with_path("/robots.txt")),
                accept="text/plain",
                most_bytes=_MOST_BYTES,
                seconds=_SECONDS,
                cut=True,
            )
        except Refused:
            raise
        except WebError as error:
            if 400 <= error.status < 500:
                return _Rules(None, "", 0, now + _RULES_KEPT_SECONDS)
            unknown = (
                " So whether programs may read it (its robots.txt) is not known." if error.status else ""
            )
            return _Rules(None, f"{error}{unknown}", 0, now + _FAULT_SECONDS)
        text = answer.body.decode("utf-8", "replace").removeprefix("\ufeff")
        return _Rules(await asyncio.to_thread(_parsed, text), "", len(text), now + _RULES_KEPT_SECONDS)


def _parsed(text: str) -> "Protego":
    from protego import Protego

    return Protego.parse(_for_us(text))


def _for_us(text: str) -> str:
    """Return the text with all other programs made one.

    Rules are kept once for each program that they are for: a thousand of these with a thousand rules would be
    a million.
    """
    lines: list[str] = []
    for line in text.splitlines():
        told = _FOR_WHOM.match(line)
        if told is None:
            lines.append(line)
            continue
        name = told[1].partition("#")[0].strip().lower()
        ours = f"User-agent: {name if name in ('*', NAME) else 'another'}"
        if not lines or lines[-1] != ours:
            lines.append(ours)
    return "\n".join(lines)


_TYPES_OF: dict[Kind, str] = {
    "html": "text/html application/xhtml+xml",
    "feed": "application/rss+xml application/atom+xml application/rdf+xml application/xml text/xml",
    "markdown": "text/markdown text/x-markdown",
    "pdf": "application/pdf",
    "plain": "application/json application/ld+json application/feed+json application/activity+json "
    "application/vnd.api+json application/x-ndjson application/yaml application/toml",
}
_KINDS = {name: kind for kind, names in _TYPES_OF.items() for name in names.split()}
_TYPES = (*_KINDS, "text/*")
_ACCEPT = "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.9, */*;q=0.5"

READING_SECONDS = 8.0
MEGABYTES = 768  # of memory for the process that reads
_KEPT_SECONDS = 600.0
_KEPT = 32
_KEPT_CHARACTERS = 8_000_000
_LITTLE = 600  # characters of a page that may be nothing but a wall


class WebPage(Struct, frozen=True):
    """A page that was read.

    Attributes:
        url: where it was in the end, after redirects.
        title: one line; "" where it tells none.
        sections: its text, in reading order.
        text: all of it, with its headings, as Markdown.
        note: what else a reader should know: that most of it is hidden behind a login.
    """

    url: str
    title: str
    sections: tuple[Section, ...]
    text: str
    note: str = ""


class PageLimits(Struct, frozen=True):
    """Limits of fetching pages.

    Attributes:
        robots: what a site's robots.txt forbids is not read.
        most_bytes: of a page, as it comes and unpacked.
        seconds: for fetching one.
    """

    robots: bool = True
    most_bytes: int = 5_000_000
    seconds: float = 15.0


class WebPageReader:
    """Reads pages. `close` ends what it started; nothing is started before the first page.

    Args:
        web: fetches them; closed by whoever opened it.
        limits: may be changed at any time.
        clock: seconds that only ever grow.
    """

    def __init__(self, web: Web, limits: PageLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._web = web
        self._robots = Robots(web, clock)
        self._clock = clock
        self._readers: Readers | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._laid_down = 0
        # Each with the time until which it is good.
        self._kept: LRU[str, tuple[float, WebPage]] = LRU(
            _KEPT, _KEPT_CHARACTERS, lambda kept: len(kept[1].text)
        )

    async def close(self) -> None:
        """End what reads. Calling it twice does no harm."""
        if self._readers is not None:
            await self._readers.close()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.cleanup)

    async def read(self, url: str) -> WebPage:
        """Return the page at an address that anybody may have written.

        Raises:
            WebError: it cannot be had or read; words that a model can act on.
        """
        wanted = parsed(url)
        key = str(wanted)
        kept = self._kept.get(key)
        if kept and kept[0] > self._clock():
            return kept[1]
        check = self._robots.check if self.limits.robots else None
        if check is not None:
            await check(wanted)
        fetched = await self._fetched(key, check)
        page = await self._page(fetched)
        self._kept.put(key, (self._clock() + _KEPT_SECONDS, page))
        return page

    async def _fetched(self, url: str, onward: Check | None) -> Fetched:
        try:
            return await self._web.get(
                url,
                accept=_ACCEPT,
                most_bytes=self.limits.most_bytes,
                seconds=self.limits.seconds,
                types=_TYPES,
                onward=onward,
            )
        except WebError as error:
            if error.answer is None or not (check := check_in(error.body)):
                raise
            host = URL(error.answer.url).host
            raise WebError(
                f"{host} lets nobody in without a check that needs a browser ({check}).", answer=error.answer
            ) from None

    async def _page(self, fetched: Fetched) -> WebPage:
        document, note = await self._documents(fetched)
        text = await asyncio.to_thread(as_markdown, document)
        if not note and len(text) < _LITTLE and (check := check_in(fetched.body)):
            note = f"this may be nothing but a check that needs a browser ({check})"
        return WebPage(fetched.url, document.title, document.sections, text, note)

    async def _documents(self, fetched: Fetched) -> tuple[Document, str]:
        """Return the page as a document, and what to tell of it.

        Raises:
            WebError: it cannot be read.
        """
        kind = _kind_of(fetched)
        if self._readers is None:
            self._readers = Readers(
                limits=FileLimits(
                    seconds=READING_SECONDS, megabytes=MEGABYTES, characters=20_000_000, records=1_000
                )
            )
        if self._folder is None:  # for nobody else's eyes
            self._folder = TemporaryDirectory(prefix="pixi-pages-")
        self._laid_down += 1
        path = Path(self._folder.name) / f"{self._laid_down}{FETCHED}"
        data = labelled(Label(fetched.url, kind, fetched.charset), fetched.body)
        written = asyncio.ensure_future(asyncio.to_thread(path.write_bytes, data))
        try:
            await asyncio.shield(written)
            found = await self._readers.read(path)
        except SetAside as error:
            raise WebError(_unreadable(kind, error.reason)) from None
        except (ConfigError, OSError):
            raise WebError("Pages cannot be read just now: this computer is out of memory or disk.") from None
        finally:
            if written.done():
                path.unlink(missing_ok=True)
            else:  # given up meanwhile: what is being written would be left lying about
                written.add_done_callback(lambda _: path.unlink(missing_ok=True))
        return (found[0] if found else Document("", "", ())), found.note


def _kind_of(fetched: Fetched) -> Kind:
    """Return the kind of a page: as the server says, or as it begins where that says nothing or only XML."""
    kind = _KINDS.get(fetched.content_type, "plain")
    if fetched.content_type and kind != "feed":
        return kind
    start = fetched.body[:1_024].lstrip().lower()
    if start.startswith(b"%pdf-"):
        return "pdf"
    if b"<html" in start or b"<!doctype html" in start:
        return "html"
    return "feed" if kind == "feed" or start.startswith((b"<?xml", b"<rss", b"<feed")) else "plain"


def _unreadable(kind: Kind, reason: str) -> str:
    if kind == "pdf" and "library" in reason:
        return "It is a PDF file. They are read where pixi-persona[docs] is installed, which it is not here."
    return f"The page was fetched, but {reason.partition(';')[0]}."
