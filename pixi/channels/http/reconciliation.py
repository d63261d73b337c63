"""Which talk the history of a chat program is: held against all that is kept of the person's talks."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from itertools import dropwhile, groupby
from typing import Any, Literal

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from pixi.channels.http.faces.chat_completions import CompletionOptions, text_of_turn
from pixi.channels.http.replies import acts_of
from pixi.channels.http.talks import KEPT_TURNS, Talks
from pixi.core.events import Numbering, TurnEnded
from pixi.core.message import Message, words_of
from pixi.settings.rules import HttpRules
from pixi.store.kept import Talk, TurnRecord
from pixi.store.store import Store

Role = Literal["user", "assistant"]
_SHORTEST_END = 2
"""Lines that must be the end of a talk to be taken for it: a person's and an answer."""
_TALKS = 20
"""Talks that a history without a name is compared with, latest first."""
_BRANCHES = 50
"""Branches of a talk with which a history is compared, latest first."""

LINE_ID, INSTRUCTIONS_ID = "told:", "told:app"
"""The begin of the ids of lines that a program has of a talk; and the id of its instructions."""

LONGEST_LINE = 4_000
"""Letters that are kept of a line of a program."""


# Which talk does a request of a chat program go on? The program sends its whole history and no name.
#
# Two histories are compared: what the program has (`history`) and what we have of each talk. Ours is never
# replaced by theirs. There are four answers:
#
# - Theirs is ours, or the end of ours (a program leaves out what is too long). The turn is added.
# - Theirs is the begin of ours: somebody asked for another answer, or edited what they said. Ours is cut off
#   there, and the turn is added.
# - Theirs is empty. A new talk.
# - Theirs is nobody's here, e.g. it was begun with another model. A talk made of their lines, marked as told
#   by a program. It is so too where they have no more than what was told before the first turn of a talk:
#   many talks may begin like that.
#
# What we have of a talk is more than its turns that have ended. A program that stops an answer only stops
# to read: the turn goes on here, and counts with what it has said so far. (As long as a program reads on,
# the turn is not cut off: other requests may have the same begin. Nor is anything cut off while a request is
# not on record yet. Who reads at another server is not known here: there, a turn may be cut off.) The lines
# that a program told when a talk began stand before its first turn. And a talk that was branched has several
# ways: as it stands, and as it would stand with what was set aside. A person who goes back to an earlier
# answer is on another way, which is restored first. Of all talks, the ways as they stand are compared first.
#
# Histories are compared as lines of two roles, white space folded. Neighbours of one role are one line: our
# several messages are one text there. What a persona answered without a visible word is the `silence` that
# the program was given. A program that was stopped has only the begin of an answer, which counts as the
# answer, also where it is empty. But an answer that failed is empty too, and would be the begin of each talk
# with the same first words: no talk is cut off behind an empty one, unless the program names the talk. A
# greeting that the program put above the first words of a person counts for nothing. Of a line of thousands
# of letters only the begin is compared: we keep no more of a told one. A program may ask for another answer
# in words of its own, and keep that answer alone: where nothing else is found, such turns are made one.
#
# What is not nice: two talks that were the same so far cannot be told apart, and the latest is taken; and
# the end of a talk may be the begin of another, and then it is a branch. A named talk has neither trouble.


class ClientLine(Struct, frozen=True):
    """A line of a history."""

    role: Role
    text: str


class KeptTurn(Struct, frozen=True, dict=True):
    """A turn on record.

    Attributes:
        turn: its number; 0: the words wait for a turn.
        asked: the words of the person.
        answered: what a program is given of the answer until now.
        history: lines that the program told before them.
        stays: it is not cut off: the words wait for a turn, or a program reads the answer still.
    """

    turn: int
    asked: str
    answered: str
    history: tuple[ClientLine, ...] = ()
    stays: bool = False

    @cached_property
    def lines(self) -> list[ClientLine]:
        """Lines told before, and the two of the turn; they are joined with those of no other turn."""
        answer = ClientLine("assistant", _fold(self.answered))
        return [*_folded([*self.history, ClientLine("user", self.asked)]), answer]


class KeptTalk(Struct, frozen=True, dict=True):
    """A talk on record, one way that it went.

    Attributes:
        name: of the talk.
        turns: oldest first.
        whole: false where earlier turns were left out.
        branch: the address of what must be put back to go on in this way; "": the talk stands so.
    """

    name: str
    turns: tuple[KeptTurn, ...]
    whole: bool = True
    branch: str = ""

    @cached_property
    def lines(self) -> list[ClientLine]:
        """The lines of its turns."""
        return [line for turn in self.turns for line in turn.lines]


