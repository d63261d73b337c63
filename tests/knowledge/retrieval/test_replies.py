"""What helpers make of the two fields that they are asked for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.knowledge.retrieval.findings import HelperReply, quoted, read_reply
from tests.knowledge.retrieval.scene import NOTHING
from tests.steps import assert_linear

GOOD = '{"answerable": true, "sentences": [33, 34]}'

READ_AS_WHOLE = {
    "plain": GOOD,
    "in a fence": f"```json\n{GOOD}\n```",
    "in prose": f"Sure! It is line [1] (see there):\n{GOOD}\nLet me know {{if}} you need more of [2].",
    "after the form": f'The form is {{"answerable": false, "sentences": [1]}}. Mine:\n{GOOD}',
    "after thoughts": f"<think>Perhaps {NOTHING}? No.</think>\n{GOOD}",
    "after thoughts that began in the prompt": f"hm, [1] says so {{...}}\n</think>{GOOD}",
    "trailing commas": GOOD.replace("]}", ",],}"),
    "single quotation marks": GOOD.replace('"', "'"),
    "curly quotation marks": GOOD.replace('"answerable"', "“answerable”"),
    "bare keys": GOOD.replace('"', ""),
    "Python": GOOD.replace("true", "True"),
    "words": GOOD.replace("true", '"yes"'),
    "a comment": GOOD.replace("[33", "[ // the lines\n33"),
    "an end that is missing": GOOD.removesuffix("]}") + ",",
    "an inner end that is missing": GOOD.removesuffix("]}") + "}",
    "no comma between": GOOD.replace(",", ""),
    "other order": '{"sentences": [33, 34], "answerable": true}',
    "another name": GOOD.replace("sentences", "lines"),
    "no flag": '{"sentences": [33, 34]}',
    "a bare list": "[33, 34]",
    "strings": GOOD.replace("33", '"33"').replace("34", '"[34]"'),
    "strings in words": GOOD.replace("33", '"line 33"').replace("34", '"Sentence 34."'),
    "all in one string": GOOD.replace("[33, 34]", '"33, 34"'),
    "a pair in a string": GOOD.replace("[33, 34]", '["[33, 34]"]'),
    "a range": GOOD.replace("33, 34", "33-34"),
    "a range in a string": GOOD.replace("33, 34", '"33–34"'),
    "a range in words": GOOD.replace("33, 34", '"33 to 34"'),
    "a list in a list": GOOD.replace("[33, 34]", "[[33, 34]]"),
    "objects": GOOD.replace("33, 34", '{"number": 33}, {"number": 34}'),
    "duplicates": GOOD.replace("34", "34, 33, 34, 33-34"),
    "decimals": GOOD.replace("33", "33.0"),
    "Persian digits": GOOD.replace("33", "۳۳"),
}


@pytest.mark.parametrize("reply", READ_AS_WHOLE.values(), ids=READ_AS_WHOLE)
def test_the_numbers_are_read_whatever_they_stand_in(reply: str) -> None:
    assert read_reply(reply) == HelperReply(True, (33, 34))


OTHERWISE = {
    "no": (NOTHING, HelperReply(False, ())),
    "no, and numbers": ('{"answerable": false, "sentences": [1, 2]}', HelperReply(False, (1, 2))),
    "nothing, without a flag": ('{"sentences": []}', HelperReply(False, ())),
    "yes, and nowhere": ('{"answerable": true, "sentences": []}', HelperReply(True, ())),
    "cut before the list": ('{"answerable": true, "sen', HelperReply(True, ())),
    "cut in a number": ('{"answerable": true, "sentences": [33, 3', HelperReply(True, (33,))),
    "cut in a list without a flag": ('{"sentences": [', HelperReply(None, ())),
    "numbers in words": ('{"answerable": true, "sentences": ["three"]}', HelperReply(True, ("three",))),
    "a quotation": (
        '{"answerable": true, "sentences": ["He said \\"3 \\u00bd\\": ok.", 4]}',
        HelperReply(True, ('He said "3 ½": ok.', 4)),
    ),
    "a number without end": (
        f'{{"answerable": true, "sentences": [{"9" * 9_000}]}}',
        HelperReply(True, (0,)),
    ),
    "a range without end": (
        '{"answerable": true, "sentences": ["1-999999999"]}',
        HelperReply(True, tuple(range(1, 52))),
    ),
    "a range backwards": ('{"answerable": true, "sentences": ["9-3"]}', HelperReply(True, (9, 3))),
    "more than anybody needs": (
        f'{{"answerable": true, "sentences": {list(range(1, 500))}}}',
        HelperReply(True, tuple(range(1, 101))),
    ),
    "prose": (
        '1. "It has 23 arches."\n\n* It is old.',
        HelperReply(None, ("It has 23 arches.", "It is old.")),
    ),
    "prose with a number": ("As line [12] says, no.", HelperReply(None, ("As line [12] says, no.",))),
    "silence": ("", HelperReply(None, ())),
    "a command": ("[SEND: It is line 3.]", HelperReply(None, ("[SEND: It is line 3.]",))),
}


@pytest.mark.parametrize(("reply", "read"), OTHERWISE.values(), ids=OTHERWISE)
def test_other_replies(reply: str, read: HelperReply) -> None:
    assert read_reply(reply) == read


@given(st.text(alphabet="{}[]\",:'\\ answerbltfu0123-\n`“”", max_size=200))
def test_nothing_breaks_it(reply: str) -> None:
    read_reply(reply)


@given(st.lists(st.integers(1, 999), max_size=9, unique=True), st.data())
def test_a_cut_loses_only_what_it_cuts(numbers: list[int], data: st.DataObject) -> None:
    reply = json.dumps({"answerable": True, "sentences": numbers})
    assert read_reply(reply).items == tuple(numbers)
    kept = read_reply(reply[: data.draw(st.integers(20, len(reply)))]).items
    assert kept == tuple(numbers[: len(kept)])


@pytest.mark.parametrize("piece", ["{", "[1-", '"', "'", "“", "sentences: ", "answerable: true ", "<think>"])
def test_an_odd_reply_takes_as_long_as_it_is(piece: str) -> None:
    assert_linear(lambda size: lambda: read_reply(piece * size), 500)


SENTENCES = {
    0: "The Khaju Bridge stands in Isfahan.",
    1: "It was built by Shah Abbas II around 1650, on the foundations of an older bridge.",
    2: "赵州桥位于河北省赵县，由隋代工匠李春设计建造。",
    3: "It is old.",
}


@pytest.mark.parametrize(
    ("quotation", "number"),
    [
        ("the khaju bridge stands in Isfahan", 0),
        ("[1] “The Khaju Bridge stands in Isfahan”", 0),
        ("It was built by Shah Abbas II around 1950, on the foundation of an older bridge.", 1),
        ("built by Shah Abbas II around 1650", 1),  # a piece of it
        ("赵州桥位于河北省赵县，由隋代工匠李冰设计建造。", 2),
        ("Shah Abbas II built it around 1650, on the foundations of an older bridge", 1),
        ("It was built by Napoleon on the banks of the Seine.", None),
        ("It is so old that nobody remembers any other bridge in this town or the next one.", None),
        ("old", None),
        ("…", None),
    ],
)
def test_a_quotation_stands_for_the_sentence_that_it_is_nearest_to(
    quotation: str, number: int | None
) -> None:
    assert quoted(quotation, SENTENCES) == number
