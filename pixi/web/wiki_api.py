"""The API of wikis that run MediaWiki: asked politely, and its answers read."""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from msgspec import Struct

from pixi.core.errors import PixiError
from pixi.core.untrusted import clipped, prompt_name
from pixi.fetching.guard import Fetched, WebError, same_origin
from pixi.fetching.web import Web

_CHECKS = (
    (
        "Cloudflare",
        re.compile(rb"just a moment\.\.\.|challenge-platform|cf[_-]chl|cf-error|\| cloudflare", re.I),
    ),
    ("Anubis", re.compile(rb"/\.within\.website/|making sure you(?:'|&#39;)?re not a bot", re.I)),
    ("its hoster", re.compile(rb"captcha|verify(?:ing)? (?:that )?you are (?:a )?human|incapsula", re.I)),
)
_TITLE = re.compile(rb"<title\b[^<>]{0,200}>([^<]{1,300})", re.I)
_LOOKED_AT = 65_536  # bytes of a page; what stands in the way says so early
_LONGEST_SHOWN_TITLE = 80
Json = dict[str, Any]
_AT_ONCE = 2  # requests to one wiki
_LAG = 5  # seconds that its databases may be behind: whoever asks leaves a busier wiki alone
_LONGEST_WAIT = 4.0  # seconds, for a wiki that wants to rest; for more, nobody in a chat waits
_LONGEST_REST = 600.0
_SECONDS = 10.0  # for one request
_MOST_BYTES = 12_000_000
_LOOK_AGAIN_SECONDS = 30.0  # where no api was found
_LONGEST_INFO = 200  # characters of what a wiki says
_LINK = re.compile(rb"<link\b[^<>]{0,500}\brel=[\"']?EditURI\b[^<>]{0,500}>", re.I)
_HREF = re.compile(rb"\bhref=[\"']?([^\"'\s>]{1,1000})", re.I)
_NOT_HERE = frozenset({"404", "page"})  # codes where there is no api, but may be one elsewhere
_NEEDS_LOGIN = frozenset({"readapidenied", "permissiondenied", "mustbeloggedin", "notloggedin"})
_OFF = b"API is not enabled"
Fields = Mapping[str, str | int]
"""Fields of a request."""
_LONGEST_TITLE = 255
_LONGEST_SNIPPET = 300
_TAG = re.compile(r"<[^<>]{0,200}>")
_LEADS = ("normalized", "converted", "redirects")  # ways from a title to another, in this order


def is_page(body: bytes) -> bool:
    """Return True if it is a web page, whatever was asked for."""
    return body[:500].lstrip().startswith(b"<")


def check_in(body: bytes) -> str:
    """Return who asks whoever comes to prove that they are a person; "": nobody does."""
    if not is_page(body):
        return ""
    start = body[:_LOOKED_AT]
    return next((name for name, pattern in _CHECKS if pattern.search(start)), "")


def page_instead(answer: Fetched) -> str:
    """Return what a web page says that came in place of data, to be read behind its host's name."""
    check = check_in(answer.body)
    if check:
        return _checked_by(check)
    found = _TITLE.search(answer.body[:_LOOKED_AT])
    title = prompt_name(unescape(found[1].decode("utf-8", "replace"))) if found else ""
    said = f' ("{clipped(title, _LONGEST_SHOWN_TITLE)}")' if title else ""
    return f"answers with a web page{said} where a program should get data"


def _checked_by(check: str) -> str:
    return f"lets in only who passes a check that needs a browser ({check}), which no program does"


