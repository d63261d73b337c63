"""A wiki: found, searched, and its pages read as text."""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct

from pixi.core.lru import LRU
from pixi.documents.files import Section, SetAside
from pixi.documents.formats.html import closed_elements, page_of, without_lines
from pixi.documents.formats.text import Heading, outlined
from pixi.documents.wire import sendable
from pixi.fetching.web import Web
from pixi.web.wiki_api import (
    Fields,
    Json,
    Site,
    WikiApi,
    WikiError,
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

MOST_MEANINGS = 20

# Parts of a page that are not its text.
_JUNK = (
    ".mw-editsection, .navbox, .noprint, .toc, #toc, .mw-empty-elt, sup.reference, .mw-cite-backlink, "
    ".metadata, .sistersitebox, .mw-jump-link, .catlinks, style, script"
)
_LISTS_MEANINGS = "#disambigbox, .disambigbox, .disambig, .dmbox-disambig, #disambig"
_NO_ARTICLE = re.compile(r"^(?:https?:|//|#)|[?&]redlink=1")

_LONGEST_HEADING = 300

# Anybody may write a page. No pattern here can begin again within what another try of it looked through, so
# that none takes longer than the text is long.
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b[^<>]*>[^<]*</ref>", re.IGNORECASE)
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_ADDRESS = re.compile(r"\[https?://[^\s\[\]]+ ([^\[\]\n]*)\]")
_QUOTES = re.compile(r"'{2,5}")


class WikiText(Struct, frozen=True):
    """Text of a page.

    Attributes:
        sections: in reading order.
        meanings: the titles that it lists, if it is a page that tells what a word may mean.
    """

    sections: tuple[Section, ...]
    meanings: tuple[str, ...] = ()


def text_of_html(html: str, title: str, *, lists_meanings: bool) -> WikiText:
    """Return the text of a page as a wiki's parser writes it: with its tables and boxes, row by row.

    `lists_meanings`: it is known to tell what a word may mean; else that is looked for.

    Raises:
        SetAside: its elements are nested too deep, or one has too many attributes.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(closed_elements(sendable(html)))
    meanings: tuple[str, ...] = ()
    if lists_meanings or tree.css_first(_LISTS_MEANINGS) is not None:
        listed = (
            link.attributes.get("title") or ""
            for link in tree.css("li a[title]")
            if not _NO_ARTICLE.search(link.attributes.get("href") or "")
        )
        meanings = tuple(dict.fromkeys(filter(None, listed)))[:MOST_MEANINGS]
    for junk in tree.css(_JUNK):
        junk.decompose()
    page = page_of(tree.html or "")
    return WikiText(without_lines(outlined(page.lines, page.headings, title)), meanings)


def text_of_marked(text: str, title: str) -> WikiText:
    """Return the text of a page whose headings stand between equals signs."""
    lines = sendable(text).splitlines()
    headings = [
        Heading(*found, at, at + 1) for at, line in enumerate(lines) if (found := _marked_heading(line))
    ]
    return WikiText(without_lines(outlined(lines, headings, title)))


def text_of_wikitext(text: str, title: str) -> WikiText:
    """Return the text of a page from its wikitext, without marks of links and letters. Templates stay."""
    text = _without_comments(text)
    for pattern in (_REFERENCE, _QUOTES):
        text = pattern.sub("", text)
    text = _ADDRESS.sub(r"\1", _LINK.sub(r"\1", text))
    return text_of_marked(text, title)


def _marked_heading(line: str) -> tuple[int, str] | None:
    """Return how deep a heading is, and its text; None: the line is none."""
    line = line.rstrip(" \t")
    before = len(line) - len(line.lstrip("="))
    level = min(6, before, len(line) - len(line.rstrip("=")))
    text = line[level : len(line) - level].strip(" \t")
    return (level, text) if level > 1 and 0 < len(text) <= _LONGEST_HEADING else None


def _without_comments(text: str) -> str:
    kept: list[str] = []
    start = 0
    while (opens := text.find("<!--", start)) >= 0 and (closes := text.find("-->", opens + 4)) >= 0:
        kept.append(text[start:opens])
        start = closes + 3
    return "".join((*kept, text[start:]))


MOST_PAGES = 5
"""Pages that are read at once."""

_KEPT_SECONDS = 6 * 3_600.0  # a page also changes with the templates in it
_KEPT_CHARACTERS = 8_000_000
_KEPT_PAGES = 1_000  # there are empty ones
_KEPT_SEARCHES = 128
_KEPT_SEARCH_SECONDS = 600.0
_PARSED_BYTES = 1_000_000  # of wikitext: to make HTML of more takes a wiki too long, and comes to too much
_LONGEST_QUERY = 300  # characters: what the search of most wikis takes
_ROUNDS = 3  # of answers that go on


class WikiPage(Struct, frozen=True):
    """A page, as it was when it was read.

    Attributes:
        id: of the page in its wiki.
        revision: of its text; 0: not known.
        meanings: the titles that it lists, if it is a page that tells what a word may mean.
    """

    id: int
    title: str
    url: str
    revision: int
    sections: tuple[Section, ...]
    meanings: tuple[str, ...] = ()

    @property
    def characters(self) -> int:
        """The characters of the text."""
        return sum(len(section.text) for section in self.sections)


class WikiPages(Struct, frozen=True):
    """Pages of some titles.

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
    """A wiki.

    Args:
        web: fetches.
        url: of any of its pages.
        trusted: see `WikiApi`.
        variant: of its language, where it is written in several: `zh-hant`.
    """

    def __init__(self, web: Web, url: str, *, trusted: bool, variant: str = "") -> None:
        self._api = WikiApi(web, url, trusted=trusted)
        self._variant = {"variant": variant} if variant else {}
        # Each with the time at which it came.
        self._pages: LRU[int, tuple[float, WikiPage]] = LRU(
            _KEPT_PAGES, _KEPT_CHARACTERS, lambda kept: kept[1].characters
        )
        self._searches: LRU[tuple[str, int], tuple[float, WikiHits]] = LRU(_KEPT_SEARCHES)

    async def site(self) -> Site:
        """Return what the wiki says of itself.

        Raises:
            WikiError: it cannot be asked.
        """
        return await self._api.site()

    async def search(self, query: str, limit: int) -> WikiHits:
        """Return the pages that fit best, best first.

        Raises:
            WikiError: it cannot be asked.
        """
        query = " ".join(query.split())[:_LONGEST_QUERY]
        key = (query, limit)
        known = self._searches.get(key)
        if known and time.monotonic() - known[0] < _KEPT_SEARCH_SECONDS:
            return known[1]
        searched = await self._search(query, limit)
        self._searches.put(key, (time.monotonic(), searched))
        return searched

    async def pages(self, titles: Sequence[str]) -> WikiPages:
        """Return the pages of these titles, redirects followed.

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
        """Return the pages that fit best.

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
        """Return what the wiki knows of pages. An answer in pieces is put together."""
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
        """Return pages, side by side; those that are kept and did not change are not read again."""
        known = list(known)
        tasks = [asyncio.create_task(self._page(each)) for each in known]
        try:
            return tuple(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _page(self, known: WikiPageInfo) -> WikiPage:
        at, kept = self._pages.get(known.id) or (0.0, None)
        fresh = time.monotonic() - at < _KEPT_SECONDS
        if kept is not None and fresh and known.revision and kept.revision == known.revision:
            return kept
        text = await self._text(known)
        url = (await self._api.site()).url_of(known.title)
        page = WikiPage(known.id, known.title, url, known.revision, text.sections, text.meanings)
        self._pages.put(page.id, (time.monotonic(), page))
        return page

    async def _text(self, known: WikiPageInfo) -> WikiText:
        """Return its text: as HTML, which alone has tables and boxes in words; else as it is to be had."""
        if known.bytes <= _PARSED_BYTES:
            try:
                return await self._parsed(known)
            except SetAside:
                pass  # its elements are nested too deep: its text is to be had without them
            except WikiError as error:
                if error.code not in _NO_SUCH_MODULE:
                    raise
        told = await self._of_page(known, {"prop": "extracts", "explaintext": 1, "exsectionformat": "wiki"})
        extract = told.get("extract")
        if isinstance(extract, str) and extract.strip():
            return await asyncio.to_thread(text_of_marked, extract, known.title)
        told = await self._of_page(known, {"prop": "revisions", "rvprop": "content", "rvslots": "main"})
        return await asyncio.to_thread(text_of_wikitext, content_of(told), known.title)

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


_DEFAULT = "en"
_OTHERWISE = {
    "cmn": "zh",
    "fil": "tl",
    "gsw": "als",
    "in": "id",
    "iw": "he",
    "lzh": "zh-classical",
    "nan": "zh-min-nan",
    "nb": "no",
    "rup": "roa-rup",
    "sgs": "bat-smg",
    "vro": "fiu-vro",
    "yue": "zh-yue",
}
"""Languages whose Wikipedia has another name than they have."""

_NAMES = (
    "ab ace ady af als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban "
    "bar bat-smg bbc bcl be be-tarask bg bh bi bjn blk bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce ceb "
    "ch chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq dsb dty dv dz ee el eml en eo es et "
    "eu ext fa fat ff fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe "
    "gu guc gur guw gv ha hak haw he hi hif hr hsb ht hu hy hyw ia id ie ig ik ilo inh io is it iu ja jam "
    "jbo jv ka kaa kab kbd kbp kcg kg ki kk kl km kn ko koi krc ks ksh ku kv kw ky la lad lb lbe lez lfn "
    "lg li lij lld lmo ln lo lt ltg lv mad mai map-bms mdf mg mhr mi min mk ml mn mni mnw mr mrj ms mt "
    "mwl my myv mzn nah nap nds nds-nl ne new nia nl nn no nov nqo nrm nso nv ny oc olo om or os pa pag "
    "pam pap pcd pcm pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rm rmy rn ro roa-rup roa-tara ru rue rw "
    "sa sah sat sc scn sco sd se sg sh shi shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv "
    "sw szl szy ta tay tcy te tet tg th ti tk tl tly tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz "
    "ve vec vep vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh-classical zh-min-nan zh-yue zu"
)
_WIKIPEDIAS = frozenset(_NAMES.split())
_HAN = ("hans", "hant", "cn", "hk", "mo", "my", "sg", "tw")
_VARIANTS = frozenset({*(f"zh-{script}" for script in _HAN), "sr-ec", "sr-el"})
_SCRIPTS = {"sr-cyrl": "sr-ec", "sr-latn": "sr-el"}


def wikipedia_in(language: str) -> tuple[str, str]:
    """Return the address of a language's Wikipedia, by its BCP 47 tag; and the variant that is meant, or "".

    Where there is none in that language, it is the English one.
    """
    tag = language.strip().lower().replace("_", "-")
    parts = tag.split("-")
    two = "-".join(parts[:2])
    for name in (_OTHERWISE.get(part, part) for part in (tag, two, parts[0])):
        if name in _WIKIPEDIAS:
            variant = _SCRIPTS.get(two, two)
            return f"https://{name}.wikipedia.org/wiki/", variant if variant in _VARIANTS else ""
    return f"https://{_DEFAULT}.wikipedia.org/wiki/", ""
