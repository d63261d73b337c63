"""A MediaWiki as far as it is read: search, pages in three forms, redirects, walls; over real sockets.

    async with ScriptedWiki({"Creeper": Article("<p>It hisses.</p>")}) as wiki:
        ...ask the wiki of which wiki.url is a page...
        assert wiki.asked[0]["action"] == "query"

What it answers has the form that api.php gives with `formatversion=2`. `stands_in_the_way` answers instead
of it, where it gives something: a wall.
"""

import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, Seen, answer

Asked = dict[str, str]

_TAGS = re.compile(r"<[^>]*>")
_HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Article:
    """A page of the wiki.

    Attributes:
        html: what its parser makes of it.
        wikitext: as its authors wrote it; "": the html without its tags.
        revision: of its text.
        redirect: the title that it leads to; then it is nothing else.
        ambiguous: it tells what a word may mean.
        length: bytes of its wikitext; None: as many as there are.
    """

    html: str = ""
    wikitext: str = ""
    revision: int = 1
    redirect: str = ""
    ambiguous: bool = False
    length: int | None = None

    @property
    def source(self) -> str:
        """Its wikitext."""
        return self.wikitext or _TAGS.sub(" ", self.html)


def challenge() -> Reply:
    """What a Cloudflare check shows to a program."""
    page = "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>_cf_chl_opt</body></html>"
    return answer(403, page, _HTML, cf_mitigated="challenge")


def web_page(title: str = "Welcome", status: int = 200, body: str = "") -> Reply:
    """A web page that is no wiki's."""
    return answer(status, f"<!doctype html><html><title>{title}</title><body>{body}</body></html>", _HTML)


def refusal(code: str, info: str, **more: Any) -> Reply:
    """An error of the api, which comes with status 200."""
    return answer(200, {"error": {"code": code, "info": info, **more}, "servedby": "mw1"})


def lagged(seconds: float) -> Reply:
    """What a wiki answers whose databases are behind."""
    fields = {"code": "maxlag", "info": f"Waiting for db1: {seconds} seconds lagged.", "lag": seconds}
    return answer(
        200, {"error": fields}, retry_after=str(max(1, round(seconds))), x_database_lag=str(seconds)
    )


