"""The guide to the command language: each of its examples is read by the parser, or said by an engine."""

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass, fields
from importlib.metadata import packages_distributions
from typing import assert_never

import pytest

from pixi import Engine, Limits, Persona
from pixi.core.language import (
    BUILT_IN,
    CommandEnded,
    CommandStarted,
    CommandStream,
    CommandText,
    Event,
    Prose,
    Thought,
    ToolCallEnded,
)
from pixi.core.llm import AssistantLine, UserLine
from pixi.core.reading import ProsePolicy
from pixi.settings import ReplySettings
from pixi.testing import RecordingChannel, ScriptedModel
from tests.conformance.reading import merged, pieces_at, read
from tests.pages import ROOT, blocks, read_page, section
from tests.rows import row

GUIDE = read_page(ROOT / "docs" / "commands.md")
NAMES = {**BUILT_IN, "wave": ()}
POLICIES: tuple[ProsePolicy, ...] = ("auto", "send", "drop")


@dataclass(frozen=True, slots=True)
class Example:
    """A raw reply, and what the guide says is read in it, as the guide writes that."""

    reply: str
    shown: tuple[str, ...]


def examples(text: str) -> list[Example]:
    """Those of a page: lines of a reply, with an arrow before each thing that is read in it.

    An example ends where a new reply begins behind an arrow, or with its block.
    """
    found: list[Example] = []
    for block in blocks(text, "reply"):
        lines: list[str] = []
        shown: list[str] = []
        for line in block.text.splitlines():
            reply, *events = line.split("→")
            if (reply.strip() or not events) and shown:
                found.append(Example("\n".join(lines), tuple(shown)))
                lines, shown = [], []
            if reply.strip() or not events:
                lines.append(reply.rstrip())
            shown += [event.strip() for event in events]
        assert shown, f"an example without an arrow: {lines}"
        found.append(Example("\n".join(lines), tuple(shown)))
    return found


EXAMPLES = examples(GUIDE)
UNDOUBTED = [
    example.reply
    for example in EXAMPLES
    if re.fullmatch(r"\[[A-Z]+: [^][`:=]+\]", example.reply) and not example.shown[0].startswith("prose")
]


def as_shown(event: Event) -> str:
    match event:
        case Prose(text) | Thought(text):
            return f"{type(event).__name__.lower()}: {text.strip()}" if text.strip() else ""
        case CommandEnded(name, argument, complete, target):
            shown = f"{name} to #{target}" if target else name
            return (f"{shown}: {argument}" if argument else shown) + ("" if complete else " (cut off)")
        case ToolCallEnded(name, payload):
            return f"tool {name}: {payload}" if payload else f"tool {name}"
        case CommandStarted() | CommandText():
            return ""
        case _:
            assert_never(event)


def shown(pieces: list[str]) -> tuple[str, ...]:
    reading = read(pieces, NAMES, people=["Mo"])
    rows = [as_shown(event).replace("\n", "⏎") for event in merged(reading.events)]
    return tuple(row for row in (*rows, "end" if reading.ended else "") if row) or ("nothing",)


def test_each_example_is_read_as_it_says_however_it_is_cut() -> None:
    for example in EXAMPLES:
        reply = example.reply
        with row(reply):
            assert shown([reply]) == example.shown
            assert shown(list(reply)) == example.shown
            for cut in range(1, len(reply)):
                assert shown(pieces_at(reply, [cut])) == example.shown


def test_every_arrow_of_the_page_is_an_examples() -> None:
    assert sum(len(example.shown) for example in EXAMPLES) == GUIDE.count("→") > 80


def test_the_commands_and_their_other_names_are_all_of_them() -> None:
    rows = re.findall(r"^\| `\[([A-Z]+): .*?\]` \| (.*?) \|", section(GUIDE, "The commands"), re.MULTILINE)
    told = {name.lower(): tuple(re.findall(r"`(\w+)`", aliases.lower())) for name, aliases in rows}
    assert told == dict(BUILT_IN)


def test_the_tokens_that_end_a_reply_do() -> None:
    (told,) = re.findall(r"These end it:\s(.*?)\.\n", GUIDE, re.DOTALL)
    tokens = re.findall(r"`(.*?)`", told)
    assert len(tokens) == 11
    for token in tokens:
        assert shown([f"[SEND: hi]{token}[SEND: no]"]) == ("send: hi", "end")


