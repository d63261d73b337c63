"""The front matter: what each key means, and the line and the mend of whatever is wrong with one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.persona import Persona
from pixi.core.untrusted import display_line
from pixi.personas.front_matter import KEYS, FrontMatter, find_unfit, read_entries, read_front_matter
from tests.rows import row


def read(text: str) -> Persona:
    """What the keys say, where nothing is wrong."""
    keys, faults = read_front_matter(text)
    assert faults == []
    return persona_of(keys)


def persona_of(keys: FrontMatter) -> Persona:
    return Persona(**{"name": "", "prompt": "", **keys.values})


def test_every_key_is_read() -> None:
    text = """\
name: Pixi
about: an art student
avatar: pictures/pixi.png
summon: [pixi, "pix, dear"]
language: fa
likes:
  - cats
  - thin pancakes
databases: [pancakes]
tools: [search]
commands: [send, react]
confirm: search
tool_steps: 3
pace: human
silence: no
when_broken:
  - "hang on: ink"
  - gone
when_tired: tomorrow, then
when_foreign: tea, please
in_short: >
  You are Pixi.
  You draw.
"""
    assert read(text) == Persona(
        name="Pixi",
        prompt="",
        about="an art student",
        avatar="pictures/pixi.png",
        summon=("pixi", "pix, dear"),
        language="fa",
        likes=("cats", "thin pancakes"),
        databases=("pancakes",),
        tools=("search",),
        commands=("send", "react"),
        confirm=("search",),
        tool_steps=3,
        pace="human",
        silence=False,
        when_broken=("hang on: ink", "gone"),
        when_tired=("tomorrow, then",),
        when_foreign=("tea, please",),
        in_short="You are Pixi. You draw.",
    )
    lines = read_front_matter(text, first_line=2)[0].lines
    assert list(lines) == list(KEYS)
    assert list(lines.values()) == [2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "name:\nlikes: []\nsilence:\n"])
def test_what_is_not_written_has_its_default(text: str) -> None:
    keys = read(text)
    assert (keys.name, keys.likes, keys.silence, keys.commands) == ("", (), True, None)


def test_an_empty_list_of_commands_is_not_the_same_as_none() -> None:
    assert read("commands: []").commands == ()
    assert read("commands:").commands is None


@pytest.mark.parametrize(
    ("written", "language"), [("no", "no"), ("en", "en"), ("zh-Hans", "zh-Hans"), ('"on"', "on")]
)
def test_no_text_is_guessed_to_be_something_else(written: str, language: str) -> None:
    assert read(f"language: {written}").language == language
    assert read("name: 007\nabout: 1e3\nlikes: [yes, null, 2020-01-01]") == Persona(
        name="007", prompt="", about="1e3", likes=("yes", "null", "2020-01-01")
    )


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("cats, pancakes", ("cats", "pancakes")),
        ("猫，煎饼、雾", ("猫", "煎饼", "雾")),
        ("گربه، پنکیک", ("گربه", "پنکیک")),
        ('"cats, pancakes"', ("cats, pancakes",)),
        ("[cats,  thin   pancakes, cats]", ("cats", "thin pancakes")),
        ("cats", ("cats",)),
    ],
)
def test_words_may_stand_in_one_text(written: str, words: tuple[str, ...]) -> None:
    assert read(f"likes: {written}").likes == words


def test_a_sentence_is_not_split_at_its_commas() -> None:
    assert read("when_broken: sorry, one moment").when_broken == ("sorry, one moment",)


@pytest.mark.parametrize("written", ["no", "No", "false", "off"])
def test_silence_may_be_forbidden(written: str) -> None:
    assert not read(f"silence: {written}").silence


FAULTS = [
    ("about: a\nsumon: [x]", 2, "unknown key `sumon`: do you mean `summon`?"),
    ("When Broken: a", 1, "do you mean `when_broken`?"),
    ("zzzzqqq: a", 1, "the keys are name, about, avatar, summon"),
    ("name: a\nabout: b\nname: c", 3, "`name` stands on line 1 already: keep one of them."),
    ("pace: quick", 1, "`pace` is `off` or `brisk` or `human`, not `quick`."),
    ("tool_steps: three", 1, "`tool_steps` is a number from 0 to 100, not `three`."),
    ("tool_steps: 101", 1, "`tool_steps` is a number from 0 to 100, not `101`."),
    ("silence: maybe", 1, "`silence` is `yes` or `no`, not `maybe`."),
    ("language: English, please", 1, "a language tag such as `en`"),
    ("commands: [send, '[REACT: x]']", 1, "`commands` holds names such as `send`, not `[REACT: x]`."),
    ("commands: [1, send, 2]", 1, "`commands` holds names such as `send`, not `1`, `2`."),
    ("name: [a, b]", 1, "`name` is one text, not a list."),
    ("name: " + "x" * 101, 1, "`name` has 101 characters: 100 is the most."),
    ("name: a\nlikes: {a: b}", 2, "`likes` is a text or a list"),
    ("likes:\n  - a\n  - [b]", 3, "an item of `likes` is one text"),
    ("when_broken:\n  - {{user}}", 2, "an item of `when_broken` is one text: put it in quotes."),
    ("about: Pixi: an artist", 1, "a text that holds a colon stands in quotes."),
    ("name: a\n\tabout: b", 2, "indent with spaces"),
    ("name: a\nabout: @home", 2, "put the text in quotes."),
    ("about: *sighs*", 1, "begins with * or &"),
    ("about: *sighs", 1, "begins with * or &"),
    ("about: &anchor b", 1, "begins with * or &"),
    ("about: !!python/object:os.system b", 1, "begins with !"),
    ("about: ! hello", 1, "begins with !"),
    ("likes: [cats, pancakes", 1, "close the bracket."),
    ('name: a\nabout: "b\n\n', 2, "close the quotation marks."),
    ("- a\n- b", 1, "write each line as `key: text`."),
    ("just words", 1, "write each line as `key: text`."),
    ("name: a\nwords alone\n", 2, "write each line as `key: text`."),
    ("? [a]\n: b", 1, "write each line as `key: text`."),
    ("name: a\n...\nabout: b", 3, "this is not YAML"),
    ("name: a\n--- x\n", 2, "ends the front matter too early"),
    ('name: "a\\0b"', 1, "delete the control character U+0000."),
    ('name: a\nabout: "\\e[2J"', 2, "delete the control character U+001B."),
    ('about: "\\ud800"', 1, "delete the control character U+D800."),
    ('about: "\\UFFFFFFFF"', 1, "an escape that means nothing."),
    ("%YAML " + "9" * 5000 + "\n---\nname: a", 1, "an escape that means nothing."),
    ("name: a\nabout: b\x00", 2, "delete the control character"),
    ("about: " + "x" * 40_000, 1, "too long"),
    ("[" * 10_000, 1, "write each line as `key: text`."),
    ("likes: " + "[" * 10_000, 1, "is one text"),
]


def test_a_fault_has_its_line_and_its_mend() -> None:
    for text, line, mend in FAULTS:
        with row(text):
            _, (fault,) = read_front_matter(text)
            assert mend in fault.text
            assert fault.line == line
            assert "\n" not in fault.text
            assert len(fault.text) < 250


def test_all_faults_are_told_at_once_and_what_holds_is_read() -> None:
    text = (
        "nmae: a\nabout: b\npace: warp\nabout: c\nname: [x]\ncommands: [1]\nlikes: cats\n"
        "silence: &x 1\npase: d"
    )
    front_matter, faults = read_front_matter(text)
    keys = persona_of(front_matter)
    assert sorted(fault.line for fault in faults) == [1, 3, 4, 5, 6, 8]
    assert (keys.about, keys.likes, keys.pace, keys.name) == ("b", ("cats",), "brisk", "")


def test_lines_are_counted_as_editors_count_them() -> None:
    _, (fault,) = read_front_matter("about: 'a\u2028b\u2029c'\nnmae: x", first_line=10)
    assert fault.line == 11


yaml_like = st.text(alphabet=st.sampled_from([*"nameabout:, -[]{}&*!|>'\"#%@?\\\n\t 0xU\x00\ud800é猫"]))
keyed = st.lists(st.tuples(st.sampled_from([*KEYS, "x"]), yaml_like), max_size=4).map(
    lambda pairs: "\n".join(f"{key}: {value}" for key, value in pairs)
)


@given(st.one_of(st.text(), yaml_like, keyed))
def test_anything_is_read_and_nothing_is_raised(text: str) -> None:
    front_matter, faults = read_front_matter(text)
    keys = persona_of(front_matter)
    for fault in faults:
        assert 1 <= fault.line <= text.count("\n") + 1
        assert fault.text.endswith((".", "?"))
        fault.text.encode()
    for value in (keys.name, keys.about, keys.in_short, *keys.likes, *keys.when_broken):
        assert not find_unfit(value)


@given(st.lists(st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1), min_size=1))
def test_quoted_texts_come_out_as_they_were_written(texts: list[str]) -> None:
    def quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    yaml = "when_broken:\n" + "".join(f"- {quoted(text)}\n" for text in texts)
    if "\ufffe" not in yaml and "\uffff" not in yaml and "\ufeff" not in yaml:
        (entry,) = read_entries(yaml, 1)
        assert entry.texts == tuple(texts)


def test_a_quoted_text_in_an_error_is_short_and_on_one_line() -> None:
    assert display_line("a\nb\tc\x1b", 40) == "a b c\N{REPLACEMENT CHARACTER}"
    assert display_line("x" * 100, 40) == "x" * 39 + "…"