class WikiError(PixiError):
    """A wiki could not be asked. The text names it and says why, for a model and an operator alike.

    Attributes:
        code: as the wiki calls it; "" where it did not come to that.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class Site(Struct, frozen=True):
    """A wiki's description of itself.

    Attributes:
        api: the address of its api.php.
        name: of the wiki; a stranger's word.
        pages: where its pages are, with `$1` for the title.
    """

    api: str
    name: str
    pages: str

    def url_of(self, title: str, section: str = "") -> str:
        """Return where a page is read, or a section of it."""
        place = self.pages.replace("$1", quote(title.replace(" ", "_"), safe="/:,()!*'~@"))
        return f"{place}#{quote(section.replace(' ', '_'), safe='/:,()!*~@')}" if section else place


class WikiApi:
    """Asks one wiki.

    Args:
        web: fetches.
        url: of any of its pages, or of its api.php.
        trusted: the operator wrote that address, so its host may be in the private network.
    """

    def __init__(self, web: Web, url: str, *, trusted: bool) -> None:
        self._web = web
        self._url = url if urlsplit(url).path else f"{url}/"
        self._host = urlsplit(url).netloc.rpartition("@")[2]
        self._trusted = trusted
        self._site: Site | None = None
        self._failure: tuple[float, WikiError] | None = None
        self._finding = asyncio.Lock()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._rests_until = 0.0

    async def site(self) -> Site:
        """Return the site at the address; it is looked for once.

        Raises:
            WikiError: no wiki that can be asked.
        """
        async with self._finding:
            if self._site is not None:
                return self._site
            if self._failure and time.monotonic() - self._failure[0] < _LOOK_AGAIN_SECONDS:
                raise WikiError(str(self._failure[1]), self._failure[1].code)
            try:
                self._site = await self._found()
            except WikiError as error:
                self._failure = (time.monotonic(), error)
                raise
            return self._site

    async def ask(self, parameters: Mapping[str, str | int]) -> Json:
        """Return what the api answers.

        Raises:
            WikiError: it did not, or it told an error.
        """
        return await self._asked((await self.site()).api, parameters)

    # Finding it.

    async def _found(self) -> Site:
        """Return the first api that answers."""
        if urlsplit(self._url).path.endswith("/api.php"):
            return await self._introduced(self._url.partition("?")[0])
        named, why = await self._named()
        for api in dict.fromkeys((*named, *_guesses(self._url))):
            try:
                return await self._introduced(api)
            except WikiError as error:
                elsewhere = api in named and not same_origin(api, self._url)
                if error.code not in _NOT_HERE and not elsewhere:
                    raise
                if api in named:
                    why = why or error
        raise why or WikiError(
            f"{self._host} is no MediaWiki, or hides its api.php; "
            "give the address of a page of the wiki, or that of its api.php.",
            "page",
        )

    async def _named(self) -> tuple[tuple[str, ...], WikiError | None]:
        """Return the address that the page itself tells, and what stood in the way of reading that."""
        try:
            page = await self._fetched(self._url, "text/html")
        except WikiError as error:
            if error.code not in _NOT_HERE:
                raise
            return (), None if error.code == "404" else error
        link = _LINK.search(page.body)
        href = _HREF.search(link[0]) if link else None
        if href is not None:
            told = unescape(href[1].decode("utf-8", "replace"))
            return (urljoin(page.url, told).partition("?")[0],), None
        check = check_in(page.body)
        return (), WikiError(f"{self._host} {page_instead(page)}.", "page") if check else None

    async def _introduced(self, api: str) -> Site:
        """Return the wiki that answers at this address."""
        told = await self._asked(api, {"action": "query", "meta": "siteinfo", "siprop": "general"})
        query = told.get("query")
        general = query.get("general", {}) if isinstance(query, dict) else {}
        if not str(general.get("generator", "")).startswith("MediaWiki"):
            raise WikiError(f"{self._host} is no MediaWiki; give the address of a page of one.", "page")
        server = urljoin(api, str(general.get("server") or "/"))
        pages = urljoin(server, str(general.get("articlepath") or "/index.php?title=$1"))
        if not pages.startswith(("http://", "https://")):
            pages = urljoin(api, "index.php?title=$1")
        return Site(api, prompt_name(str(general.get("sitename", ""))) or self._host, pages)

    # Asking it.

    async def _asked(self, api: str, parameters: Mapping[str, str | int]) -> Json:
        fields = {**parameters, "format": "json", "formatversion": 2, "maxlag": _LAG}
        url = f"{api}?{urlencode(fields)}"
        async with self._room:
            try:
                return await self._answer(url)
            except _Resting as error:
                if error.seconds > _LONGEST_WAIT:
                    raise
            return await self._answer(url)

    async def _answer(self, url: str) -> Json:
        """Ask, once the wiki is rested."""
        await self._rested()
        try:
            answer = await self._fetched(url, "application/json")
            told = await self._read(answer)
            if isinstance(error := told.get("error"), dict):
                raise self._refused(error, answer)
        except _Resting as resting:
            self._rests_until = time.monotonic() + resting.seconds
            raise
        return told

    async def _fetched(self, url: str, accept: str) -> Fetched:
        try:
            return await self._web.get(
                url,
                trusted=self._trusted and same_origin(url, self._url),
                accept=accept,
                most_bytes=_MOST_BYTES,
                seconds=_SECONDS,
            )
        except WebError as error:
            rest = f" for {error.retry_after:.0f} s" if error.retry_after else ""
            match error.status:
                case 0:
                    raise WikiError(str(error), "unreachable") from None
                case _ if check := check_in(error.body):
                    raise WikiError(f"{self._host} {_checked_by(check)}.", "page") from None
                case 403:
                    raise WikiError(f"{self._host} refuses programs like this one (403).", "page") from None
                case 404 | 410:
                    raise WikiError(str(error), "404") from None
                case 429 | 503:
                    text = f"{self._host} wants to rest{rest} ({error.status}); ask again later."
                    raise _Resting(text, error.retry_after or 1.0) from None
                case _:
                    raise WikiError(str(error), "page") from None

    async def _read(self, answer: Fetched) -> Json:
        try:
            large = len(answer.body) > 500_000
            told = await asyncio.to_thread(json.loads, answer.body) if large else json.loads(answer.body)
        except (ValueError, RecursionError):
            if _OFF in answer.body:
                raise WikiError(f"{self._host} has its API switched off.", "apidisabled") from None
            if is_page(answer.body):
                raise WikiError(f"{self._host} {page_instead(answer)}.", "page") from None
            raise WikiError(f"{self._host} answers with something that is no JSON.", "page") from None
        if not isinstance(told, dict):
            raise WikiError(f"{self._host} answers with something that is not from a MediaWiki.", "page")
        return told

    async def _rested(self) -> None:
        """Leave the wiki alone as long as it wants that.

        Raises:
            WikiError: it wants it for too long.
        """
        left = self._rests_until - time.monotonic()
        if left > _LONGEST_WAIT:
            raise WikiError(f"{self._host} wants to rest for another {left:.0f} s; ask again then.", "rests")
        if left > 0:
            await asyncio.sleep(left)

    def _refused(self, error: Json, answer: Fetched) -> WikiError:
        code = prompt_name(str(error.get("code", "")))
        lag = error.get("lag")
        rest = answer.retry_after or (float(lag) if isinstance(lag, int | float) else 1.0)
        match code:
            case "maxlag":
                return _Resting(f"{self._host} is too busy just now; ask again in a minute.", rest)
            case "ratelimited":
                return _Resting(f"{self._host} was asked too often; ask again in a minute.", rest)
            case _ if code in _NEEDS_LOGIN:
                said = "can be read only by those who are logged in there, which Pixi cannot be."
                return WikiError(f"{self._host} {said}", code)
        said = clipped(prompt_name(str(error.get("info") or code), 2 * _LONGEST_INFO), _LONGEST_INFO)
        return WikiError(f"{self._host} says: {said}", code or "unknown")


class _Resting(WikiError):
    """The wiki wants to be left alone for some seconds."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text, "rests")
        self.seconds = min(max(seconds, 0.0), _LONGEST_REST)


