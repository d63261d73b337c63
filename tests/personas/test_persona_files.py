"""Persona files as they lie on a disk: whole ones, broken ones, and what is no file at all."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pixi.core.errors import ConfigError
from pixi.core.persona import Example, Persona
from pixi.personas.files import LARGEST, LoadedPersona, load_persona, parse_persona
from tests.steps import assert_linear

WHOLE = """\
---
name: Mo
about: a mole
summon: [mo]
language: de
likes: [soil]
commands: [send]
pace: "off"
silence: no
when_broken: [dark]
---

# Mo

You are {{char}}, digging for {{user}}.

## Examples

> hi

[SEND: hi {{user}}]

## In short

You are Mo.

## Habits

Blinks.
"""


def faulty(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_persona(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text.removeprefix(str(path))


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a-mole.md"
    path.write_text(WHOLE, encoding="utf-8")
    loaded = load_persona(path)
    assert loaded.remarks == ()
    assert loaded.persona == Persona(
        name="Mo",
        prompt="# Mo\n\nYou are {{char}}, digging for {{user}}.\n\n## Habits\n\nBlinks.",
        about="a mole",
        in_short="You are Mo.",
        summon=("mo",),
        language="de",
        likes=("soil",),
        commands=("send",),
        pace="off",
        silence=False,
        when_broken=("dark",),
        examples=(Example("hi", "[SEND: hi {{user}}]"),),
        origin=str(path),
    )


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_byte_order_mark_and_foreign_line_endings_change_nothing(tmp_path: Path, ending: str) -> None:
    plain, foreign = tmp_path / "mo.md", tmp_path / "other" / "mo.md"
    foreign.parent.mkdir()
    plain.write_bytes(WHOLE.encode())
    foreign.write_bytes(b"\xef\xbb\xbf" + WHOLE.replace("\n", ending).encode())
    read, other = load_persona(plain).persona, load_persona(foreign).persona
    assert other.origin == str(foreign)
    assert (other.prompt, other.examples, other.likes) == (read.prompt, read.examples, read.likes)


@pytest.mark.parametrize(
    ("file", "name"),
    [("night-owl.md", "night owl"), ("Мурка.md", "Мурка"), ("a__b.md", "a b"), ("-.md", "persona")],
)
def test_a_file_without_front_matter_is_a_prompt_named_by_its_file(
    tmp_path: Path, file: str, name: str
) -> None:
    path = tmp_path / file
    path.write_text("You are an owl.\n\n---\n\nYou hoot.", encoding="utf-8")
    assert load_persona(path).persona == Persona(
        name=name, prompt="You are an owl.\n\n---\n\nYou hoot.", origin=str(path)
    )


def test_the_short_form_may_be_a_key() -> None:
    persona = parse_persona("---\nin_short: You are Mo.\n---\nYou dig.", Path("mo.md")).persona
    assert (persona.in_short, persona.prompt) == ("You are Mo.", "You dig.")


@pytest.mark.parametrize(
    ("text", "where", "mend"),
    [
        ("", 1, "the file is empty"),
        (" \n\n", 1, "the file is empty"),
        ("---\nname: Mo\n", 1, "the front matter never ends: close it with a second line `---`."),
        ("---\nname: Mo\n---\n\n", 4, "there is no prompt"),
        ("---\nname: Mo\n---\n## Examples\n> hi\n[SEND: a]\n", 4, "there is no prompt"),
        ("\n\n---\nname: Mo\nabuot: x\n---\nYou dig.", 5, "unknown key `abuot`: do you mean `about`?"),
        ("+++\nname = 'Mo'\n+++\nYou dig.", 1, "not TOML"),
        ("---\nin_short: a\n---\nYou dig.\n## In short\nb", 2, "`in_short` stands a second time"),
        ("You dig.\n\x1b[2J", 2, "delete the control character U+001B"),
        ("Y\x00o\x00u\x00", 1, "U+0000, or save the file as UTF-8"),
        ("You dig.\n## In short\na\n## In short\nb", 4, "`## In short` stands on line 2 already"),
    ],
)
def test_a_fault_names_file_line_and_mend(tmp_path: Path, text: str, where: int, mend: str) -> None:
    path = tmp_path / "mo.md"
    path.write_bytes(text.encode())
    said = faulty(path)
    assert said.startswith(f":{where}: ")
    assert mend in said


def test_all_faults_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("---\nnmae: x\navatar: ../b.png\npace: warp\nin_short: y\n---\n\n## In short\nz\n")
    with pytest.raises(ConfigError) as caught:
        load_persona(path)
    told = [fault.removeprefix(f"{path}:") for fault in caught.value.faults]
    assert [line.partition(":")[0] for line in told] == ["2", "3", "4", "5", "7"]
    words = ("`nmae`", "`avatar`", "`pace`", "`in_short`", "no prompt")
    assert all(word in line for word, line in zip(words, told, strict=True))


def test_what_is_no_text_file(tmp_path: Path) -> None:
    latin = tmp_path / "latin.md"
    latin.write_bytes("You are\nRené.".encode("latin-1"))
    assert faulty(latin) == ":2: this is not UTF-8; save the file as UTF-8."
    assert faulty(tmp_path) == ": this is a folder; name a file in it."
    assert faulty(tmp_path / "none.md") == ": there is no such file; check the path."
    large = tmp_path / "large.md"
    large.write_bytes(b"x" * LARGEST)
    assert len(load_persona(large).persona.prompt) == LARGEST
    large.write_bytes(b"x" * (LARGEST + 1))
    assert faulty(large) == ": this is too large for a persona (262,145 bytes); keep it under 256 KB."
    assert "cannot be read" in faulty(latin / "below")
    assert "cannot be read" in faulty(tmp_path / ("x" * 300))


def test_links_and_pipes(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.md"
    nowhere.symlink_to(tmp_path / "gone.md")
    assert faulty(nowhere) == ": the link leads nowhere; check the path."
    circle = tmp_path / "circle.md"
    circle.symlink_to(circle)
    assert "cannot be read" in faulty(circle)
    pipe = tmp_path / "pipe.md"
    os.mkfifo(pipe)
    assert faulty(pipe) == ": this is not a plain file; name a text file."


def test_a_path_that_no_system_has() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_persona(Path("a\0b.md"))


def test_unknown_placeholders_are_told_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "mo.md"
    path.write_text("---\nname: Mo\n---\nHi {{user}}, {{char}} and\n{{usr}}.\n\n## In short\n{{}} { {x} }\n")
    loaded = load_persona(path)
    assert loaded.persona.prompt == "Hi {{user}}, {{char}} and\n{{usr}}."
    assert [(remark.line, remark.text) for remark in loaded.remarks] == [
        (5, "`{{usr}}` stays as it is: only {{user}} and {{char}} are filled."),
        (8, "`{{}}` stays as it is: only {{user}} and {{char}} are filled."),
    ]


@pytest.mark.parametrize(
    ("text", "line", "mend"),
    [
        ("\nname: Mo\nabout: a dog\n---\nYou dig.", 2, "add a line `---` above this one."),
        ("----\nname: Mo\n----\nYou dig.", 1, "write exactly `---` on this line."),
        ("—\nlikes: [bones]\n---\nYou dig.", 1, "write exactly `---` on this line."),
        ("name: Mo\n\nYou dig.", 0, ""),
        ("Mood: good\n\n---\nYou dig.", 0, ""),
        ("----\n\nYou dig.\n----", 0, ""),
        ("----\n\nabout: you dig.\n\n----\nYou bark.", 0, ""),
        ("----", 0, ""),
        ("---\n---\nname: Mo", 0, ""),
    ],
)
def test_keys_without_their_first_rule_are_told(text: str, line: int, mend: str) -> None:
    remarks = parse_persona(text, Path("mo.md")).remarks
    told = f"this is no front matter, but a part of the prompt: {mend}"
    assert [(remark.line, remark.text) for remark in remarks] == ([(line, told)] if line else [])


def test_remarks_come_in_the_order_of_the_file() -> None:
    text = "{{a}}\n## Exampels\n{{b}}\n## Examples\n> hi\n[SEDN: a]\n> hi\n{{c}}\n"
    remarks = parse_persona(text, Path("mo.md")).remarks
    assert [remark.line for remark in remarks] == [1, 2, 3, 6, 8, 8]


@pytest.mark.parametrize(
    "piece",
    [
        "# ",
        "[SEND: a]\n",
        "[SEDN: b]\n",
        "a\n",
        "{{a}}",
        "[",
        "`",
        "- ",
        "> \n",
        "#" + " " * 999,
        "***\n",
        "---\n",
    ],
)
def test_a_file_of_anything_takes_as_long_as_it_is(piece: str) -> None:
    def parsing(size: int) -> Callable[[], object]:
        text = f"You dig.\n## Examples\n> hi\n[NOTE: a]\n{piece * (size // len(piece))}x"
        assert len(parse_persona(text, Path("mo.md")).remarks) <= 50
        return lambda: parse_persona(text, Path("mo.md"))

    assert_linear(parsing, 2_000)
    parsing(LARGEST // 8)  # what C does in a loop is not counted, but would take for ever


PIECES = [
    *("---\n", "name: Mo\n", "likes: [a", "## Examples\n", "## In short\n", "# \n", "***\n", "```\n", "\n"),
    *("> hi\n", ">", "[SEND: a]\n", "[SEDN: b\n", "[NOTE", "{{x}}", "You dig.\n", "\ufeff", "\x00", "\ud800"),
    "\r",
]
pieces = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=16).map("".join)


def outcome(text: str) -> LoadedPersona | str:
    """The persona, or the error's text; any other exception fails the test."""
    try:
        return parse_persona(text, Path("mo.md"))
    except ConfigError as error:
        return str(error)


@given(st.one_of(pieces, st.text()))
@example("You dig.\n## Examples\n> a\n```\n")
@example("You dig.\n## Examples\n> a\n```\n```\n")
@example("You dig.\n## Examples\n> a\n```\n\n```\n")
def test_no_text_raises_anything_but_a_config_error(text: str) -> None:
    read = outcome(text)
    if isinstance(read, str):
        assert read.startswith("mo.md:")
        assert "\n" not in read
        return
    persona = read.persona
    assert persona.prompt.strip()
    assert persona.name
    assert all(example.reply.strip() for example in persona.examples)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert all(1 <= remark.line <= lines for remark in read.remarks)
    str(persona).encode()


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.md"
    path.write_bytes(data)
    with suppress(ConfigError):
        assert load_persona(path).persona.origin == str(path)
