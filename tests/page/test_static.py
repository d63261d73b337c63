"""The sources of the pages: nothing that makes markup of text, nothing from elsewhere, little to load."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from pixi.channels.http import pages
from pixi.channels.http.pages import StaticFiles

FOLDER = Path(pages.__file__).parent / "page"
SOURCES = sorted(
    path
    for path in FOLDER.rglob("*")
    if path.suffix in {".js", ".css", ".html", ".svg"} and "vendor" not in path.parts
)
SCRIPTS = [path for path in SOURCES if path.suffix == ".js"]
STYLES = [path for path in SOURCES if path.suffix == ".css"]
NEVER = {
    "makes markup of text": r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|"
    r"createContextualFragment|DOMParser|setHTMLUnsafe|srcdoc",
    "makes a script of text": r"\beval\(|new Function|\bFunction\(|set(Timeout|Interval)\(\s*[\"'`]",
    "is a style in a text": r"\bstyle=[\"'`]|<style",
    "runs in a document": r"\son[a-z]+=[\"']|<script(?! type=\"module\" src=)",
    "loads from elsewhere": r"(?:src|href|url|from|import|fetch)\s*[=(]?\s*[\"'`(]+\s*(?:https?:)?//[\w.]",
}
PHYSICAL = re.compile(
    r"(?<![\w-])(?:(?:min-|max-)?(?:width|height)|left|right|top|bottom|"
    r"(?:margin|padding|border|scroll-margin|scroll-padding)-(?:left|right|top|bottom)(?:-\w+)?|"
    r"border-(?:top|bottom)-(?:left|right)-radius|overscroll-behavior-[xy])\s*:|"
    r"(?:text-align|float|clear)\s*:\s*(?:left|right)\b"
)
IMPORT = re.compile(r"""^(?:import|export)\b[^;]*?["'](\.[^"']+)["'];""", re.MULTILINE)
TALK, ALL_PAGES = 60_000, 120_000  # bytes, packed, with the words of one language


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


def without_comments(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE) if path.suffix == ".js" else text


@pytest.mark.parametrize("what", NEVER)
def test_no_source_holds_what_strangers_could_act_by(what: str) -> None:
    found = [
        f"{name_of(path)}: {line.strip()[:100]}"
        for path in SOURCES
        for line in without_comments(path).splitlines()
        if re.search(NEVER[what], line)
    ]
    assert found == [], what


@pytest.mark.parametrize("what", NEVER)
def test_each_of_these_is_found(what: str) -> None:
    examples = {
        "makes markup of text": "each.innerHTML = text",
        "makes a script of text": "setTimeout('hit()')",
        "is a style in a text": '<p style="color: red">',
        "runs in a document": '<p onclick="hit()">',
        "loads from elsewhere": 'import x from "https://evil.example/x.js"',
    }
    assert re.search(NEVER[what], examples[what])


def test_styles_know_no_left_and_no_right() -> None:
    found = [
        f"{name_of(path)}: {line.strip()}"
        for path in STYLES
        for line in without_comments(path).splitlines()
        if PHYSICAL.search(re.sub(r"@media[^{]*|@container[^{]*", "", line))
    ]
    assert found == []


def loaded_by(name: str) -> set[str]:
    """The modules that a module loads before it runs, and those that these load."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        path = FOLDER / ahead.pop()
        for relative in IMPORT.findall(without_comments(path)):
            imported = name_of((path.parent / relative).resolve())
            if imported not in found:
                found.add(imported)
                ahead.append(imported)
    return found


@pytest.mark.parametrize("page", ["talk/index.html", "studio/index.html"])
def test_a_document_asks_at_once_for_all_that_its_script_loads(page: str) -> None:
    text = (FOLDER / page).read_text(encoding="utf-8")
    (script,) = re.findall(r'<script type="module" src="\{\{root\}\}/([^"]+)">', text)
    ahead = re.findall(r'rel="modulepreload" href="\{\{root\}\}/([^"]+)"', text)
    assert sorted(ahead) == sorted(loaded_by(script) - {script})


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("en;q=0.5, zh-CN", "zh-CN"),
        ("pt", "pt-BR"),
        ("tlh, ja;q=0.1", "ja"),
        ("fa, *;q=0.1", "en"),
        ('de"><script>', "en"),
        ("fr;q=nan, es;q=0.2", "fr"),
        (",;q=1,,", "en"),
    ],
)
def test_a_document_asks_at_once_for_the_words_of_the_readers_language(accepted: str, language: str) -> None:
    request = make_mocked_request("GET", "/", {"Accept-Language": accepted})
    answer = StaticFiles().document(request, "talk/index.html")
    assert isinstance(answer.body, bytes)
    preloads = re.findall(r'rel="preload" as="fetch" crossorigin href="([^"]+)"', answer.body.decode())
    assert preloads == [f"{StaticFiles().root}/words/talk/{language}.json"]


def packed(*names: str) -> int:
    """Bytes of files as they are sent."""
    server = StaticFiles()
    return sum(len(server._body(name, packs=True)) for name in names)


def parts_of(page: str) -> set[str]:
    text = (FOLDER / page).read_text(encoding="utf-8")
    named = set(re.findall(r'(?:href|src)="\{\{root\}\}/([^"{]+)"', text))  # the words come beside
    scripts = {name for name in named if name.endswith(".js")}
    return {page, *named}.union(*(loaded_by(name) for name in scripts))


@pytest.mark.parametrize("language", sorted(path.stem for path in (FOLDER / "words" / "talk").iterdir()))
def test_little_is_loaded(language: str) -> None:
    talk = parts_of("talk/index.html") | {f"words/talk/{language}.json"}
    assert 20_000 < packed(*talk) <= TALK
    every = {name_of(path) for path in FOLDER.rglob("*") if path.suffix in {".js", ".css", ".html", ".svg"}}
    every |= {f"words/{face}/{language}.json" for face in ("talk", "studio", "widget")}
    assert packed(*every) <= ALL_PAGES


def test_every_class_that_has_a_style_is_used() -> None:
    texts = "\n".join(without_comments(path) for path in SOURCES if path.suffix in {".js", ".html"})
    words = set(re.findall(r"[\w-]+", texts)) | {"stamp"}  # a kind of what was said, which the server tells
    begun = tuple(set(re.findall(r"([\w]+-|hue)\$\{", texts)))
    unused = {
        f"{name_of(path)}: .{each}"
        for path in STYLES
        for each in re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", without_comments(path))
        if each not in words and not each.startswith(begun)
    }
    assert unused == set()


@pytest.mark.parametrize("face", ["talk", "studio", "widget"])
def test_every_word_is_said(face: str) -> None:
    texts = "\n".join(without_comments(path) for path in SCRIPTS)
    begun = tuple(set(re.findall(r"[\"'`]([\w.]+\.)\$\{", texts)))

    def unsaid(words: dict[str, Any], above: str = "") -> Iterator[str]:
        for key, value in words.items():
            if isinstance(value, dict) and not value.keys() & {"one", "other"}:
                yield from unsaid(value, f"{above}{key}.")
            elif not (
                f"{above}{key}".startswith(begun) or re.search(rf"[\"'`.]{re.escape(key)}[\"'`]", texts)
            ):
                yield f"{above}{key}"

    assert list(unsaid(json.loads((FOLDER / "words" / face / "en.json").read_text(encoding="utf-8")))) == []