@pytest.mark.parametrize("word", ["SPEND", "SAND", "NODE"])
def test_the_words_that_are_no_slips_are_none(word: str) -> None:
    assert word in section(GUIDE, "Forms that count")
    assert shown([f"[{word}: x]"]) == (f"prose: [{word}: x]",)


def test_names_without_capitals_need_a_colon() -> None:
    names = {"发送": ()}
    assert [type(event) for event in read(["[发送 你好]"], names).events] == [Prose]
    assert CommandEnded("发送", "你好") in read(["[发送: 你好]"], names).events


def test_what_cannot_be_seen_is_mended_as_it_says() -> None:
    assert shown(["\ufeff[SE\u200bND: a\u00a0b\r\nc\rd]"]) == ("send: a b⏎c⏎d",)


@pytest.mark.parametrize(
    ("undecided", "decides"),
    [
        ("[SEND: yay :] so", "]"),
        ("[SEND: yay :] ", "\n"),
        ("[SEND: a lone ` here]", "\n"),
        ("[SEND: hi [there]\nand on", "\n[SEND: x"),
        ("[SEND: hi [SEND: there]\nand on", "\n[SEND: x"),
        ("[WAVE]\n", "[SEND: x"),
    ],
)
def test_a_command_in_doubt_waits_until_it_is_decided(undecided: str, decides: str) -> None:
    stream = CommandStream(NAMES)
    assert not any(isinstance(event, CommandEnded) for event in stream.feed(undecided))
    assert any(isinstance(event, CommandEnded) for event in stream.feed(decides))


@pytest.mark.parametrize("undecided", ["[SEND: hi [there]", "[SEND: hi ```\ncode]\n[SEND: x]\n"])
def test_or_to_the_end_of_the_reply(undecided: str) -> None:
    stream = CommandStream(NAMES)
    assert not any(isinstance(event, CommandEnded) for event in stream.feed(undecided))
    assert any(isinstance(event, CommandEnded) for event in stream.close())


def test_all_others_are_carried_out_at_their_bracket() -> None:
    assert len(UNDOUBTED) > 10
    for reply in UNDOUBTED:
        with row(reply):
            assert isinstance(CommandStream(NAMES).feed(reply)[-1], CommandEnded)


def test_reasoning_that_never_ends_leaves_nothing() -> None:
    assert shown(["<thinking>well [SEND: hi]"]) == ("thought: well [SEND: hi]",)


async def said(
    reply: str, prose: ProsePolicy = "auto", limits: Limits | None = None
) -> tuple[list[str], int]:
    """The messages that come of a reply, and how often the model was asked."""
    model = ScriptedModel(reply)
    channel = RecordingChannel()
    pixi = Persona("Pixi", "You are Pixi.")
    async with Engine(model=model, persona=pixi, prose=prose, limits=limits) as engine:
        await engine.receive(channel.message("hi"), channel)
        await engine.settled()
    return channel.sent, len(model.requests)


async def test_what_is_remembered_is_in_the_plain_form() -> None:
    model = ScriptedModel("**[SNED: hi]**\n- [Emoji: 🥞] and more", "[SEND: bye]")
    channel = RecordingChannel()
    async with Engine(model=model, persona=Persona("Pixi", "You are Pixi.")) as engine:
        for text in ("hi", "bye"):
            await engine.receive(channel.message(text), channel)
            await engine.settled()
    assert AssistantLine("[SEND: hi]\n[REACT: 🥞]") in model.requests[1].lines


async def test_a_number_leads_to_the_message_that_was_shown_with_it() -> None:
    model = ScriptedModel(
        "[SEND: hi]", "[REACT #1: 😂] [REPLY #1: true] [REACT: 🥞] [REACT #9: 🥞] [REPLY #9: hm]"
    )
    channel = RecordingChannel()
    first, second = (channel.message(text, author=text, group=True) for text in ("ada", "Mo"))
    async with Engine(model=model, persona=Persona("Pixi", "You are Pixi.")) as engine:
        for message in (first, second):
            await engine.receive(message, channel)
            await engine.settled()
    told = [line.text for line in model.requests[1].lines if isinstance(line, UserLine)]
    assert [text.splitlines()[1] for text in told] == ['#1 "ada" (id author:ada):', '#2 "Mo" (id author:Mo):']
    assert channel.reactions == [(first.id, "😂"), (second.id, "🥞")]
    assert [(post.text, post.reply_to) for post in channel.posts[1:]] == [("true", first.id), ("hm", None)]


