"""What helpers make of the JSON that they are asked for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.knowledge.retrieval.replies import Claim, claims_in, numbers_in

GOOD = '{"relevant": [{"fact": "It has 23 arches.", "source": 3, "confidence": 0.9}, {"fact": "It is old.", "source": 4, "confidence": 0.5}]}'  # noqa: E501
WHOLE = (Claim("It has 23 arches.", 3, 0.9), Claim("It is old.", 4, 0.5))

READ_AS_WHOLE = {
    "plain": GOOD,
    "in a fence": f"```json\n{GOOD}\n```",
    "in prose": f"Sure! Here are the facts [1]:\n{GOOD}\nLet me know {{if}} you need more.",
    "after thoughts": f'<think>Perhaps {{"relevant": []}}? No.</think>\n{GOOD}',
    "after thoughts that began in the prompt": f"hm, [1] says so {{...}}\n</think>{GOOD}",
    "trailing commas": GOOD.replace("}]}", "},],}"),
    "single quotation marks": GOOD.replace('"', "'"),
    "curly quotation marks": GOOD.replace('"fact"', "“fact”"),
    "bare keys": GOOD.replace('"fact"', "fact").replace('"source"', "source"),
    "comments": GOOD.replace("[{", "[ // the facts\n{").replace("},", "}, /* more */"),
    "an end that is missing": GOOD.removesuffix("]}"),
    "an inner end that is missing": GOOD.removesuffix("}]}"),
    "no comma between": GOOD.replace("}, {", "} {"),
    "a bare list": GOOD.removeprefix('{"relevant": ').removesuffix("}"),
    "another name": GOOD.replace('"relevant"', '"facts"').replace('"fact"', '"quote"'),
    "a wrapper": GOOD.replace('{"relevant"', '{"answer": "yes", "items"'),
    "capital names": GOOD.replace('"relevant"', '"Relevant"').replace('"fact"', '"Fact"'),
    "percentages": GOOD.replace("0.9", '"90%"').replace("0.5", '"50 %"'),
    "of ten": GOOD.replace("0.9", "9").replace("0.5", "5"),
    "words": GOOD.replace("0.9", '"high"').replace(', "confidence": 0.5', ""),
    "sources in words": GOOD.replace("3,", '"[3]",').replace("4,", '["line 4"],'),
    "sources as objects": GOOD.replace("3,", '{"line": 3},'),
}


@pytest.mark.parametrize("reply", READ_AS_WHOLE.values(), ids=READ_AS_WHOLE)
def test_the_facts_are_read_whatever_they_stand_in(reply: str) -> None:
    found = claims_in(reply)
    assert (found.claims, found.certain) == (WHOLE, True)


PARTLY = {
    "cut in a fact": (GOOD[: GOOD.index("is old")], WHOLE[:1]),
    "cut before the source": (
        GOOD[: GOOD.index(', "source": 4')],
        (WHOLE[0], Claim("It is old.", None, 0.5)),
    ),
    "cut in a number": (GOOD[: GOOD.index("0.5") + 2], WHOLE),
    "strings": ('{"relevant": ["It has 23 arches.", "  "]}', (Claim("It has 23 arches.", None, 0.5),)),
    "one object": ('{"fact": "It is old.", "source": 4, "confidence": 0.5}', WHOLE[1:]),
    "quotation marks inside": (
        '{"relevant": [{"fact": "He said "hi" to me.", "source": 1, "confidence": 1}]}',
        (Claim('He said "hi" to me.', 1, 1.0),),
    ),
    "an apostrophe": (
        "{'relevant': [{'fact': 'It's the bridge's arch', 'source': 1, 'confidence': 1}]}",
        (Claim("It's the bridge's arch", 1, 1.0),),
    ),
    "nothing": ('{"relevant": []}', ()),
    "null": ('{"relevant": null}', ()),
    "a number without end": (
        '{"relevant": [{"fact": "a", "source": 2, "confidence": 6084057912000000}, {"fact": "b", "sou',
        (Claim("a", 2, 0.5), Claim("b", None, 0.5)),
    ),
    "not a number": (
        '{"relevant": [{"fact": "a", "source": true, "confidence": NaN}, {"fact": 3}, 7]}',
        (Claim("a", None, 0.5),),
    ),
}


@pytest.mark.parametrize(("reply", "claims"), PARTLY.values(), ids=PARTLY)
def test_what_is_whole_is_kept(reply: str, claims: tuple[Claim, ...]) -> None:
    found = claims_in(reply)
    assert (found.claims, found.certain) == (claims, True)


@pytest.mark.parametrize(
    "reply", ["", "I cannot.", "As line [12] says, no.", "{}", "null", "[[[[", "{" * 9_000]
)
def test_what_is_no_answer_in_form_is_prose(reply: str) -> None:
    assert not claims_in(reply).certain


def test_lines_of_prose_lose_their_bullets() -> None:
    found = claims_in('1. "It has 23 arches."\n\n* It is old.')
    assert [claim.text for claim in found.claims] == ["It has 23 arches.", "It is old."]


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ('{"keep": [3, 1, 3]}', [3, 1]),
        ("I keep [2, 5].", [2, 5]),
        ('```\n{"keep": ["[4]", 2.0,]}\n```', [4, 2]),
        ('{"keep": []}', []),
        ("none of them", None),
        ('{"keep": ["what"]}', None),
    ],
)
def test_chosen_numbers(reply: str, numbers: list[int] | None) -> None:
    assert numbers_in(reply) == numbers


@given(st.text(alphabet="{}[]\",:'\\ factrelevansouc0123\n`", max_size=200))
def test_nothing_breaks_it(reply: str) -> None:
    claims_in(reply)
    numbers_in(reply)


FACTS = st.lists(
    st.fixed_dictionaries(
        {
            "fact": st.text("ab\"',:\\é𐀀 ", min_size=1).filter(str.strip),
            "source": st.integers(0, 99),
            "confidence": st.sampled_from([0.0, 0.5, 1.0]),
        }
    ),
    max_size=5,
)


@given(FACTS, st.data())
def test_a_cut_loses_only_what_it_cuts(facts: list[dict[str, object]], data: st.DataObject) -> None:
    reply = json.dumps({"relevant": facts}, ensure_ascii=data.draw(st.booleans()))
    whole = claims_in(reply).claims
    assert {claim.text for claim in whole} == {str(fact["fact"]).strip() for fact in facts}
    cut = data.draw(st.integers(0, len(reply)))
    kept = claims_in(reply[:cut])
    if kept.certain:
        assert {claim.text for claim in kept.claims} <= {claim.text for claim in whole}