def _guesses(url: str) -> Iterator[str]:
    """Yield where an api.php may be, seen from a page: the likeliest first."""
    root = urljoin(url, "/")
    path = urlsplit(url).path
    for mark in ("/index.php", "/wiki/", "/w/"):
        before, found, _ = path.partition(mark)
        if found and before:
            yield urljoin(root, f"{before}/api.php")
            yield urljoin(root, f"{before}/w/api.php")
    for folder in ("w/", "", "wiki/", "mediawiki/"):
        yield f"{root}{folder}api.php"


class WikiHit(Struct, frozen=True):
    """A page that a search found. All but `bytes` and `url` are strangers' words."""

    title: str
    url: str
    snippet: str
    section: str = ""
    bytes: int = 0


class WikiHits(Struct, frozen=True):
    """Results of a search. `suggestion`: what was probably meant, where the wiki says so."""

    hits: tuple[WikiHit, ...]
    suggestion: str = ""


class WikiPageInfo(Struct, frozen=True):
    """A wiki's description of a page before it is read."""

    id: int
    title: str
    revision: int
    bytes: int
    lists_meanings: bool


def asked_title(text: str) -> str:
    """Return a title as it may be asked for: no mark that would make two of it."""
    return " ".join(text.replace("|", " ").replace("_", " ").partition("#")[0].split())[:_LONGEST_TITLE]


