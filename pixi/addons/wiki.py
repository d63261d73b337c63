"""Wikis as tools: for each one that searches it, and one that reads its pages out for a question."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field

from pixi.core.errors import Reporter, ToolError, silent
from pixi.core.masking import SecretRedactor
from pixi.core.persona import Persona
from pixi.core.spending import Count, Rate
from pixi.core.untrusted import clipped, prompt_name
from pixi.documents.formats.text import BETWEEN_HEADINGS
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval import Reader
from pixi.text.terms import normalise, pieces, telling_runs, without_asking, word_list
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from pixi.toolbox.tools import EVERYBODY, NOTHING_FOUND
from pixi.web.wiki import MOST_PAGES, Wiki, WikiPage, WikiPages
from pixi.web.wiki_api import WikiError, asked_title

RESULTS = 6
"""Pages that a search gives unless more are asked for."""

_MOST_RESULTS = 20
_PAGES = 2  # read for a question that names none
_LOOKED_AT = 4  # of those that a search finds for it
_NEAREST = 3  # titles told for one that there is not
_LONGEST_QUESTION = 2_000  # characters
_LONGEST_ABOUT = 400
_OFTEN = Rate(60, 600.0)
_CONTRACTED = re.compile(r"n['’]t\b|['’](?:s|re|ve|ll|d|m)\b", re.IGNORECASE)

WikiOf = Callable[[Persona], Wiki]
"""The wiki of a persona: one without an address is Wikipedia, in the language that the persona speaks."""


def source_of(wiki: str) -> str:
    """Return the source of a wiki's tools."""
    return f"wiki:{wiki}"


def tool_names(wiki: str) -> tuple[str, str]:
    """Return what the tools of a wiki are called: the one that searches, and the one that reads."""
    safe = wiki.replace("-", "_")
    return f"search_{safe}_wiki", f"query_{safe}_wiki"


def wiki_tools(
    name: str,
    wiki_of: WikiOf,
    reader: Reader,
    mask: SecretRedactor,
    *,
    about: str,
    personas: tuple[str, ...] | None,
) -> Callable[[Addon], None]:
    """Return the `setup` that registers the two tools of a wiki.

    Args:
        name: of its section.
        wiki_of: gives it for a persona.
        reader: gives whoever reads pages out.
        mask: hides secrets in what the wiki is asked.
        about: what is to be found there, for the model.
        personas: who has the tools; None: everybody.
    """

    def setup(addon: Addon) -> None:
        async def search(
            context: Context,
            query: Annotated[str, Field(description="a few words, in the language of the wiki")],
            limit: Annotated[int, Field(description="how many pages", ge=1, le=_MOST_RESULTS)] = RESULTS,
        ) -> dict[str, Any]:
            return await search_result(wiki_of(context.persona), mask.hide(query), limit)

        async def query(
            context: Context,
            question: Annotated[str, Field(description="what you want to know, as a whole question")],
            titles: Annotated[
                list[str], Field(description=f"titles of pages, {MOST_PAGES} at most; none: the best")
            ] = [],  # noqa: B006 - pydantic copies it
        ) -> dict[str, Any]:
            wiki, titles = wiki_of(context.persona), [mask.hide(title) for title in titles]
            return await query_result(
                wiki,
                reader,
                mask.hide(question),
                titles,
                context.count,
                seconds=context.seconds_left,
                progress=context.progress,
            )

        search.__name__, query.__name__ = tool_names(name)
        search.__doc__ = (
            f"Search {clipped(about, _LONGEST_ABOUT)}\n\nGives titles, snippets and links of pages; "
            f"`{query.__name__}` then reads whole pages for you."
        )
        query.__doc__ = (
            f"Have pages of {clipped(about, _LONGEST_ABOUT)} read, and get back what they say about a "
            "question, word for word, each with the link to its place. Tell people the link."
        )
        source, whose = source_of(name), EVERYBODY if personas is None else personas
        addon.tool(source=source, personas=whose, per_person=_OFTEN)(search)
        addon.tool(source=source, personas=whose, per_person=_OFTEN, timeout=None)(query)

    return setup


async def search_result(wiki: Wiki, query: str, limit: int = RESULTS) -> dict[str, Any]:
    """Return what a model gets from a search.

    Raises:
        ToolError: there is nothing to search for, or the wiki cannot be asked.
    """
    if not query.strip():
        raise ToolError("The query is empty: give a few words.")
    try:
        site, searched = await wiki.site(), await wiki.search(query, limit)
    except WikiError as error:
        raise ToolError(str(error)) from error
    results = [
        {"title": hit.title}
        | ({"section": hit.section} if hit.section else {})
        | {"snippet": hit.snippet, "bytes": hit.bytes, "url": hit.url}
        for hit in searched.hits
    ]
    result: dict[str, Any] = {"wiki": site.name, "results": results}
    if searched.suggestion:
        result["did_you_mean"] = searched.suggestion
    return result if results else result | {"note": NOTHING_FOUND}


