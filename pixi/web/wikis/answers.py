"""What a wiki's api answers, taken apart: pages, hits of a search, and how an answer goes on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape

from pixi.core.untrusted import clipped, prompt_name
from pixi.web.wikis.api import Json, Site

Fields = Mapping[str, str | int]
"""What is asked for."""

_LONGEST_TITLE = 255
_LONGEST_SNIPPET = 300
_TAG = re.compile(r"<[^<>]{0,200}>")
_LEADS = ("normalized", "converted", "redirects")  # how a title may lead to another, in this order


@dataclass(frozen=True, slots=True)
class WikiHit:
    """A page that a search found. All but `bytes` and `url` are strangers' words."""

    title: str
    url: str
    snippet: str
    section: str = ""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class WikiHits:
    """What a search came to. `suggestion`: what was probably meant, where the wiki says so."""

    hits: tuple[WikiHit, ...]
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class WikiPageInfo:
    """What a wiki says of a page before it is read."""

    id: int
    title: str
    revision: int
    bytes: int
    lists_meanings: bool


def asked_title(text: str) -> str:
    """A title as it may be asked for: no mark that would make two of it."""
    return " ".join(text.replace("|", " ").replace("_", " ").partition("#")[0].split())[:_LONGEST_TITLE]


def leads_in(told: Json) -> dict[str, str]:
    """To which title each leads that stands for another: written otherwise, or a redirect."""
    return {
        str(each.get("from")): str(each.get("to")) for kind in _LEADS for each in objects_in(told.get(kind))
    }


def end_of(title: str, led: Mapping[str, str]) -> str:
    """Where a title leads in the end."""
    for _ in range(len(led)):
        if title not in led:
            break
        title = led[title]
    return title


def known_pages(told: Json) -> list[WikiPageInfo]:
    """The pages that there are, those of a search in its order."""
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
    """One result of a search."""
    title = str(told.get("title", ""))
    section = _plain(str(told.get("sectiontitle", "")))
    snippet = clipped(_plain(str(told.get("snippet", ""))), _LONGEST_SNIPPET)
    return WikiHit(title, site.url_of(title, section), snippet, section, _number(told.get("size")))


def _plain(html: str) -> str:
    """A snippet without its tags."""
    return " ".join(unescape(_TAG.sub("", html)).split())


def content_of(page: Json) -> str:
    """The wikitext of a page, in the forms of newer and older wikis."""
    revision = next(iter(objects_in(page.get("revisions"))), {})
    slot = part_of(revision, "slots").get("main", revision)
    return str(slot.get("content", slot.get("*", "")))


def further_from(told: Json) -> Fields:
    """With what to ask for the rest of an answer; empty: it is whole."""
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
    """What was probably meant; "" where the wiki does not say."""
    return prompt_name(_plain(str(part_of(told, "searchinfo").get("suggestion", ""))))


def objects_in(value: object) -> list[Json]:
    """The objects of a list; older wikis give a mapping of them."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in values if isinstance(each, dict)]


def part_of(told: Json, name: str) -> Json:
    """An object in another; older wikis give an empty list for one that is empty."""
    part = told.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