@dataclass
class ScriptedWiki:
    """The server: an async context manager.

    Attributes:
        articles: by title.
        name: of the wiki.
        script: the path under which its api.php is.
        pages: the path of its pages, with `$1` for the title.
        tells_api: whether its pages say where the api is.
        modules: those that its api has.
        at_once: hits of a search that it gives in one answer.
        meanings_told: whether it says of a page that it tells what a word may mean.
        stands_in_the_way: answers instead, where it gives something.
        host: what it calls itself; "": by its address.
        tls: with what it speaks TLS; None: it does not.
        asked: the parameters of each request to the api.
        requests: all that came.
    """

    articles: dict[str, Article] = field(default_factory=dict)
    name: str = "Blocks Wiki"
    script: str = "/w"
    pages: str = "/wiki/$1"
    tells_api: bool = True
    modules: frozenset[str] = frozenset({"parse", "extracts"})
    at_once: int = 50
    meanings_told: bool = True
    stands_in_the_way: Callable[[Seen], Reply | None] = lambda _: None
    tls: ssl.SSLContext | None = None
    host: str = ""
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = ScriptedOpenAI(choose=self._choose, tls=self.tls)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    @property
    def root(self) -> str:
        """Its address, without a path."""
        return self._server.base_url.removesuffix("/v1")

    @property
    def url(self) -> str:
        """Of one of its pages."""
        return self.root + self.pages.replace("$1", "Main_Page")

    @property
    def requests(self) -> list[Seen]:
        """All that came."""
        return self._server.requests

    def _choose(self, seen: Seen) -> Reply:
        path = urlsplit(seen.path).path
        is_api = path == f"{self.script}/api.php"
        if is_api:
            self.asked.append(dict(parse_qsl(urlsplit(seen.path).query, keep_blank_values=True)))
        wall = self.stands_in_the_way(seen)
        if wall is not None:
            return wall
        if is_api:
            return answer(200, json.dumps(self._api(self.asked[-1]), ensure_ascii=False))
        before, _, after = self.pages.partition("$1")
        if unquote(path).startswith(before) and unquote(path).endswith(after):
            return self._page()
        return web_page("Not Found", 404)

    def _page(self) -> Reply:
        link = ""
        if self.tells_api:
            host = (self.host or self.root).partition(":")[2]
            api = escape(f"{host}{self.script}/api.php?action=rsd")
            link = f'<link rel="EditURI" type="application/rsd+xml" href="{api}">'
        return answer(200, f"<!DOCTYPE html><html><head>{link}<title>Main Page</title></head></html>", _HTML)

    def _api(self, asked: Asked) -> Json:
        match asked.get("action"):
            case "parse" if "parse" in self.modules:
                return self._parse(int(asked["pageid"]))
            case "query":
                return {"batchcomplete": True} | self._query(asked)
            case action:
                info = f'Unrecognized value for parameter "action": {action}.'
                return {"error": {"code": "badvalue", "info": info}}

    def _query(self, asked: Asked) -> Json:
        if asked.get("meta") == "siteinfo":
            general = {
                "mainpage": "Main Page",
                "sitename": self.name,
                "generator": "MediaWiki 1.43.1",
                "server": self.host or self.root,
                "articlepath": self.pages,
                "lang": "en",
            }
            return {"query": {"general": general}}
        if asked.get("list") == "search":
            return self._search(asked)
        if asked.get("generator") == "search":
            return {"query": {"pages": [self._info(t) | {"index": at} for at, t in self._generated(asked)]}}
        if "pageids" in asked:
            return {"query": {"pages": [self._content(int(asked["pageids"]), asked["prop"])]}}
        return self._titled(asked["titles"].split("|"))

    def _titled(self, titles: list[str]) -> Json:
        query: Json = {}
        pages = []
        for title in titles:
            upper = title[:1].upper() + title[1:]
            if upper != title:
                leads = {"fromencoded": False, "from": title, "to": upper}
                query.setdefault("normalized", []).append(leads)
            known = self.articles.get(upper)
            if known is not None and known.redirect:
                query.setdefault("redirects", []).append({"from": upper, "to": known.redirect})
                upper = known.redirect
            pages.append(self._info(upper))
        return {"query": {**query, "pages": pages}}

    def _info(self, title: str) -> Json:
        if title not in self.articles:
            return {"ns": 0, "title": title, "missing": True}
        article = self.articles[title]
        length = len(article.source.encode()) if article.length is None else article.length
        told = {"pageid": self._id(title), "ns": 0, "title": title, "contentmodel": "wikitext"}
        told |= {"lastrevid": article.revision, "length": length}
        if article.ambiguous and self.meanings_told:
            told["pageprops"] = {"disambiguation": ""}
        return told

    def _found(self, query: str) -> list[str]:
        """Titles of the pages that hold every word, as the search that comes with MediaWiki has it."""
        words = re.findall(r"\w+", query.casefold())
        return [
            title
            for title, article in self.articles.items()
            if not article.redirect and all(word in f"{title} {article.source}".casefold() for word in words)
        ]

    def _generated(self, asked: Asked) -> list[tuple[int, str]]:
        return list(enumerate(self._found(asked["gsrsearch"])[: int(asked["gsrlimit"])], 1))

    def _search(self, asked: Asked) -> Json:
        found = self._found(asked["srsearch"])
        start = int(asked.get("sroffset", "0"))
        end = start + min(int(asked["srlimit"]), self.at_once)
        told: Json = {"query": {"searchinfo": {}, "search": [self._hit(t) for t in found[start:end]]}}
        if not found:
            told["query"]["searchinfo"]["suggestion"] = "creeper"
        if end < len(found):
            told["continue"] = {"sroffset": end, "continue": "-||"}
        return told

    def _hit(self, title: str) -> Json:
        article = self.articles[title]
        first, *rest = " ".join(article.source.split()).split(" ")
        snippet = f'<span class="searchmatch">{escape(first)}</span> {escape(" ".join(rest))}'
        size = len(article.source.encode())
        return {"ns": 0, "title": title, "pageid": self._id(title), "size": size, "snippet": snippet}

    def _parse(self, page: int) -> Json:
        title, article = self._by_id(page)
        text = f'<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">{article.html}</div>'
        return {"parse": {"title": title, "pageid": page, "text": text}}

    def _content(self, page: int, prop: str) -> Json:
        title, article = self._by_id(page)
        told: Json = {"pageid": page, "ns": 0, "title": title}
        if prop == "extracts" and "extracts" in self.modules:
            told["extract"] = _TAGS.sub("", re.sub(r"<h2>(.*?)</h2>", r"\n\n== \1 ==\n", article.html))
        if prop == "revisions":
            main = {"contentmodel": "wikitext", "contentformat": "text/x-wiki", "content": article.source}
            told["revisions"] = [{"slots": {"main": main}}]
        return told

    def _id(self, title: str) -> int:
        return 100 + list(self.articles).index(title)

    def _by_id(self, page: int) -> tuple[str, Article]:
        return list(self.articles.items())[page - 100]


def settings_of(wikis: Mapping[str, str]) -> str:
    """The sections of some wikis, by their names and addresses."""
    return "\n".join(f'[wiki.{name}]\nurl = "{url}"\n' for name, url in wikis.items())
