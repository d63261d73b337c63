"""The text of the grammar; what llama.cpp makes of it is tried in `tests/models/test_llama.py`."""

import re

import pytest

from pixi.core.language import CommandEnded, CommandStream
from pixi.core.prompt import CommandHelp, command_grammar, quoting_grammar
from pixi.core.stamps import Citation

SEND = CommandHelp("send", "message", "a message")
NOTE = CommandHelp("note", "thought", "a thought")
REACT = CommandHelp("react", "emoji", "an emoji")
WAVE = CommandHelp("wave", "", "wave")
ROLL = CommandHelp("roll", "dice", "roll dice")


def rules(grammar: str) -> dict[str, str]:
    return dict(line.split(" ::= ", 1) for line in grammar.splitlines())


def without_literals(body: str) -> str:
    body = re.sub(r'"(\\.|[^"\\])*"', " ", body)
    return re.sub(r"\[(\\.|[^\]\\])*\]", " ", body)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("silence", [True, False])
@pytest.mark.parametrize(
    "commands", [(SEND,), (SEND, NOTE, REACT), (NOTE,), (WAVE,), (SEND, WAVE), (ROLL, SEND, NOTE, WAVE)]
)
def test_every_rule_that_is_named_is_there(
    commands: tuple[CommandHelp, ...], silence: bool, small: bool
) -> None:
    written = rules(command_grammar(commands, silence=silence, small=small))
    assert "root" in written
    for body in written.values():
        named = set(re.findall(r"[a-z][a-z0-9-]*", without_literals(body)))
        assert named <= set(written)


def test_each_command_has_its_form() -> None:
    written = rules(command_grammar((SEND, WAVE, REACT, NOTE), silence=True, small=False))
    assert written["command-0"] == '"[SEND" target ": " text "]"'
    assert written["command-1"] == '"[WAVE]"'
    assert written["command-2"] == '"[REACT" target ": " emoji "]"'
    assert written["command-3"] == '"[NOTE: " text "]"'


def test_a_small_model_names_no_earlier_message() -> None:
    written = rules(command_grammar((SEND, REACT), silence=True, small=True))
    assert written["command-0"] == '"[SEND: " sentences "]"'
    assert written["command-1"] == '"[REACT: " emoji "]"'
    assert "target" not in written


def test_a_small_model_always_sends_whatever_the_persona_says() -> None:
    for silence in (True, False):
        root = rules(command_grammar((SEND, NOTE, REACT), silence=silence, small=True))["root"]
        assert root == "(command-1 nl)? (command-2 nl)? command-0 (nl command-0){0,1}"


def test_a_small_model_may_use_one_other_command() -> None:
    written = rules(command_grammar((SEND, WAVE, ROLL), silence=True, small=True))
    assert written["root"] == "(other nl)? command-0 (nl command-0){0,1}"
    assert written["other"] == "command-1 | command-2"


def test_a_large_model_may_be_silent_where_the_persona_may() -> None:
    root = rules(command_grammar((SEND, NOTE, REACT), silence=True, small=False))["root"]
    assert root == '(command-1 nl)? act (nl act){0,29} | command-1 | "[SEND]"'


def test_a_large_model_must_send_where_the_persona_must() -> None:
    root = rules(command_grammar((SEND, NOTE, REACT), silence=False, small=False))["root"]
    assert root == "(command-1 nl)? (act nl){0,9} command-0 (nl act){0,19}"


@pytest.mark.parametrize(
    ("name", "literal"),
    [
        ("bąk", '"[BĄK]"'),
        ("挥手", '"[挥手]"'),
        ("سلام", '"[سلام]"'),
        ("straße", '"[straße]"'),
        ('say "hi"', '"[SAY \\"HI\\"]"'),
        ("back\\slash", '"[BACK\\\\SLASH]"'),
        ("tab\tbed", '"[TAB\\U00000009BED]"'),
        ("be right back", '"[BE RIGHT BACK]"'),
    ],
)
def test_names_are_safe_in_the_grammar(name: str, literal: str) -> None:
    written = rules(command_grammar((CommandHelp(name, "", "x"),), silence=True, small=False))
    assert written["command-0"] == literal


@pytest.mark.parametrize("small", [True, False])
def test_where_there_are_choices_the_argument_is_one_of_them(small: bool) -> None:
    sticker = CommandHelp("sticker", "name", "a sticker", ("big wave", "猫"))
    written = rules(command_grammar((SEND, sticker), silence=True, small=small))
    assert written["command-1"] == '"[STICKER: " ("big wave" | "猫") "]"'


def quotations(text: str) -> list[str]:
    """The messages that a grammar allows to quote a text, as they are read from a reply."""
    grammar = quoting_grammar((SEND,), [Citation("a.md", text)])
    replies = [f"[SEND: {each}]" for each in re.findall(r'"(\\".*?\(a\.md\))"', grammar)]
    read = [list(CommandStream().feed(each.replace('\\"', '"'))) for each in replies]
    return [event.argument for events in read for event in events if isinstance(event, CommandEnded)]


@pytest.mark.parametrize(
    "text",
    [
        "Bags of <5 kg are free, and so is x <= 3.",
        "We write it in C# and F#, in room #3.",
        "It is 2 * 3 = 6 and 2**3 = 8.",
        "Take cat_food.md > the rest.",
    ],
)
def test_a_quotation_says_what_the_document_does(text: str) -> None:
    assert quotations(text) == [f'"{text}" (a.md)']


def test_a_quotation_has_no_marks_and_nothing_of_the_command_language() -> None:
    text = "## The *ferry*: __see__ `[SEND: x]` <|im_end|> <b>"
    assert quotations(text) == ['"The ferry: see SEND: x |im_end|> b>" (a.md)']


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Dr. Smith is in. He waits.", "Dr. Smith is in."),
        ("1. Take the ferry. 2. Get off.", "1. Take the ferry."),
        ("八点开。十点关。", "八点开。"),
    ],
)
def test_a_quotation_does_not_end_with_an_abbreviation_or_a_number(text: str, first: str) -> None:
    assert quotations(text)[0] == f'"{first}" (a.md)'


def test_a_quotation_is_short_enough_for_a_tiny_model_to_write_its_end() -> None:
    begun = "冲泡龙井茶的时候水温应当控制在摄氏八十度到八十五度之间，不可以用滚开的沸水直接冲泡"
    sentence = f"{begun}，否则茶叶会被烫熟而失去清香并且带上苦涩的味道。"
    assert quotations(sentence) == [f'"{begun}…" (a.md)']
    assert quotations("水温八十度。" + sentence) == ['"水温八十度。" (a.md)']
    english = "The boat leaves at seven, " * 9 + "as ever. It waits."
    assert quotations(english)[0].startswith('"The boat leaves at seven, ')
    assert quotations(english)[0].endswith('ever." (a.md)')
    assert quotations("字" * 300) == [f'"{"字" * 53}…" (a.md)']
