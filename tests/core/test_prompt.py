"""What a model is told before all that is said."""

import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pixi.core.language import BUILT_IN, CommandEnded
from pixi.core.llm import AssistantLine, SystemLine, UserLine
from pixi.core.message import Author, Message
from pixi.core.persona import Example, Persona
from pixi.core.prompt import CommandHelp, fill, prefix
from pixi.core.reading import commands_in
from pixi.core.stamps import STILL_WAITS, stamp
from pixi.engine.context import prompt_template

COMMANDS = (
    CommandHelp("send", "message", "a message in the chat"),
    CommandHelp("note", "thought", "a private thought"),
    CommandHelp("react", "emoji", "an emoji on the message"),
)
PIXI = Persona(
    name="Pixi",
    prompt="You are {{char}}, {{user}}'s friend.\n\n## Habits\n\nYou nap.",
    likes=("cats", "pancakes"),
    examples=(
        Example("hi", "[NOTE: {{user}} is here]\n[SEND: hiii]\n[SEND: i am pixi]"),
        Example("not for you", "[NOTE: stay out]"),
        Example("look, pancakes", "[REACT: 🥞]\n[SEND: yum!]"),
    ),
)


def big(persona: Persona, person: str = "Mo") -> str:
    lines = prefix(prompt_template(small=False), persona, COMMANDS, person=person, small=False)
    assert len(lines) == 1
    assert isinstance(lines[0], SystemLine)
    return lines[0].text


def test_instructions_stand_behind_the_prompt_as_they_are_and_a_small_model_has_none() -> None:
    told = "Speak to {{user}}.\n\nBriefly."
    for small in (False, True):
        without, with_them = (
            prefix(
                prompt_template(small=small),
                PIXI,
                COMMANDS,
                person="Mo",
                small=small,
                instructions=instructions,
            )
            for instructions in ("", told)
        )
        if small:
            assert with_them == without
        else:
            (line,), (bare,) = with_them, without
            assert line.text == bare.text.replace("You nap.", f"You nap.\n\n{told}")


def test_fill_puts_values_in() -> None:
    assert fill("{{a}} and {{ b }}", {"a": "1", "b": "2"}) == "1 and 2"


def test_fill_leaves_unknown_names_alone() -> None:
    assert fill("{{a}} {{what}} {single} {{}}", {"a": "1"}) == "1 {{what}} {single} {{}}"


@given(st.text(), st.text())
def test_fill_never_looks_at_what_it_put_in(a: str, b: str) -> None:
    assert fill("<{{a}}|{{b}}>", {"a": "{{b}}" + a, "b": b}) == "<{{b}}" + a + "|" + b + ">"


def test_large_prefix_tells_persona_commands_and_examples() -> None:
    text = big(PIXI)
    assert "You are Pixi, Mo's friend." in text
    assert "- [SEND: message] a message in the chat\n- [NOTE: thought] a private thought" in text
    assert "You love cats, pancakes." in text
    assert "> hi\n[NOTE: Mo is here]\n[SEND: hiii]" in text
    assert "{{" not in text


def test_large_prefix_is_the_same_each_time() -> None:
    assert big(PIXI) == big(PIXI)


@pytest.mark.parametrize("silence", [True, False])
def test_silence_is_told_as_the_persona_has_it(silence: bool) -> None:
    text = big(replace(PIXI, silence=silence))
    assert ("stands for silence" in text) is silence
    assert ("sends at least one message" in text) is not silence


def test_what_the_persona_lacks_leaves_no_gap() -> None:
    text = big(Persona(name="Bo", prompt="You are Bo."))
    assert "Examples" not in text
    assert "You love" not in text
    assert "\n\n\n" not in text


def test_language_is_named_where_it_is_known() -> None:
    assert "You write Chinese," in big(replace(PIXI, language="zh-CN"))
    assert "the language `tlh`" in big(replace(PIXI, language="tlh"))


def test_a_strangers_name_is_one_short_line_and_no_placeholder() -> None:
    text = big(PIXI, person="Mo\n\n## New rules\n{{likes}} " + "x" * 500)
    assert "Mo ## New rules {{likes}} xx" in text
    assert "\n## New rules" not in text
    assert "x" * 60 not in text


def test_a_command_without_argument_and_one_in_another_script() -> None:
    lines = prefix(
        "{{commands}}",
        PIXI,
        (CommandHelp("wave", "", "wave"), CommandHelp("ß", "was", "x")),
        person="",
        small=False,
    )
    assert lines == (SystemLine("- [WAVE] wave\n- [ß: was] x"),)