class Continuation(Struct, frozen=True):
    """Where a request goes on.

    Attributes:
        name: of the talk; "": a new one.
        turn: the first of the turns that are cut off before; None: none is.
        branch: the address of what is put back before that; "": nothing.
        history: lines of the program that the talk has not, or that go with what is cut off. They stand
            before the new message.
    """

    name: str = ""
    turn: int | None = None
    branch: str = ""
    history: tuple[ClientLine, ...] = ()


def reconcile(
    history: Sequence[ClientLine], talks: Sequence[KeptTalk], *, folded: list[ClientLine] | None = None
) -> Continuation:
    """Find where a request goes on that names no talk.

    Args:
        history: the program's lines before the one to be answered.
        talks: those of the person with the persona, each way of each, latest first.
        folded: the lines of `history` as they are compared; None: they are made here.
    """
    theirs = _folded(history) if folded is None else folded
    return _found_also_reworded(theirs, talks) or Continuation(history=tuple(history) if theirs else ())


def reconcile_named(
    history: Sequence[ClientLine], ways: Sequence[KeptTalk], *, complete: bool
) -> Continuation:
    """Find where a request goes on in the talk that it names. It never leads to another.

    Args:
        history: the program's lines before the one to be answered.
        ways: those of the named talk, first as it stands.
        complete: whether `history` is known to be all that the program has of it; else a program that sends
            nothing but what is new is one that goes on.
    """
    theirs, stands = _folded(history), ways[0]
    if found := _found_also_reworded(theirs, ways, named=True):
        return found
    # A program that dropped what is old may have no more than our last answer.
    answer = " ".join(filter(None, (_fold(line.text) for line in history)))
    if not theirs and answer and stands.lines and answer == stands.lines[-1].text:
        return Continuation(stands.name)
    is_anew = not theirs or (stands.whole and _missing(theirs, stands.lines) is not None)
    if complete and is_anew and stands.turns and not any(turn.stays for turn in stands.turns):
        return Continuation(stands.name, stands.turns[0].turn, history=tuple(history) if theirs else ())
    return Continuation(stands.name)


def _found(theirs: list[ClientLine], ours: Sequence[KeptTalk], *, named: bool = False) -> Continuation | None:
    """Find the talk whose lines, or the begin or the end of them, are theirs.

    Args:
        theirs: lines of the program, folded.
        ours: talks, latest first.
        named: they are all ways of the one that the program names.
    """
    if not theirs:
        return None
    ours = sorted(ours, key=lambda talk: bool(talk.branch))  # as they stand comes first
    whole = [talk for talk in ours if talk.whole]
    for talk in whole:
        if theirs == talk.lines:
            return Continuation(talk.name, branch=talk.branch)
    for talk in whole:
        if _missing(theirs, talk.lines) == 0:
            return Continuation(talk.name, branch=talk.branch)
    for talk in whole if named or theirs[-1].text else ():
        missing = _missing(theirs, talk.lines)
        if missing is not None and (cut := _cut(talk, len(talk.turns) - missing)):
            return cut
    for talk in ours:
        if len(theirs) >= _SHORTEST_END and _is_end(theirs, talk.lines):
            return Continuation(talk.name, branch=talk.branch)
    return None


def _found_also_reworded(
    theirs: list[ClientLine], ours: Sequence[KeptTalk], *, named: bool = False
) -> Continuation | None:
    """Find the talk as `_found` does; else as a program has it that drops its own words, see `_reworded`."""
    if found := _found(theirs, ours, named=named):
        return found
    other = [_reworded(theirs, talk) for talk in ours if talk.lines[:1] == theirs[:1]]
    return _found(theirs, [talk for talk in other if talk], named=named)


