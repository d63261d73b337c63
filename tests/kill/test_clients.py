"""What a person saw over HTTP is compared with what stands in the talk."""

import random
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from tests.kill.clients import Answer, HttpTalk, Said
from tests.kill.questions import Report


@pytest.mark.parametrize(
    ("texts", "whole", "found"),
    [
        ({(1, "1.0"): "q1 one", (1, "1.1"): "q1 two"}, {1}, []),
        ({(1, "1.0"): "q1 one"}, set(), []),  # it was cut, and the rest was read
        ({(1, "1.0"): "q1 one"}, {1}, ["(1, '1.1') is missing in an answer that ended"]),
        ({(1, "1.0"): "q1 on"}, set(), ["(1, '1.0') was answered as 'q1 on', and stands as 'q1 one'"]),
        ({(2, "2.0"): "q1 one"}, {2}, ["(2, '2.0') was answered as 'q1 one', and stands as None"]),
    ],
)
def test_an_answer_is_what_stands_in_the_talk(
    texts: dict[tuple[int, str], str], whole: set[int], found: list[str]
) -> None:
    report = Report()
    talk = HttpTalk("kitchen", [], Mock(), random.Random(1), report)
    talk.said = [
        Said("k", False, "q1 plain", 1),
        Said("1.0", True, "q1 one", 1),
        Said("1.1", True, "q1 two", 1),
    ]
    talk.answers.append(Answer(texts, whole))
    talk.compare()
    assert report.untrue == [f"kitchen: {fault}" for fault in found]
    assert report.clean == (not found)


@pytest.mark.parametrize(
    ("answer", "unheard"),
    [
        ({"turn": 0, "finish": "stop"}, ["q1: answered with nothing, as 'stop'"]),
        ({"turn": 0, "finish": "error"}, ["q1: answered with nothing, as 'error'"]),
        ({"turn": 0, "finish": "error", "error": "The model does not answer."}, []),
        ({"turn": 1, "finish": "error"}, []),
    ],
)
async def test_an_answer_with_nothing_is_excused_by_the_words_of_an_error(
    answer: dict[str, object], unheard: list[str]
) -> None:
    report, response = Report(), AsyncMock(status=200)
    response.json.return_value = answer | {"messages": []}
    http = MagicMock()
    http.post.return_value.__aenter__.return_value = response
    talk = HttpTalk("kitchen", ["http://here"], http, random.Random(1), report)
    assert await talk._whole("q1", "q1 plain", Answer())
    assert report.unheard == unheard
