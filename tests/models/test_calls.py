"""Tool calls in pieces, in every way that servers number them."""

import json
from collections.abc import Iterable

import pytest

from pixi.core.llm import ToolCall
from pixi.models.dialects.chat import CallAssembler, CallPiece, FunctionPiece

Piece = tuple[int | None, str | None, str | None, str | None]


def assembled(pieces: Iterable[Piece]) -> list[ToolCall]:
    assembler = CallAssembler()
    for index, call_id, name, arguments in pieces:
        assembler.add(CallPiece(index, call_id, FunctionPiece(name, arguments)))
    return assembler.close()


TWO = [("look", '{"at": "cat"}'), ("bake", '{"what": "pancakes"}')]


def test_calls_without_number_id_and_arguments_are_told_apart_by_their_names() -> None:
    calls = assembled([(None, None, "look", None), (None, None, "bake", '{"what": "pie"}')])
    assert [(call.name, call.arguments) for call in calls] == [("look", "{}"), ("bake", '{"what": "pie"}')]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                (0, "a", "look", ""),
                (0, None, None, '{"at": '),
                (0, None, None, '"cat"}'),
                (1, "b", "bake", ""),
                (1, None, None, '{"what": "pancakes"}'),
            ],
            id="as OpenAI",
        ),
        pytest.param(
            [
                (0, "a", "look", '{"at"'),
                (1, "b", "bake", '{"what"'),
                (0, None, None, ': "cat"}'),
                (1, None, None, ': "pancakes"}'),
            ],
            id="side by side",
        ),
        pytest.param(
            [
                (1, "b", "bake", '{"what": '),
                (0, "a", "look", '{"at": '),
                (1, None, None, '"pancakes"}'),
                (0, None, None, '"cat"}'),
            ],
            id="the second index first",
        ),
        pytest.param(
            [(0, "a", "look", '{"at": "cat"}'), (0, "b", "bake", '{"what": "pancakes"}')], id="all numbered 0"
        ),
        pytest.param(
            [(0, None, "look", '{"at": "cat"}'), (0, None, "bake", '{"what": "pancakes"}')],
            id="all numbered 0, no ids",
        ),
        pytest.param(
            [
                (None, "a", "look", ""),
                (None, "a", None, '{"at": "cat"}'),
                (None, "b", "bake", ""),
                (None, "b", None, '{"what": "pancakes"}'),
            ],
            id="by id alone",
        ),
        pytest.param(
            [
                (None, "a", "look", '{"at": '),
                (None, "b", "bake", '{"what": '),
                (None, "a", None, '"cat"}'),
                (None, "b", None, '"pancakes"}'),
            ],
            id="by id alone, side by side",
        ),
        pytest.param(
            [
                (None, None, "look", ""),
                (None, None, None, '{"at": "cat"}'),
                (None, None, "bake", '{"what": '),
                (None, None, None, '"pancakes"}'),
            ],
            id="neither index nor id",
        ),
        pytest.param(
            [
                (0, "a", "look", '{"at'),
                (0, "a", "look", '": "cat"}'),
                (1, "b", "bake", '{"what": "pan'),
                (1, "b", "bake", 'cakes"}'),
            ],
            id="name and id with every piece",
        ),
        pytest.param(
            [
                (0, "a", "lo", ""),
                (0, None, "ok", ""),
                (0, None, None, '{"at": "cat"}'),
                (1, "b", "bake", '{"what": "pancakes"}'),
            ],
            id="a name in pieces",
        ),
        pytest.param(
            [(0, None, "look", '{"at": '), (0, "a", None, '"cat"}'), (1, "", "bake", '{"what": "pancakes"}')],
            id="an id that comes late, and an empty one",
        ),
        pytest.param(
            [(0, "a", "look", '{"at": "cat"}'), (1, "a", "bake", '{"what": "pancakes"}')],
            id="the same id twice",
        ),
    ],
)
def test_two_calls(pieces: list[Piece]) -> None:
    calls = assembled(pieces)
    assert [(call.name, call.arguments) for call in calls] == TWO
    ids = [call.id for call in calls]
    assert all(ids)
    assert len(set(ids)) == 2


def test_ids_of_the_server_are_kept() -> None:
    calls = assembled([(0, "call_x", "look", "{}"), (1, "call_y", "look", "{}")])
    assert [call.id for call in calls] == ["call_x", "call_y"]


def test_a_call_without_arguments_means_an_empty_object() -> None:
    assert [call.arguments for call in assembled([(0, "a", "look", None)])] == ["{}"]


def test_arguments_that_are_no_json_are_handed_on_as_they_came() -> None:
    assert [call.arguments for call in assembled([(0, "a", "look", '{"at": ')])] == ['{"at": ']


def test_arguments_that_come_as_an_object() -> None:
    assembler = CallAssembler()
    assembler.add(CallPiece(0, "a", FunctionPiece("look", {"at": "cat", "times": 2})))
    (call,) = assembler.close()
    assert json.loads(call.arguments) == {"at": "cat", "times": 2}


def test_a_piece_that_holds_nothing_is_no_call() -> None:
    assembler = CallAssembler()
    assembler.add(CallPiece(0, "a"))
    assert assembler.close() == []
