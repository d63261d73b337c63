"""A MediaWiki: searched, and read page by page."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pixi.documents.document import Section
from pixi.documents.files import SetAside
from pixi.fetching.web import Web
from pixi.web.wikis.answers import (
    Fields,
    WikiHit,
    WikiHits,
    WikiPageInfo,
    asked_title,
    content_of,
    end_of,
    further_from,
    hit_from,
    join,
    known_pages,
    leads_in,
    objects_in,
    part_of,
    suggestion_in,
)
from pixi.web.wikis.api import Json, Site, WikiApi, WikiError
from pixi.web.wikis.text import WikiText, text_of_html, text_of_marked, text_of_wikitext

MOST_PAGES = 5
"""That are read at once."""

_KEPT_SECONDS = 6 * 3_600.0  # a page also changes with the templates in it
_KEPT_CHARACTERS = 8_000_000
_KEPT_PAGES = 1_000  # there are empty ones
_KEPT_SEARCHES = 128
_KEPT_SEARCH_SECONDS = 600.0
_PARSED_BYTES = 1_000_000  # of wikitext: to make HTML of more takes a wiki too long, and comes to too much
_LONGEST_QUERY = 300  # characters: what the search of most wikis takes
_ROUNDS = 3  # of answers that go on

Form = Literal["html", "extract", "wikitext"]


@dataclass(frozen=True, slots=True)
class WikiPage:
    """A page, as it was when it was read.

    Attributes:
        id: of the page in its wiki.
        revision: of its text; 0: not known.
        form: from which its text was taken.
        meanings: the titles that it lists, if it is a page that tells what a word may mean.
    """

    id: int
    title: str
    url: str
    revision: int
    form: Form
    sections: tuple[Section, ...]
    meanings: tuple[str, ...] = ()

    @property
    def characters(self) -> int:
        """How long its text is."""
        return sum(len(section.text) for section in self.sections)


@dataclass(frozen=True, slots=True)
class WikiPages:
    """What came of some titles.

    Attributes:
        found: in the order in which they were wanted.
        missing: titles of which there is no page.
        led: where a title led that stands for another.
    """

    found: tuple[WikiPage, ...] = ()
    missing: tuple[str, ...] = ()
    led: tuple[tuple[str, str], ...] = ()


_NO_SUCH_MODULE = frozenset({"badvalue", "unknown_action", "moduledisabled"})


class Wiki:
    """One wiki.

    Args:
        web: fetches.
        url: of any of its pages.
        trusted: see `WikiApi`.
        variant: of its language, where it is written in several: `zh-hant`.
    """

    def __init__(self, web: Web, url: str, *, trusted: bool, variant: str = "") -> None:
        self._api = WikiApi(web, url, trusted=trusted)
        self._variant = {"variant": variant} if variant else {}
        self._pages: OrderedDict[int, tuple[float, WikiPage]] = OrderedDict()
        self._searches: OrderedDict[tuple[str, int], tuple[float, WikiHits]] = OrderedDict()

    async def site(self) -> Site:
        """What it says of itself.

        Raises:
            WikiError: it cannot be asked.
        """
        return await self._api.site()

    async def search(self, query: str, limit: int) -> WikiHits:
        """The pages that fit best, best first.

        Raises:
            WikiError: it cannot be asked.
        """
        query = " ".join(query.split())[:_LONGEST_QUERY]
        key = (query, limit)
        known = self._searches.get(key)
        if known and time.monotonic() - known[0] < _KEPT_SEARCH_SECONDS:
            return known[1]
        searched = await self._search(query, limit)
        self._searches[key] = (time.monotonic(), searched)
        self._searches.move_to_end(key)
        while len(self._searches) > _KEPT_SEARCHES:
            self._searches.popitem(last=False)
        return searched

    async def pages(self, titles: Sequence[str]) -> WikiPages:
        """The pages of these titles, redirects followed.

        Raises:
            WikiError: it cannot be asked.
        """
        titles = [title for title in dict.fromkeys(map(asked_title, titles)) if title][:MOST_PAGES]
        if not titles:
            return WikiPages()
        fields: Fields = {"titles": "|".join(titles), "redirects": 1, "converttitles": 1}
        told = part_of(await self._asked_for_pages(fields), "query")
        led = leads_in(told)
        known = {page.title: page for page in known_pages(told)}
        ends = {title: end_of(title, led) for title in titles}
        wanted = dict.fromkeys(end for end in ends.values() if end in known)
        return WikiPages(
            await self._read(known[end] for end in wanted),
            tuple(title for title, end in ends.items() if end not in known),
            tuple(
                (title, end)
                for title, end in ends.items()
                if end in known and title.casefold() != end.casefold()
            ),
        )

    async def best(self, query: str, limit: int) -> WikiPages:
        """The pages that fit best.

        Raises:
            WikiError: it cannot be asked.
        """
        query = " ".join(query.split())[:_LONGEST_QUERY]
        fields: Fields = {"generator": "search", "gsrsearch": query, "gsrlimit": limit, "redirects": 1}
        told = part_of(await self._asked_for_pages(fields), "query")
        return WikiPages(await self._read(known_pages(told)[:limit]))

    async def _search(self, query: str, limit: int) -> WikiHits:
        fields: Fields = {
            "action": "query",
            "list": "search",
            "srsearch": query,
            "srlimit": limit,
            "srprop": "snippet|size|sectiontitle",
            "srinfo": "suggestion",
            **self._variant,
        }
        site = await self._api.site()
        hits: list[WikiHit] = []
        suggestion = ""
        further: Fields = {}
        for _ in range(_ROUNDS):
            told = await self._api.ask({**fields, **further})
            part = part_of(told, "query")
            hits += [hit_from(each, site) for each in objects_in(part.get("search"))]
            suggestion = suggestion or suggestion_in(part)
            further = further_from(told)
            if len(hits) >= limit or not further:
                break
        return WikiHits(tuple(hits[:limit]), suggestion)

    async def _asked_for_pages(self, fields: Fields) -> Json:
        """What the wiki knows of pages. An answer in pieces is put together."""
        asked = {"action": "query", "prop": "info|pageprops", "ppprop": "disambiguation", **fields}
        told = await self._api.ask(asked)
        whole, further = told, further_from(told)
        for _ in range(_ROUNDS):
            if not further:
                break
            told = await self._api.ask({**asked, **further})
            join(whole, told)
            further = further_from(told)
        return whole

    async def _read(self, known: Iterable[WikiPageInfo]) -> tuple[WikiPage, ...]:
        """Pages, side by side; those that are kept and did not change are not read again."""
        known = list(known)
        tasks = [asyncio.create_task(self._page(each)) for each in known]
        try:
            return tuple(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _page(self, known: WikiPageInfo) -> WikiPage:
        at, kept = self._pages.get(known.id, (0.0, None))
        fresh = time.monotonic() - at < _KEPT_SECONDS
        if kept is not None and fresh and known.revision and kept.revision == known.revision:
            self._pages.move_to_end(known.id)
            return kept
        form, text = await self._text(known)
        url = (await self._api.site()).url_of(known.title)
        page = WikiPage(known.id, known.title, url, known.revision, form, text.sections, text.meanings)
        self._keep(page)
        return page

    def _keep(self, page: WikiPage) -> None:
        """Keep a page; of those that nobody asked for longest, as many go as are too much."""
        self._pages[page.id] = (time.monotonic(), page)
        self._pages.move_to_end(page.id)
        characters = sum(kept.characters for _, kept in self._pages.values())
        while len(self._pages) > 1 and (characters > _KEPT_CHARACTERS or len(self._pages) > _KEPT_PAGES):
            _, (_, gone) = self._pages.popitem(last=False)
            characters -= gone.characters

    async def _text(self, known: WikiPageInfo) -> tuple[Form, WikiText]:
        """Its text: as HTML, which alone has tables and boxes in words; else as it is to be had."""
        if known.bytes <= _PARSED_BYTES:
            try:
                return "html", await self._parsed(known)
            except SetAside:
                pass
            except WikiError as error:
                if error.code not in _NO_SUCH_MODULE:
                    raise
        told = await self._of_page(known, {"prop": "extracts", "explaintext": 1, "exsectionformat": "wiki"})
        extract = told.get("extract")
        if isinstance(extract, str) and extract.strip():
            return "extract", await asyncio.to_thread(text_of_marked, extract, known.title)
        told = await self._of_page(known, {"prop": "revisions", "rvprop": "content", "rvslots": "main"})
        return "wikitext", await asyncio.to_thread(text_of_wikitext, content_of(told), known.title)

    async def _parsed(self, known: WikiPageInfo) -> WikiText:
        told = await self._api.ask(
            {
                "action": "parse",
                "pageid": known.id,
                "prop": "text",
                "disabletoc": 1,
                "disableeditsection": 1,
                "disablelimitreport": 1,
                **self._variant,
            }
        )
        text = part_of(told, "parse").get("text", "")
        html = str(text.get("*", "")) if isinstance(text, dict) else str(text)
        return await asyncio.to_thread(
            lambda: text_of_html(html, known.title, lists_meanings=known.lists_meanings)
        )

    async def _of_page(self, known: WikiPageInfo, fields: Fields) -> Json:
        told = await self._api.ask({"action": "query", "pageids": known.id, **fields})
        return next(iter(objects_in(part_of(told, "query").get("pages"))), {})
