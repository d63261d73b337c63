"""Holds what people saw against what was asked and what the model wrote: nothing lost, nothing said twice."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from pixi.channels.discord.backend import parse_address
from pixi.channels.discord.outgoing.channel import NOTICE
from pixi.channels.discord.outgoing.delivery import POINTER
from pixi.testing.discord import FakeChannel, FakeMessage, User
from tests.soak.ledger import SORRY, Given, Ledger, Question

_SHOWN = 60
_NOTICE_SECONDS = 61.0  # a channel is told no more often than once a minute

Turns = Mapping[tuple[int, str, int], tuple[int | None, str]]
"""The turn that took a message and how it finished, by room, persona and message; None: it waits."""


@dataclass(slots=True)
class Verdict:
    """What came of the questions.

    Attributes:
        answered: a reply was posted, or put as a reaction.
        silent: the model chose to say nothing.
        superseded: a newer message came when the turn had used a tool and could not be begun again: it gave
            way, and the model was shown the question together with the newer one.
        told: the persona or the bot said that something went wrong.
        excused: deleted, reset, stopped or forgotten before there was an answer.
        lost: nothing of all that.
        twice: texts that were posted twice, questions that were answered twice, notices too many.
        false: posts that the model never wrote.
    """

    answered: int = 0
    silent: int = 0
    superseded: int = 0
    told: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """All that must not be, in a line each."""
        named = (("lost", self.lost), ("twice", self.twice), ("never written", self.false))
        return [f"{name}: {each}" for name, all_of in named for each in all_of]


class Judge:
    """Judges a town that has come to rest.

    Args:
        ledger: what was asked and written.
        bot: the bot's own user, and the one of its webhooks.
        turns: which turn took which message.
    """

    def __init__(self, ledger: Ledger, bot: User, application: int, turns: Turns) -> None:
        self._ledger = ledger
        self._bot = bot
        self._application = application
        self._turns = turns
        self._verdict = Verdict()
        self._given: defaultdict[str, list[Given]] = defaultdict(list)  # by the mark of the question
        for given in ledger.given.values():
            for mark in given.marks:
                self._given[mark].append(given)

    def judge(self, rooms: Iterable[FakeChannel]) -> Verdict:
        """All rooms."""
        by_room: defaultdict[int, list[Question]] = defaultdict(list)
        for question in self._ledger.questions.values():
            by_room[question.room.id].append(question)
        for room in rooms:
            self._room(room, by_room[room.id])
        return self._verdict

    def _room(self, room: FakeChannel, questions: list[Question]) -> None:
        posts = [each for each in (*room.messages, *room.deleted) if self._is_ours(each)]
        replies = self._replies(room, posts)
        self._look_for_doubles(room, posts)
        left: defaultdict[str, list[Question]] = defaultdict(list)
        for question in questions:
            answers = replies[question.mark]
            if len(answers) > 1:
                shown = ", ".join(f"r{one.number} ({one.kind})" for one in answers)
                self._verdict.twice.append(f"{question.mark} in {room!r} was answered by {shown}")
            if answers or question.seen is not None:
                self._verdict.answered += 1
            else:
                left[question.persona].append(question)
        for persona, unanswered in left.items():
            self._notices(room, persona, unanswered, posts)

    def _is_ours(self, message: FakeMessage) -> bool:
        return not message.interaction and (
            message.author is self._bot or message.application_id == self._application
        )

    def _replies(self, room: FakeChannel, posts: list[FakeMessage]) -> defaultdict[str, list[Given]]:
        """The replies that were posted to each question."""
        found: defaultdict[str, list[Given]] = defaultdict(list)
        for post in posts:
            text = _without_pointer(post.content)
            if text in (SORRY, NOTICE):
                continue
            given = self._ledger.replies_in(text)
            if len(given) != 1 or not any(text in each for each in given[0].texts):
                self._verdict.false.append(f"{text[:_SHOWN]!r} in {room!r}")
                continue
            for mark in given[0].marks:
                if given[0] not in found[mark]:
                    found[mark].append(given[0])
        return found

    def _look_for_doubles(self, room: FakeChannel, posts: list[FakeMessage]) -> None:
        texts = Counter(_without_pointer(each.content) for each in posts)
        for text, count in texts.items():
            if count > 1 and text not in (SORRY, NOTICE):
                self._verdict.twice.append(f"{text[:_SHOWN]!r} stands {count} times in {room!r}")

    def _notices(
        self, room: FakeChannel, persona: str, questions: list[Question], posts: list[FakeMessage]
    ) -> None:
        """Questions without an answer: each turn of them was told of by exactly one notice, or needs none."""
        wanted, free = self._without_answer(room, persona, questions)
        text = SORRY if persona == "pixi" else NOTICE
        notices = [each for each in posts if _without_pointer(each.content) == text]
        if text == SORRY:
            missing = wanted if len(notices) < len(wanted) else []
        else:  # the bot's own are given at most once a minute in each channel
            missing = [turn for turn in wanted if not _told_about(turn, notices)]
        self._lose(room, missing, len(notices))
        if len(notices) > len(wanted) + free:
            told = f"{len(notices)} notices in {room!r}, for {len(wanted)} turns that went wrong"
            self._verdict.twice.append(told)
        self._verdict.told += sum(len(turn) for turn in wanted if turn not in missing)

    def _without_answer(
        self, room: FakeChannel, persona: str, questions: list[Question]
    ) -> tuple[list[list[Question]], int]:
        """The turns of which people must have been told, and how many more there are of which they may."""
        by_turn: defaultdict[object, list[Question]] = defaultdict(list)
        for question in questions:
            turn, finish = self._turns.get((room.id, persona, question.message.id), (None, ""))
            if finish == "cancelled" and not question.excused and question.mark in self._ledger.shown_again:
                self._verdict.superseded += 1
            else:
                by_turn[question.mark if turn is None else turn].append(question)
        wanted: list[list[Question]] = []
        free = 0
        for together in by_turn.values():
            if any(each.excused for each in together) and any(map(self._is_reaction, together)):
                self._verdict.excused["reaction to what was deleted"] += len(together)
                free += 1
                continue
            needing = [each for each in together if not each.excused and not self._is_silent(each)]
            for each in together:
                if each.excused:
                    self._verdict.excused[each.excused] += 1
                elif each not in needing:
                    self._verdict.silent += 1
            if needing:
                wanted.append(needing)
            else:
                free += 1
        return wanted, free

    def _is_silent(self, question: Question) -> bool:
        """Whether the model chose to say nothing to it."""
        given = self._ledger.latest.get(question.mark)
        return given is not None and given.quiet

    def _is_reaction(self, question: Question) -> bool:
        given = self._ledger.latest.get(question.mark)
        return given is not None and given.reaction

    def _lose(self, room: FakeChannel, wanted: list[list[Question]], count: int) -> None:
        """Too few notices: nobody can tell which of the turns went without, so all are named."""
        for turn in wanted:
            for question in turn:
                asked = (
                    ", ".join(each.kind for each in self._given[question.mark]) or "the model was never asked"
                )
                self._verdict.lost.append(
                    f"{question.mark} in {room!r} ({asked}; {count} notices for {len(wanted)} turns)"
                )


def _told_about(turn: list[Question], notices: list[FakeMessage]) -> bool:
    """Whether a notice came after a turn began, or so shortly before that no other was due."""
    return any(notice.at > turn[0].asked - _NOTICE_SECONDS for notice in notices)


def _without_pointer(text: str) -> str:
    line, _, others = text.partition("\n")
    return others if line.startswith(POINTER) else text


def turns_in(path: Path) -> Turns:
    """Which turn took which message, as the store has it. It is a hint to what belongs together, no more."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as db:
        rows = db.execute(
            "SELECT messages.conversation, messages.id, turn, finish FROM messages"
            " LEFT JOIN turns ON turns.id = turn WHERE addressed = 1"
        ).fetchall()
    found: dict[tuple[int, str, int], tuple[int | None, str]] = {}
    for conversation, message, turn, finish in rows:
        address = parse_address(str(conversation))
        found[address.channel, address.persona, int(message)] = (turn, finish or "")
    return found
