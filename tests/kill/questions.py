"""The questions that people ask, the model that answers them, and what became of each in the end.

A question is answered in full once its three parts stood in its room, each once and in order: in one reply,
or in two where the first broke off and the persona was asked to go on. What the model does then, it knows
from the request alone: from the newest user line, and from what the history tells.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers.scripted_openai import Reply, Seen, Step, Wait, call, finish, stream, usage

PARTS = ("one", "two", "three")
SORRY = "where was I?"
"""What the persona says where a reply cannot be given any more: the question is told of, not answered."""

_QUESTION = re.compile(r"\b(q\d+) (plain|slow|tool|order)\b")
_NUMBER = re.compile(r"^#(\d+)\b[^\n]*:\n> [^\n]*\b(q\d+) (?:plain|slow|tool|order)\b", re.MULTILINE)
_TOOLS = {"tool": ("ledger", "entry"), "order": ("order", "thing")}

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question of the newest user line.

    Attributes:
        name: `q7`.
        how: it is answered: `plain`, `slow`, or after a call of a tool: `tool`, `order`.
        number: by which the persona names it; "" where it has none.
        again: it was named before: it comes due once more.
        parts: those that are to be said.
        called: the history holds the call of its tool.
    """

    name: str
    how: str
    number: str
    again: bool
    parts: tuple[str, ...]
    called: bool


def wanted(lines: list[Line]) -> list[Wanted]:
    """Return what is to be said to each question of the newest user line.

    One that comes due again is named there again, after an earlier line: of it there is to be said what the
    history does not hold yet.
    """
    newest = max(number for number, line in enumerate(lines) if line["role"] == "user")
    text = str(lines[newest]["content"])
    earlier = "\n".join(str(line["content"]) for line in lines[:newest] if line["role"] == "user")
    said = "\n".join(str(line.get("content") or "") for line in lines[:newest] if line["role"] == "assistant")
    calls = "\n".join(str(line["tool_calls"]) for line in lines if line.get("tool_calls"))
    numbers = {name: number for number, name in _NUMBER.findall(text)}
    found = []
    for name, how in dict(_QUESTION.findall(text)).items():
        again = re.search(rf"\b{name}\b", earlier) is not None
        known = parts_of(name, re.findall(rf"\b{name} [a-z ]+", said)) if again else []
        parts = tuple(part for part in PARTS if part not in known)
        called = re.search(rf"\b{name}\b", calls) is not None
        found.append(Wanted(name, how, numbers.get(name, ""), again, parts, called))
    return found


def parts_of(name: str, texts: Iterable[str]) -> list[str]:
    """Return the parts of the answer to a question that these texts hold, in order."""
    about = (text.split() for text in texts)
    return [word for words in about if words[:1] == [name] for word in words[1:] if word in PARTS]


def tells_of_a_tool(seen: Seen) -> bool:
    """Return True if a tool answered in this turn."""
    lines = seen.json()["messages"]
    newest = max(number for number, line in enumerate(lines) if line["role"] == "user")
    return any(line["role"] == "tool" for line in lines[newest + 1 :])


def reply_to(seen: Seen, questions: list[Wanted]) -> Reply:
    """Answer what the newest line asks, slowly enough to be killed in.

    One question is answered with three messages and a reaction, several with a reply to each by its number.
    """
    for each in questions:
        if each.how in _TOOLS and not each.called and not tells_of_a_tool(seen) and seen.json().get("tools"):
            tool, argument = _TOOLS[each.how]
            arguments = f'{{"{argument}": "{each.name}"}}'
            called = call(tool, arguments, index=0, call_id=f"c{each.name}")
            return stream(called, finish("tool_calls"))
    pieces: list[str | Step] = ["[NOTE: hm]\n"]
    for each in (each for each in questions if each.parts):
        if len(questions) > 1 and each.number:
            said = " ".join((each.name, *each.parts))
            pieces += [f"[REPLY #{each.number}: {said[:4]}", f"{said[4:]}]\n", Wait(0.008)]
            continue
        for part in each.parts:
            pieces += [f"[SEND: {each.name} ", f"{part}]\n", Wait(0.15 if each.how == "slow" else 0.004)]
            pieces += ["[REACT: 👍]\n"] if part == "one" else []
    return stream(*pieces, finish(), usage(50, 20))


@dataclass(slots=True)
class Report:
    """What came of the rounds.

    Attributes:
        asked: how many questions there were.
        told: how many of them were not answered, and told of.
        taken_back: how many were not answered, as their author asked anew before.
        lost: questions of which nothing was said.
        half: those of which something was said, and not all, or not in order.
        twice: parts of answers that were posted more than once, and orders that were given more than once.
        untrue: places where the history differs from what was posted.
        unheard: what stands in a talk, and an open window or an answer over HTTP does not show: told, and
            no fault of the record. Whoever reads the talk has it.
        unknown: acts whose outcome nobody knows.
        stuck: what is left to be done though nothing goes on any more.
        kills: how often the program was ended at each point.
        polite: how many of these ends were polite.
        unasked: how often a process ended that nobody had ended: the database was away at its start.
        slowest: how long the slowest of those took, in seconds.
        interrupted: questions whose answer stood half when the program ended.
        resumed: streams over HTTP that broke off amid a reply, and were gone on with.
    """

    asked: int = 0
    told: int = 0
    taken_back: int = 0
    lost: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    stuck: str = ""
    kills: Counter[str] = field(default_factory=Counter)
    polite: int = 0
    unasked: int = 0
    slowest: float = 0.0
    interrupted: int = 0
    resumed: int = 0

    @property
    def clean(self) -> bool:
        """Whether everything held."""
        return not (
            self.lost or self.half or self.twice or self.untrue or self.unheard or self.unknown or self.stuck
        )

    def judge(self, name: str, posts: Iterable[str], *, excused: bool, taken_back: bool = False) -> None:
        """Enter what became of a question.

        Args:
            name: of the question.
            posts: what the bot said in its room.
            excused: where it was not answered in full, a notice tells.
            taken_back: its author asked anew before it was answered in full.
        """
        parts = parts_of(name, posts)
        self.asked += 1
        self.twice += [f"{name} {part}" for part, count in Counter(parts).items() if count > 1]
        if tuple(dict.fromkeys(parts)) == PARTS:
            return
        if excused:
            self.told += 1
        elif taken_back:
            self.taken_back += 1
        elif parts:
            self.half.append(f"{name}: {' '.join(parts)}")
        else:
            self.lost.append(name)

    def __str__(self) -> str:
        points = ", ".join(f"{count} {point}" for point, count in sorted(self.kills.items()))
        total = self.kills.total()
        return (
            f"{total - self.polite} kills and {self.polite} polite ends, the slowest in {self.slowest:.1f} s "
            f"({points}), {self.unasked} ended by themselves; {self.asked} questions, {self.told} told of, "
            f"{_counted(self.lost, 'lost')}, {_counted(self.half, 'half')}, {_counted(self.twice, 'twice')}, "
            f"{_counted(self.untrue, 'wrong histories')}, {_counted(self.unknown, 'unknown acts')}, "
            f"{self.interrupted} answers cut short, {self.resumed} streams gone on with, "
            f"{_counted(self.unheard, 'unheard over HTTP')}, {self.taken_back} taken back"
            f"{', stuck: ' if self.stuck else ''}{self.stuck}"
        )


def _counted(found: list[str], what: str) -> str:
    """How many there are, with an example."""
    return f"{len(found)} {what}{f' ({found[0]})' if found else ''}"
