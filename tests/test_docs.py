"""What README.md and docs/ point at is there: links, make targets, subcommands and their flags."""

import argparse
import contextlib
import io
import re
import shlex
import tomllib

from pixi.cli.frame import SUBCOMMANDS, load
from tests.pages import PAGES, ROOT, anchors, code, links, pictures, read_page

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
TARGETS = set(re.findall(r"^([a-z]+):.*##", MAKEFILE, re.MULTILINE)) | {f"extra-{name}" for name in EXTRAS}
# Up to where the next program, a comment or the text goes on.
PROGRAM = re.compile(r"\bpixi-persona +([^&|#;)]*)")
FLAGS_OF_CHAT = re.compile(r'\bmake chat [^#]*?\bARGS=("[^"]*"|\S+)')

FIRST = [read_page(ROOT / name) for name in ("README.md", "docs/start.md", "docs/cli.md")]


def complaint(words: list[str]) -> str:
    """What the command line says against these words; "" where it takes them."""
    name, *rest = words
    if name not in SUBCOMMANDS:
        return f"there is no subcommand {name!r}"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    load(name).configure(parser)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            parser.parse_args(rest)
        except SystemExit:
            return said.getvalue()
    return ""


def commands(page: str) -> list[list[str]]:
    """The words that the page gives to `pixi-persona`, wherever it stands as code."""
    found: list[list[str]] = []
    for line in code(page):
        found += [shlex.split(match[1]) for match in PROGRAM.finditer(line)]
        for match in FLAGS_OF_CHAT.finditer(line):
            found.append(["chat", *shlex.split(match[1].strip('"'))])
    return found


def make_targets(page: str) -> set[str]:
    """The targets that the page gives to `make`, wherever it stands as code."""
    lines = "\n".join(code(page))
    return set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)?)\b", lines))


def test_every_local_link_leads_somewhere() -> None:
    for path in PAGES:
        for link in links(read_page(path)):
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.exists(), f"{path.name}: {link} leads to nothing"
            if anchor:
                headings = anchors(read_page(target))
                assert anchor in headings, f"{path.name}: {link}: there is no such heading"


def test_every_picture_is_there() -> None:
    for path in PAGES:
        for picture in pictures(read_page(path)):
            assert (path.parent / picture).is_file(), f"{path.name}: there is no {picture}"


def test_every_command_is_taken_as_it_stands() -> None:
    for path in PAGES:
        for words in commands(read_page(path)):
            assert complaint(words) == "", f"{path.name}: pixi-persona {shlex.join(words)}"


def test_every_target_of_make_is_there() -> None:
    for path in PAGES:
        assert make_targets(read_page(path)) <= TARGETS, path.name


def test_what_is_wrong_is_seen() -> None:
    block = "```\nprintf hi | pixi-persona prase  # hm\nmake chat ARGS=--jsn\n```\n"
    page = f"`pixi-persona chat --persna x`\n\n{block}"
    assert commands(page) == [["prase"], ["chat", "--jsn"], ["chat", "--persna", "x"]]
    assert all(complaint(words) for words in commands(page))
    assert links("see [a](b.md) and `[c](d.md)`\n\n```\n[e](f.md)\n```\n") == ["b.md"]
    assert anchors("# One\n\n## And `two`, three!\n") == {"one", "and-two-three"}


def test_the_commands_of_the_first_pages_are_found() -> None:
    found = {words[0] for page in FIRST for words in commands(page)}
    assert found >= {"chat", "init", "discord", "doctor"}
    targets = {target for page in FIRST for target in make_targets(page)}
    assert targets >= {"chat", "test", "demo", "bench", "docs", "pictures"}


def test_the_index_leads_to_every_page_once() -> None:
    index = ROOT / "docs" / "README.md"
    named = links(read_page(index))
    assert sorted(named) == sorted(path.name for path in index.parent.glob("*.md") if path != index)
