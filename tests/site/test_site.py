"""The site of the docs: every link and picture leads somewhere, and nothing is asked of another host."""

import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.pages import PAGES, anchors, links, read_page
from tests.site.staging import stage


class Page(HTMLParser):
    """What a page of the site names: ids, links for people, and files that a browser loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given.get("href", ""))
        self.loaded += [given[name] for name in ("src", "srcset") if name in given]


def test_the_copy_has_each_page_with_links_that_lead_into_it(tmp_path: Path) -> None:
    config = stage(tmp_path / "docs").read_text(encoding="utf-8")
    pages = tmp_path / "docs" / "pages"
    written = {path.name for path in pages.glob("*.md")}
    named = {path.name for path in PAGES if path.name != "README.md"}
    assert written == named | {"index.md", "benchmarks.md", "changelog.md", "contributing.md"}
    assert all(f'"{name}"' in config for name in written)  # each stands in the order
    for name in written:
        for link in links(read_page(pages / name)):
            file, _, anchor = link.partition("#")
            if ":" not in link:
                assert (pages / (file or name)).is_file(), f"{name}: {link}"
                assert not anchor or anchor in anchors(read_page(pages / (file or name))), f"{name}: {link}"


@pytest.mark.nightly
def test_every_link_of_the_site_leads_somewhere_and_nothing_comes_from_elsewhere(
    tmp_path: Path,
) -> None:
    pytest.importorskip("zensical", reason="zensical builds the site; it is in the group dev")
    from tests.site.__main__ import build

    site = build(tmp_path / "docs")
    pages = {path.name: Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    assert len(pages) >= len(PAGES)
    lost: defaultdict[str, list[str]] = defaultdict(list)
    for name, page in pages.items():
        lost[name] += [each for each in page.loaded if urlsplit(each).netloc]
        for address in (*page.links, *(each for each in page.loaded if not urlsplit(each).netloc)):
            split = urlsplit(address)
            if split.scheme or split.netloc:
                continue
            target = unquote(split.path).lstrip("/") or name
            known = pages.get(target)
            if not (site / target).exists() or (known and split.fragment and split.fragment not in known.ids):
                lost[name].append(address)
    assert not {name: addresses for name, addresses in lost.items() if addresses}
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(?:https?:)?//", styles)