async def query_result(
    wiki: Wiki,
    reader: Reader,
    question: str,
    titles: Sequence[str] = (),
    count: Count | None = None,
    *,
    seconds: float | None = None,
    progress: Reporter = silent,
) -> dict[str, Any]:
    """Read pages for a question and return what a model gets; without titles, the best that a search finds.

    For `count`, `seconds` and `progress` see `RetrievalAgent.query`.

    Raises:
        ToolError: there is no question, or the wiki cannot be asked.
    """
    question = question.strip()[:_LONGEST_QUESTION]
    if not question:
        raise ToolError("The question is empty: ask a whole question.")
    titles = [title for title in dict.fromkeys(map(asked_title, titles)) if title]
    clock = asyncio.get_running_loop()
    began = clock.time()
    try:
        site = await wiki.site()
        pages = await (wiki.pages(titles) if titles else _best(wiki, question))
        missing = [await _missing(wiki, title) for title in pages.missing]
    except WikiError as error:
        raise ToolError(str(error)) from error
    result: dict[str, Any] = {"wiki": site.name}
    read = [page for page in pages.found if not page.meanings]
    if read:
        agent = await reader()
        entries = await asyncio.to_thread(lambda: [_entry(page) for page in read])
        left = None if seconds is None else max(0.0, seconds - (clock.time() - began))
        findings = await agent.query(question, entries, count, seconds=left, progress=progress)
        told = findings.to_json()
        by_id = {page.id: page for page in read}
        for fact in told["relevant"]:
            source = fact["source"]
            page = by_id[source.pop("id")]
            source["url"] = site.url_of(page.title, source.get("section", "").split(BETWEEN_HEADINGS)[-1])
        result |= {"read": [page.title for page in read]} | told
    else:
        result["relevant"] = []
    return result | _told_besides(pages, missing, titles)


def _told_besides(pages: WikiPages, missing: list[dict[str, Any]], titles: Sequence[str]) -> dict[str, Any]:
    """Return what a model must know of the titles that it named, or of the pages that were found."""
    told: dict[str, Any] = {}
    if pages.led:
        told["redirects"] = dict(pages.led)
    meanings = [
        {"title": page.title, "may_mean": list(page.meanings)} for page in pages.found if page.meanings
    ]
    if meanings:
        told["ambiguous"] = meanings
        told["ask_again"] = "Choose of `may_mean` what fits, and ask again with that title."
    if missing:
        told["missing"] = missing
    if len(titles) > MOST_PAGES:
        told["not_read"] = list(titles[MOST_PAGES:])
    if not pages.found and not missing:
        told["note"] = NOTHING_FOUND
    return told


async def _missing(wiki: Wiki, title: str) -> dict[str, Any]:
    """Return a title of which there is no page, and those that are like it."""
    near = [hit.title for hit in (await wiki.search(title, _NEAREST)).hits]
    return {"title": prompt_name(title)} | ({"nearest": near} if near else {})


async def _best(wiki: Wiki, question: str) -> WikiPages:
    """Return the pages that a search finds for a question; one that tells what a word may mean is no answer.

    Most wikis look for pages that hold every word: what only asks is left out, then all but names and
    numbers.
    """
    for query in await asyncio.to_thread(lambda: tuple(dict.fromkeys(_queries(question)))):
        pages = await wiki.best(query, _LOOKED_AT)
        if pages.found:
            chosen = [page for page in pages.found if not page.meanings] or list(pages.found)
            return WikiPages(tuple(chosen[:_PAGES]))
    return WikiPages()


def _queries(question: str) -> Iterator[str]:
    """Yield what to search for, the nearest to the question first."""
    plain = _CONTRACTED.sub("", question)
    telling: list[str] = []
    names: list[str] = []
    end = 0
    for kind, piece, start in pieces(plain):
        if kind != "word":
            telling += telling_runs(without_asking(piece))
        elif normalise(piece) not in word_list("function_words"):
            telling.append(piece)
            begins = not plain[:end].strip() or any(mark in plain[end:start] for mark in ".!?:")
            if piece.isdigit() or (piece[0].isupper() and not begins):
                names.append(piece)
        end = start + len(piece)
    yield from filter(None, (" ".join(telling), " ".join(names), question))


def _entry(page: WikiPage) -> Entry:
    texts = [page.title, *(f"{section.heading}\0{section.text}" for section in page.sections)]
    digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).hexdigest()
    return Entry(page.id, page.url, "", page.title, page.sections, digest)