def leads_in(told: Json) -> dict[str, str]:
    """Return the title to which each leads that stands for another: written otherwise, or a redirect."""
    return {
        str(each.get("from")): str(each.get("to")) for kind in _LEADS for each in objects_in(told.get(kind))
    }


def end_of(title: str, led: Mapping[str, str]) -> str:
    """Return where a title leads in the end."""
    for _ in range(len(led)):
        if title not in led:
            break
        title = led[title]
    return title


def known_pages(told: Json) -> list[WikiPageInfo]:
    """Return the pages that there are, those of a search in its order."""
    pages = sorted(objects_in(told.get("pages")), key=lambda page: _number(page.get("index")))
    return [
        WikiPageInfo(
            _number(page["pageid"]),
            str(page.get("title", "")),
            _number(page.get("lastrevid")),
            _number(page.get("length")),
            "disambiguation" in part_of(page, "pageprops"),
        )
        for page in pages
        if _number(page.get("pageid")) > 0
    ]


def hit_from(told: Json, site: Site) -> WikiHit:
    """Return one result of a search."""
    title = str(told.get("title", ""))
    section = _plain(str(told.get("sectiontitle", "")))
    snippet = clipped(_plain(str(told.get("snippet", ""))), _LONGEST_SNIPPET)
    return WikiHit(title, site.url_of(title, section), snippet, section, _number(told.get("size")))


def _plain(html: str) -> str:
    """Return a snippet without its tags."""
    return " ".join(unescape(_TAG.sub("", html)).split())


def content_of(page: Json) -> str:
    """Return the wikitext of a page, in the forms of newer and older wikis."""
    revision = next(iter(objects_in(page.get("revisions"))), {})
    slot = part_of(revision, "slots").get("main", revision)
    return str(slot.get("content", slot.get("*", "")))


def further_from(told: Json) -> Fields:
    """Return the fields that ask for the rest of an answer; empty: it is whole."""
    further = told.get("continue")
    return {k: v for k, v in further.items() if isinstance(v, str | int)} if isinstance(further, dict) else {}


def join(whole: Json, more: Json) -> None:
    """Put what came later to its pages. A page is there once, with all that is told of it."""
    pages = [page for told in (whole, more) for page in objects_in(part_of(told, "query").get("pages"))]
    known: dict[object, Json] = {}
    for page in pages:
        known.setdefault(page.get("pageid", page.get("title")), page).update(page)
    whole.setdefault("query", {})["pages"] = list(known.values())


def suggestion_in(told: Json) -> str:
    """Return what was probably meant; "" where the wiki does not say."""
    return prompt_name(_plain(str(part_of(told, "searchinfo").get("suggestion", ""))))


def objects_in(value: object) -> list[Json]:
    """Return the objects of a list; older wikis give a mapping of them."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in values if isinstance(each, dict)]


def part_of(told: Json, name: str) -> Json:
    """Return an object in another; older wikis give an empty list for one that is empty."""
    part = told.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
