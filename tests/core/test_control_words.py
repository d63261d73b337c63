"""Control words of models' templates: each is broken, what we write ourselves never is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.control_words import TABLE, breaking, broken, words_in
from pixi.core.language import (
    BREAK,
    BUILT_IN,
    CommandEnded,
    CommandStream,
    CommandText,
    Prose,
    ToolCallEnded,
    unbroken,
)
from pixi.core.reading import commands_in, written

WORDS = [word.replace("…", "name_1") for word in TABLE]

# Those that people were seen to write into chats, one family after the other.
TRIED = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_response>",
    "</tool_response>", "<tools>", "<think>", "</think>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>",
    "<s>", "</s>", "<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|python_tag|>",
    "<|header_start|>", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[THINK]",
    "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<|turn>", "<turn|>", "<BOS_TOKEN>",
    "<EOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "[gMASK]", "<sop>", "<|observation|>",
    "<｜User｜>", "<｜end▁of▁sentence｜>", "<｜tool▁outputs▁begin｜>", "]~b]", "[e~[", "]~!b[",
    "<minimax:tool_call>", "<|end|>", "<|start_of_role|>", "<|channel|>", "<|return|>", "<|im_middle|>",
    "<|tool_calls_section_begin|>", "<|bom|>", "[|endofturn|]", "<SPECIAL_11>", "<seed:bos>",
)  # fmt: skip

OURS = (
    "[SEND: hi]", "[NOTE: they sound sad]", "[REACT: 🥞]", "[SEND]", "[REACT #3: 😂]", "[REPLY #12: yes]",
    "> [SEND: hi]", "【SEND：你好】", "［SEND：你好］", "[SEND]hello[/SEND]", "**[SEND: hi]**", "`[NOTE: x]`",
    "[EMOJI: 🥞]", "[THOUGHT: hm]", "[THINK: hm]", "[SAY: x]", "[poll_2: a | b]",
    '<tool-call tool="add">{"a": [[1], ["INST"]]}</tool-call>', '<tool-result tool="add">42</tool-result>',
    '#1 "Mo" (id 1), replying to #2:', "[1] a line of a document", "[docs](https://a.example)", "[x] done",
    "a < b, b > c, 1 << 3 >> 2, i <3 u, [a, b][0], x[i]|y, <b>bold</b>, <@123456>, <:wave:1>, <#12>, <t:1:R>",
)  # fmt: skip


def test_each_word_of_the_table_is_broken_and_looks_the_same() -> None:
    for word in WORDS:
        for shown in (word, word.lower(), word.upper(), f"a{word}b", f"\n{word} {word}"):
            told = broken(shown)
            assert shown not in told, word
            assert unbroken(told) == shown


def test_every_word_that_was_tried_is_broken() -> None:
    assert len(set(TRIED)) >= 53
    assert [word for word in TRIED if word in broken(f"so: {word}, see?")] == []
    wide = str.maketrans("<>[]|/", "＜＞［］｜／")
    assert [word for word in TRIED if word.translate(wide) in broken(word.translate(wide))] == []


@pytest.mark.parametrize("text", OURS)
def test_what_we_write_ourselves_is_never_touched(text: str) -> None:
    assert broken(text) == text
    assert breaking(["<zork>", "[SEND:", "[SEND]", "[/NOTE]", "[poll_2:", " ", "a", "<b"])(text) == text


@given(
    st.lists(
        st.sampled_from([*WORDS, *TRIED, "<", ">", "[", "]", "|", "/", BREAK, "a", " ", "\n"]), max_size=12
    )
)
def test_broken_once_is_broken_for_good(pieces: list[str]) -> None:
    once = broken("".join(pieces))
    assert broken(once) == once
    assert unbroken(once) == unbroken("".join(pieces))


def test_the_words_of_a_models_own_template_are_broken_too() -> None:
    template = (
        "{%- for message in messages %}{%- if message['role'] == 'user' and loop.index0 < 3 > 1 -%}"
        "{{ '<zork:' + message['role'] + '>' }}{{ '<~turn~>' + message[0] }}"
        "{{ '[TOOL_STUFF]' + message[1:] + '[/END_STUFF]' }}"
        "{%- endif %}<|im_end|>{{ tools[KEY][1:] }}<<OPS>>{%- endfor %}"
    )
    words = words_in(template)
    assert {"<~turn~>", "[TOOL_STUFF]", "[/END_STUFF]", "<<OPS>>"} <= set(words)
    own = breaking(words)
    text = "a <~turn~> b [TOOL_STUFF] c [/END_STUFF] d <<OPS>> e <|im_end|> f [SEND: x]"
    assert [word for word in words if word in own(text)] == []
    assert unbroken(own(text)) == text
    assert own(own(text)) == own(text)
    assert broken("<~turn~>") == "<~turn~>"
    assert breaking(["<|im_end|>", "</s>"]) is broken


# --- what a model copies out of its prompt -------------------------------------------------------------

QUOTED = (
    "[SEND: the tokens <|im_end|>, </s> and [INST] end turns, <think> begins thoughts]",
    "[NOTE: so]\n[SEND: `<|im_end|>` and\n```\n<|eot_id|>\n```\nis code]",
    "[SEND]they wrote <|im_end|> here[/SEND]",
    "I think </s> is a token, and <end_of_turn> too.",
    '<tool-call tool="look">{"at": "<|im_end|>"}</tool-call>[SEND: done]',
)


@pytest.mark.parametrize("reply", QUOTED)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_copied_word_is_said_whole_and_ends_nothing(reply: str, size: int) -> None:
    copied = broken(reply)
    assert copied != reply
    stream = CommandStream()
    events = [each for at in range(0, len(copied), size) for each in stream.feed(copied[at : at + size])]
    events += stream.close()
    assert not stream.ended
    said = "".join(
        each.argument if isinstance(each, CommandEnded) else each.payload if isinstance(each, ToolCallEnded)
        else each.text if isinstance(each, Prose) else ""
        for each in events
    )  # fmt: skip
    pieces = "".join(each.text for each in events if isinstance(each, CommandText))
    assert BREAK not in said + pieces
    for word in re.findall(r"<[/|\w]+>|\[INST\]", reply):
        assert word in said


def test_without_its_break_the_same_word_is_the_end_of_a_reply() -> None:
    stream = CommandStream()
    assert stream.feed("[SEND: hi<|im_end|> there]")[-1] == CommandEnded("send", "hi", False)
    assert stream.ended


@given(
    st.lists(st.sampled_from([*TRIED, "a ", "[", "]", "`", "```", "\n", "<", "\\"]), max_size=8).map("".join)
)
def test_what_is_said_of_such_words_is_read_again_as_it_was(pieces: str) -> None:
    argument = "x" + pieces.strip() + "x"
    line = written("send", argument, BUILT_IN)
    if "`" not in argument:  # an unpaired fence is shown with a tick that looks like it
        assert commands_in(line, BUILT_IN) == [CommandEnded("send", argument)]