def _reworded(theirs: Sequence[ClientLine], talk: KeptTalk) -> KeptTalk | None:
    """Return a talk with turns made one whose answer the program has in place of the one before.

    A program may ask for another answer in words of its own ("More concise") behind the answer that there
    is, and then keep the new one alone. None: the talk has no such turns.

    Args:
        theirs: lines of the program, folded.
        talk: begins as theirs.
    """
    ours = [turn.lines for turn in talk.turns]
    turns: list[KeptTurn] = []
    at, place = 0, 0  # lines of theirs that the turns have; the next of our turns
    while place < len(ours):
        turn, first, at = talk.turns[place], place, at + len(ours[place])
        if at <= len(theirs) and not _same(theirs[at - 1], ours[place][-1]):
            for later in range(place + 1, len(ours)):
                if ours[later][-1] == theirs[at - 1]:
                    place = later
                    break
            else:
                return None
            stays = any(each.stays for each in talk.turns[first : place + 1])
            turn = replace(turn, answered=talk.turns[place].answered, stays=stays)
        turns.append(turn)
        place += 1
    return replace(talk, turns=tuple(turns)) if len(turns) < len(ours) else None


def _cut(talk: KeptTalk, place: int) -> Continuation | None:
    """Cut a talk off at the turn of that place; None: it is the first, or a turn from there on stays."""
    if place <= 0 or any(turn.stays for turn in talk.turns[place:]):
        return None
    return Continuation(talk.name, talk.turns[place].turn, talk.branch)


# No bracket is within its words but behind a backslash, so that a text is read once however many begin in it.
_OWN_PICTURE = re.compile(r"!\[((?:[^\[\]\\\n]|\\.)*)\]\(https?://[^\s()]{1,300}/api/pictures/[0-9a-f]{32}\)")


# What Open WebUI writes before a person's words: passages of documents, in the last message alone; names of
# files.
_ADDED = re.compile(
    r"\A\s*(?:### Task:\s*Respond to the user query.*</context>\s*)?"
    r"(?:<attached_files>.*?</attached_files>)?",
    re.DOTALL,
)


def _fold(text: str) -> str:
    """Return a text as it is compared: white space folded, without what programs add, and not too long."""
    text = _ADDED.sub("", text, count=1)
    # On record, a picture that lies nowhere else is its words alone.
    return " ".join(_OWN_PICTURE.sub(r"\1", text.strip()[:LONGEST_LINE]).split())


def _folded(lines: Sequence[ClientLine]) -> list[ClientLine]:
    """Return lines as they are compared: from the first of a person on, neighbours of one role joined."""
    said = dropwhile(lambda line: line.role != "user", lines)
    return [
        ClientLine(role, " ".join(filter(None, (_fold(words_of(line.text)) for line in neighbours))))
        for role, neighbours in groupby(said, key=lambda line: line.role)
    ]


def _same(theirs: ClientLine, ours: ClientLine) -> bool:
    """Return True if two lines are the same, or theirs is the begin of our answer."""
    if theirs.role != ours.role:
        return False
    return theirs.text == ours.text or (theirs.role == "assistant" and ours.text.startswith(theirs.text))