SILENT = [example.reply for example in examples(section(GUIDE, "Silence"))]


@pytest.mark.parametrize("reply", [*SILENT, ""])
async def test_silence_is_an_answer(reply: str) -> None:
    assert await said(reply) == ([], 1)


PROSE = re.findall(
    r"^\| `([^`]+)` \| (.+?) \| (.+?) \| (.+?) \|$", section(GUIDE, "Text outside the commands"), re.MULTILINE
)


@pytest.mark.parametrize(("reply", "told"), [(row[0], row[1:]) for row in PROSE], ids=str)
async def test_text_outside_commands_is_sent_as_it_says(reply: str, told: tuple[str, ...]) -> None:
    for policy, cell in zip(POLICIES, told, strict=True):
        sent, _ = await said(reply, policy)
        assert sent == ([] if cell == "–" else cell.split(" / ")), policy


def test_the_policies_are_those_of_the_table() -> None:
    assert len(PROSE) == 4
    assert "| the reply | " + " | ".join(f"`{policy}`" for policy in POLICIES) in GUIDE
    assert ReplySettings().prose == POLICIES[0]


def test_the_limits_are_what_they_are() -> None:
    told = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", section(GUIDE, "Limits"), re.MULTILINE)
    limits = Limits()
    of_a_turn = {field.name for field in fields(Limits) if not field.name.startswith("tool")}
    assert {name: int(number.replace(",", "")) for name, number in told} == {
        name: getattr(limits, name) for name in of_a_turn
    }


async def test_over_a_limit_the_reply_ends_and_what_was_done_stands() -> None:
    assert await said("[SEND: a] [SEND: b] [SEND: c]", limits=Limits(messages=2)) == (["a", "b"], 1)
    long = "[SEND: abcdef] [SEND: b]"
    assert await said(long, limits=Limits(argument_characters=3)) == (["abc"], 1)
    assert await said(long, limits=Limits(reply_characters=10)) == (["abc"], 1)


def test_what_parse_prints_is_what_it_prints() -> None:
    (block,) = blocks(section(GUIDE, "When a reply did nothing"))
    command, printed = block.text.removeprefix("$ ").split("\n", 1)
    words = command.replace("pixi-persona", f"'{sys.executable}' -m pixi")
    done = subprocess.run(["sh", "-c", words], capture_output=True, check=True, cwd=ROOT, timeout=60)
    assert done.stdout.decode() == printed


def test_the_python_example_prints_what_stands_below_it() -> None:
    example, printed = blocks(section(GUIDE, "In Python"))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example.text, "commands.md", "exec"), {})
    assert output.getvalue() == printed.text


def test_the_other_arguments_of_the_stream_work_as_told() -> None:
    told = section(GUIDE, "In Python")
    assert all(form in told for form in ('(["send", "wave"])', '({"wave": ["greet"]})', 'people=["Mo"]'))
    assert CommandStream(["send", "wave"]).feed("[WAVE: x]")[-1] == CommandEnded("wave", "x")
    assert CommandStream({"wave": ["greet"]}).feed("[GREET: x]")[-1] == CommandEnded("wave", "x")
    stream = CommandStream(people=["Mo"])
    assert stream.feed("Mo: hi") == []
    assert stream.ended


def test_every_kind_of_event_is_told() -> None:
    for kind in (Prose, CommandStarted, CommandText, CommandEnded, Thought, ToolCallEnded):
        assert f"`{kind.__name__}`" in section(GUIDE, "In Python")


def test_the_parser_alone_needs_nothing_but_msgspec_and_rapidfuzz() -> None:
    assert "no dependency but msgspec and rapidfuzz" in section(GUIDE, "In Python")
    code = """\
import sys
old = {*sys.modules}
from pixi import CommandStream
for event in CommandStream().feed("[SNED: a slip]"): ...
print(*{*sys.modules} - old)"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    installed = packages_distributions()
    packages = {package.lower() for name in loaded for package in installed.get(name, ())}
    assert packages - {"pixi-persona", "typing_extensions"} == {"msgspec", "rapidfuzz"}
    assert "asyncio" not in loaded
