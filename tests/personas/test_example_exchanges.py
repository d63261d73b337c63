"""Example exchanges: how they are told apart, and what is said of a reply that does not do what it should."""

import pytest

from pixi.core.persona import Example
from pixi.personas.sections import check_reply, number_lines, read_exchanges


def exchanges(text: str) -> list[Example]:
    return [exchange.example for exchange in read_exchanges(number_lines(text, 1)[0])[0]]


def remarks(text: str, commands: tuple[str, ...] | None = None) -> list[tuple[int, str]]:
    read, found = read_exchanges(number_lines(text, 1)[0])
    for exchange in read:
        found.extend(check_reply(exchange, commands))
    return [(remark.line, remark.text) for remark in found]


def test_a_quote_is_what_is_said_and_the_rest_is_the_reply() -> None:
    text = """

> hi
> there

[NOTE: somebody!]
[SEND: hello]

[SEND: and
again]
> bye
[REACT: 👋]
"""
    assert exchanges(text) == [
        Example("hi\nthere", "[NOTE: somebody!]\n[SEND: hello]\n\n[SEND: and\nagain]"),
        Example("bye", "[REACT: 👋]"),
    ]
    assert remarks(text) == []


def test_captions_and_rules_are_left_out() -> None:
    text = "### Morning\n> hi\n[SEND: hey]\n\n---\n\n### Evening\n> night\n* * *\n[SEND: sleep well]\n___\n"
    assert exchanges(text) == [Example("hi", "[SEND: hey]"), Example("night", "[SEND: sleep well]")]
    assert remarks(text) == []


def test_a_reply_may_stand_in_a_fence_where_nothing_is_markdown() -> None:
    text = "> hi\n\n```text\n[SEND: quote:\n> said\n# x\n---\n]\n```\n\n> bye\n[SEND: a ```b``` c]"
    assert exchanges(text) == [
        Example("hi", "[SEND: quote:\n> said\n# x\n---\n]"),
        Example("bye", "[SEND: a ```b``` c]"),
    ]


def test_a_fence_inside_a_message_stays() -> None:
    text = "> code?\n[SEND: here:\n```py\nx = [1]\n> y\n```\n]"
    assert exchanges(text) == [Example("code?", "[SEND: here:\n```py\nx = [1]\n> y\n```\n]")]


def test_no_examples() -> None:
    assert exchanges("") == exchanges("\n\n") == []
    assert remarks("\n\n") == []


@pytest.mark.parametrize(
    "reply",
    [
        "[SEND: hi]",
        "[send: hi]",
        "[SEND]",
        "[NOTE: nothing to add]",
        "【SEND：你好】",
        "**[SEND: hi]**",
        "- [SEND: hi]",
        "[SAY: hi]",
        "[SEND: multi\nline\n[Scene: cafe]\nstill]",
        "[SEND: it is [12:30] now]",
        "[NOTE: i will use [SEND: hi] to greet]",
        "`[SEND: hi]`",
    ],
)
def test_a_good_reply_is_not_remarked_on(reply: str) -> None:
    assert remarks(f"> hi\n{reply}") == []


@pytest.mark.parametrize(
    ("text", "line", "mend"),
    [
        ("> hi\n\n[SEDN: hey]", 3, "[SEDN: …] is no command: do you mean [SEND: …]?"),
        ("> hi\n[NOTE: ok]\n[REAKT: 👍]", 3, "do you mean [REACT: …]?"),
        ("> hi\n[NOTE: ok]\n[sned: hey]", 3, "do you mean [SEND: …]?"),
        ("> hi\n[NOTE: ok]\n  - [SNED hey: you]\n[SEND: hey]", 3, "outside every command"),
        ("> hi\n[NOTE: ok]\n[WAVE: both hands]", 3, "[WAVE: …] is no command: mend it, or name it"),
        ("> hi\n\nhello there!", 3, "holds no command: write [SEND: …]"),
        ("> hi\n\n[Scene: a cafe]\n\nhey", 3, "holds no command"),
        ("> hi\nSure! Here it is:\n[SEND: hey]", 2, "outside every command and is never said"),
        ("> hi\n[SEND: hey]\n\nhow are you?", 4, "outside every command and is never said"),
        ("> hi\n[NOTE: a]\n\n[SEND: hey", 4, "never closes: end it with `]`."),
        ("> hi\n\n> hey\n[SEND: a]", 1, "nothing answers this example"),
        ("> hi\n", 1, "nothing answers this example"),
        ("These are examples.\n\n> hi\n[SEND: a]", 1, "belongs to no example"),
        ("\n[SEND: a]\n", 2, "belongs to no example"),
    ],
)
def test_what_would_not_do_what_it_should_is_told_with_its_line(text: str, line: int, mend: str) -> None:
    ((number, said),) = remarks(text)
    assert mend in said
    assert number == line


def test_the_commands_of_the_persona_are_the_ones_that_count() -> None:
    assert remarks("> hi\n[ROLL: 2d6]\n[SEND: a]", ("send", "Roll")) == []
    assert remarks("> hi\n[NOTE: a]\n[SEND: a]", ("send",)) == [
        (2, "the key `commands` does not name NOTE: add it there.")
    ]
    assert remarks("> hi\n[SAY: a]", ("reply",)) == []
    ((line, text),) = remarks("> hi\n[SEND: a]", ())
    assert (line, "SEND" in text) == (2, True)