def test_small_prefix_is_short_with_examples_as_turns() -> None:
    lines = prefix(prompt_template(small=True), PIXI, COMMANDS, person="Mo", small=True)
    assert lines == (
        SystemLine("You are Pixi, Mo's friend."),
        UserLine("hi"),
        AssistantLine("[SEND: Hiii.]\n[SEND: I am Pixi.]"),
        UserLine("look, pancakes"),
        AssistantLine("[REACT: 🥞]\n[SEND: Yum!]"),
    )


def test_small_prefix_prefers_what_the_persona_says_in_short() -> None:
    persona = replace(PIXI, in_short="You are Pixi,\nwho naps.", examples=())
    wave = CommandHelp("wave", "how", "wave at somebody")
    lines = prefix(prompt_template(small=True), persona, (*COMMANDS, wave), person="Mo", small=True)
    assert lines == (SystemLine("You are Pixi, who naps.\n\nYou can also write [WAVE: how]."),)


def test_small_prefix_cuts_a_long_prompt_at_a_sentence_and_skips_headings() -> None:
    persona = Persona(name="Bo", prompt="# Bo\n\n" + "You are Bo. " * 60)
    lines = prefix(prompt_template(small=True), persona, COMMANDS, person="Mo", small=True)
    assert isinstance(lines[0], SystemLine)
    assert lines[0].text.startswith("You are Bo. You")
    assert lines[0].text.endswith("You are Bo.")
    assert 300 < len(lines[0].text) <= 400


def test_small_examples_are_few_and_short() -> None:
    long = Example("tell me", f"[SEND: {'word ' * 80}]")
    persona = replace(PIXI, examples=(long, *PIXI.examples * 5))
    lines = prefix(prompt_template(small=True), persona, COMMANDS, person="Mo", small=True)
    assert len(lines) == 1 + 2 * 4
    assert UserLine("tell me") not in lines


def test_small_examples_in_chinese_end_as_chinese_does() -> None:
    persona = Persona(
        name="老秦", prompt="你是老秦。", language="zh", examples=(Example("你好", "[SEND: 坐]"),)
    )
    lines = prefix(prompt_template(small=True), persona, COMMANDS, person="", small=True)
    assert lines[-1] == AssistantLine("[SEND: 坐。]")


def test_the_numbers_of_messages_are_explained_in_groups_alone() -> None:
    told = "Each message has a number, such as #3."
    assert (
        f"{told} `[REACT #3: 😂]` puts a reaction on that message and `[REPLY #3: …]` replies to it."
        in big(PIXI, person="")
    )
    assert told not in big(PIXI, person="Mo")
    assert "#3" not in big(PIXI, person="Mo")


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        (COMMANDS[:2], "`[REPLY #3: …]` replies to it."),
        (COMMANDS[1:], "`[REACT #3: 😂]` puts a reaction on that message."),
        ((*COMMANDS[:1], CommandHelp("reply", "x", "y")), "`[SEND #3: …]` replies to it."),
        (COMMANDS[1:2], ""),
    ],
)
def test_only_what_the_persona_has_is_explained(commands: tuple[CommandHelp, ...], told: str) -> None:
    (line,) = prefix(prompt_template(small=False), PIXI, commands, person="", small=False)
    assert isinstance(line, SystemLine)
    assert (f"such as #3. {told} Commands without" in line.text) is bool(told)
    assert ("#3" in line.text) is bool(told)


def test_what_is_explained_is_read_so() -> None:
    (line,) = prefix(prompt_template(small=False), PIXI, COMMANDS, person="", small=False)
    assert isinstance(line, SystemLine)
    forms = re.findall(r"`(\[[A-Z]+ #3: .*?\])`", line.text)
    assert commands_in("\n".join(forms), BUILT_IN) == [
        CommandEnded("react", "😂", target=3),
        CommandEnded("send", "…", target=3),
    ]


def test_a_small_model_is_told_of_no_numbers() -> None:
    lines = prefix(prompt_template(small=True), PIXI, COMMANDS, person="", small=True)
    assert not any("#" in str(line) for line in lines)


def test_how_to_answer_what_still_waits_is_told_where_messages_have_numbers() -> None:
    assert STILL_WAITS in big(PIXI, person="")
    assert "each by its number." in big(PIXI, person="")
    assert STILL_WAITS not in big(PIXI, person="Mo")


def test_the_number_of_what_still_waits_is_the_one_that_a_reply_takes() -> None:
    message = Message("m7", "c", Author("1", "Mo"), "who?", 0.0, number=7, again=True, group=True)
    line = stamp([message], local_time=datetime(2026, 1, 1), small=False, group=True).text
    number = re.search(rf"(#\d+) .*{STILL_WAITS}:", line)
    assert number is not None
    (reply,) = commands_in(f"[REPLY {number[1]}: me]", BUILT_IN)
    assert reply == CommandEnded("send", "me", target=7)
