"""The table of raw replies: `replies.json`, one case a line, under the heading of the rule that it shows.

A case says:

    name     what is special about it, in a few words
    reply    the raw text of the model
    names    the registered commands, where not the built-in ones: a list, or an object of name to aliases
    people   the names of those who are answered
    expect   what a person reading the reply would take it for, in order:
             ["prose", text], ["command", name, argument, complete], ["thought", text],
             ["tool_call", name, payload]; a command that names an earlier message has its number last
    prose    false: only what is not prose is compared
    ended    whether the reply is over before its text is
    why      a word on a case that may surprise; "Judged:" where the rules alone leave more than one answer
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from tests.conformance.reading import Outcome

TABLE = Path(__file__).with_name("replies.json")

Names = Mapping[str, Sequence[str]] | Sequence[str] | None


class _Row(TypedDict):
    name: str
    reply: str
    names: NotRequired[dict[str, list[str]] | list[str]]
    people: NotRequired[list[str]]
    expect: list[list[str | bool | int]]
    prose: NotRequired[bool]
    ended: NotRequired[bool]
    why: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table; `name` includes its heading."""

    name: str
    reply: str
    expect: tuple[Outcome, ...]
    names: Names = None
    people: tuple[str, ...] = ()
    with_prose: bool = True
    ended: bool | None = None


def load_cases() -> list[Case]:
    """All rows, in the order of the table."""
    table: dict[str, list[_Row]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return [_case(heading, row) for heading, rows in table.items() for row in rows]


def _case(heading: str, row: _Row) -> Case:
    unknown = row.keys() - _Row.__annotations__.keys()
    if unknown:
        raise ValueError(f"{TABLE.name}: {heading} / {row['name']}: unknown key {sorted(unknown)}")
    return Case(
        name=f"{heading} / {row['name']}",
        reply=row["reply"],
        expect=tuple(tuple(outcome) for outcome in row["expect"]),
        names=row.get("names"),
        people=tuple(row.get("people", ())),
        with_prose=row.get("prose", True),
        ended=row.get("ended"),
    )