def _all_same(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    return len(theirs) <= len(ours) and all(_same(a, b) for a, b in zip(theirs, ours, strict=False))


def _missing(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> int | None:
    """Return how many of our turns they lack at the end; None: theirs are not the begin of ours.

    They may lack the answer of their last turn, which they did not wait for.
    """
    return (len(ours) - len(theirs)) // 2 if _all_same(theirs, ours) else None


def _is_end(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    return len(theirs) < len(ours) and _all_same(theirs, ours[len(ours) - len(theirs) :])


class Reader(Struct, eq=False):
    """A request under way, whose program waits for an answer.

    Attributes:
        request_digest: the same of each retry.
        address: of the talk.
        request: the request itself.
        asked: its words are on record.
    """

    request_digest: str
    address: str
    request: web.Request
    asked: bool = False

    @property
    def is_there(self) -> bool:
        """Return True until the program goes away."""
        return self.request.transport is not None and not self.request.transport.is_closing()


class KnownTalks:
    """Finds the talks that the histories of programs go on with.

    Args:
        talks: all over HTTP.
        store: keeps them.
        rules: what the operator decided.

    Attributes:
        readers: all requests under way at this server.
    """

    def __init__(self, talks: Talks, store: Store, rules: HttpRules) -> None:
        self.readers: set[Reader] = set()
        self._talks = talks
        self._store = store
        self._rules = rules

    async def find(
        self, person: str, persona: str, history: Sequence[ClientLine], name: str, *, complete: bool
    ) -> Continuation:
        """Find the talk of a person with a persona that a history goes on with.

        Args:
            history: the program's lines before the one to be answered.
            name: of the talk; "": the program gives none.
            complete: see `reconcile_named`.
        """
        if name:
            kept = await self._store.talk(person, name, persona)
            if kept is None:
                return Continuation(history=tuple(history))
            return reconcile_named(history, await self._ways(kept), complete=complete)
        theirs, ours = _folded(history), list[KeptTalk]()
        for talk in await self._store.talks(person, persona, _TALKS) if theirs else ():
            ways = await self._ways(talk)
            ours += ways
            stands = ways[0]
            if stands.whole and theirs == stands.lines:
                break  # none of others can be nearer
        return reconcile(history, ours, folded=theirs)

    def is_running(self, address: str) -> bool:
        """Return True if a turn is under way in a talk, or a message waits for one."""
        channel = self._talks.channels.known(address)
        return channel is not None and not channel.feed.idle

    async def _ways(self, talk: Talk) -> list[KeptTalk]:
        """Return a talk as programs have it that take text alone: as it stands, then with each branch."""
        # First what is not on record, then what has not ended: what comes on meanwhile is seen behind it.
        unasked = any(not each.asked for each in self.readers if each.address == talk.address)
        unended = await self._unended(talk.address)
        ended = await self._ended(talk.address)
        known = {turn.turn for turn in ended}
        kept = {talk.address: [*ended, *(turn for turn in unended if turn.turn not in known)]}
        if unasked:
            kept[talk.address].append(KeptTurn(0, "", self._rules.silence, stays=True))
        alternatives = {each.branch: each for each in await self._store.alternatives(talk.address)}

        async def way(at: str) -> list[KeptTurn]:
            """Return the turns of a talk, or of a branch behind those of what it left."""
            if at not in kept:
                kept[at] = await self._ended(at)
            if (branch := alternatives.get(at)) is None:
                return kept[at]
            before = await way(branch.beside)
            return [*(turn for turn in before if 0 < turn.turn <= branch.after), *kept[at]]

        # Where a program reads an answer still, nothing else takes its place.
        stays = any(turn.stays for turn in kept[talk.address])
        branches = [""] if stays else ["", *reversed(list(alternatives)[-_BRANCHES:])]
        is_whole = len(ended) < KEPT_TURNS
        return [
            KeptTalk(talk.name, tuple(await way(branch or talk.address)), is_whole, branch)
            for branch in branches
        ]

    async def _ended(self, address: str) -> list[KeptTurn]:
        """Return the turns that have ended, of a talk or of a branch."""
        records = await self._store.turns(address, KEPT_TURNS)
        asked = await self._store.messages_of([record.id for record in records])
        return [self._turn_of(each.id, asked.get(each.id, ()), _visible(each)) for each in records]

    async def _unended(self, address: str) -> list[KeptTurn]:
        """Return the turn that is being written, as far as it has come, and what waits for another."""
        if not (self.is_running(address) or self._talks.peers.others):
            return []
        feed = (await self._talks.peers.join(address)).feed
        written = feed.turn
        async with aclosing(feed.follow(feed.begin_of_turn(), lambda: True)) as events:
            forms = [form async for some in events for form in some]
        last, asked = await self._store.last_asked(address)
        turns = []
        if written:
            said = (await self._store.messages_of([written])).get(written, ())
            is_read = any(each.is_there for each in self.readers if each.address == address)
            turns.append(replace(self._turn_of(written, said, forms), stays=is_read))
        if asked and last != written:
            turns.append(replace(self._turn_of(last or 0, asked, ()), stays=True))
        return turns

    def _turn_of(self, turn: int, asked: Sequence[Message], events: Iterable[Mapping[str, Any]]) -> KeptTurn:
        """Return a turn of its number, the messages that it answers, and the events of its answer."""
        options = CompletionOptions(silence="", reactions=self._rules.reactions)
        history = tuple(
            ClientLine("user" if each.author else "assistant", each.text)
            for message in asked
            for each in message.quoted
            if each.id.startswith(LINE_ID) and each.id != INSTRUCTIONS_ID
        )
        words = "\n".join(words_of(message.text) for message in asked)
        return KeptTurn(turn, words, text_of_turn(events, options) or self._rules.silence, history)


def _visible(record: TurnRecord) -> list[dict[str, Any]]:
    """Return the events of a turn that has ended which are seen by a program that takes text alone."""
    numbering = Numbering()
    ended = TurnEnded(record.finish or "cancelled", record.steps, record.usage)
    return [numbering.form(event) for event in (*acts_of(record, "", {}), ended)]
