"""Memory of people: facts, where they may be told again, and how a person is forgotten."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal

from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from pixi.core.llm import UserLine
from pixi.core.message import Audience, Venue
from pixi.core.stamps import BROKE_OFF, STILL_WAITS, told_id
from pixi.core.untrusted import clipped, quoted

LONGEST_FACT = 300
"""Characters of one fact."""
_WIDTH = {"one": 0, "some": 1, "all": 2}
_MORE = 2  # words that the fuller of two facts may have, and still be the same
_NEAR = 75  # of a hundred: what is less alike at a glance is not looked at closely
_SLIPS = 3  # words in which a typing mistake may stand
_JOINERS = "\u200c\u200d"  # unseen, and part of how Persian, Hindi and emoji are written
# Words of letters and digits; where a script parts no words, each of its characters.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]+")
# The lines that `stamp` puts above somebody's words. One without a name goes on from the one above.
_WHO = r'"[^"]*" \(id [^)]*\)'
_EARLIER = re.compile(rf"earlier, (?:your message|(?P<who>{_WHO})(?:, a bot)?):")
_HEAD = re.compile(
    rf"(?:#\d+)?(?: ?(?:overheard, )?(?P<who>{_WHO})(?:, a bot)?)?(?:(?:^|, ){STILL_WAITS})?"
    rf"(?:(?:^|, )(?P<pictures>\d+) pictures?)?"
    rf"(?P<answers>(?:^|, )replying to (?:#\d+|your message|(?P<whom>{_WHO})(?:, a bot)?))?:"
)
_REMINDER = re.compile(
    rf"you (?:remember|are told by [^\"]*) of {_WHO}:|your documents say, in \"[^\"]*\":"
    rf"|{re.escape(BROKE_OFF)}"
)
_TELLING = re.compile(r"\w{6,}|(?=\w*\d)\w{3,}")  # long words, and those with a number in them
_SHORTEST = 3  # characters of such a word
PartKind = Literal["stamp", "words", "memory", "notice", "document", "summary"]
"""Kind of a part: `stamp` is Pixi's own line, `words` are what people wrote, the others came to mind."""
_TIME = re.compile(r"[A-Z][a-z]+day \d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d")
_HEADS: tuple[tuple[PartKind, re.Pattern[str]], ...] = (
    ("summary", re.compile(r"you remember of what was said here before:")),
    ("memory", re.compile(r'you remember of "(?P<about>[^"]*)" \(id (?P<id>[^)]*)\):')),
    ("notice", re.compile(r'you are told by (?P<about>[^"]*) of "[^"]*" \(id (?P<id>[^)]*)\):')),
    ("document", re.compile(r'your documents say, in "(?P<about>[^"]*)":')),
)
_CITED = re.compile(r'(?P<about>[^\n]+) says: "(?P<text>[^"\n]*)"')  # for a small model


@dataclass(frozen=True, slots=True)
class Memory:
    """A fact that a persona was told by a person about themselves.

    Attributes:
        id: its number, unique in a store; 0: not kept yet.
        persona: the name of who remembers.
        person: the id of the author who told it.
        guild: where it was told, see `Venue`.
        conversation: the address of the talk in which it was told.
        audience: who could read that talk then.
        text: one line, a stranger's words.
        told: when, in seconds since the epoch.
    """

    id: int
    persona: str
    person: str
    guild: str
    conversation: str
    audience: Audience
    text: str
    told: float

    @property
    def where(self) -> tuple[str, str, str]:
        """The circle that it was told to: what is equal here may be heard in the same places."""
        return self.audience, self.guild, self.conversation if self.audience == "some" else ""


def may_be_told(memory: Memory, venue: Venue, conversation: str, present: Collection[str]) -> bool:
    """Return whether a memory may be told in a place.

    A DM with the person hears all. What was told to a whole guild is told again anywhere in that guild;
    what was told to some, in that same talk while it is no more public than it was; nothing else is.

    Args:
        conversation: the address of the talk in that place.
        present: ids of those whose messages are answered or overheard there.
    """
    if venue.audience == "one":
        return set(present) == {memory.person}
    if not _WIDTH[venue.audience] <= _WIDTH[memory.audience] or venue.guild != memory.guild:
        return False
    if memory.audience == "all" and venue.guild:
        return True
    return memory.conversation == conversation


def one_fact(text: str) -> str:
    """Return a fact as it is kept: one line, without what cannot be seen, cut where it is long."""
    line = " ".join("".join(c if c.isprintable() or c in _JOINERS else " " for c in text).split())
    return clipped(line, LONGEST_FACT)


def those_that_say_the_same(fact: str, others: Sequence[str]) -> list[int]:
    """Return the places of the facts among others that say the same as this one: see `says_the_same`."""
    near = process.extract_iter(
        fact, others, scorer=fuzz.token_set_ratio, processor=_plain, score_cutoff=_NEAR
    )
    return [place for _, _, place in near if says_the_same(fact, others[place])]


def says_the_same(one: str, other: str) -> bool:
    """Return whether two facts differ only in order, typing mistakes, and a word or two more in one of them.

    A word that is another one makes another fact, and so does another number.
    """
    ours, theirs = Counter(_words(one)), Counter(_words(other))
    common = (ours & theirs).total()
    left, right = list((ours - theirs).elements()), list((theirs - ours).elements())
    if min(len(left), len(right)) > _SLIPS:
        return False
    for word in list(left):
        twin = next((each for each in right if _is_a_slip(word, each)), None)
        if twin is not None:
            left.remove(word)
            right.remove(twin)
            common += 1
    more = left or right
    return not (left and right) and len(more) <= _MORE and common >= 2 * len(more)


def _words(text: str) -> list[str]:
    return _WORD.findall(_plain(text))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _is_a_slip(word: str, other: str) -> bool:
    """Return whether one is the other with a typing mistake."""
    shorter = min(len(word), len(other))
    if shorter < 5 or any(c.isdigit() for c in word + other):
        return False
    most = 1 if shorter < 8 else 2
    return OSA.distance(word, other, score_cutoff=most) <= most


@dataclass(slots=True)
class _Said:
    """A message in a stamped line, with the earlier ones that are quoted above it."""

    who: str
    pictures: int
    lines: list[str]
    earlier: list[list[str]] = field(default_factory=list)


def without(line: UserLine, person: str) -> UserLine | None:
    """Return a stamped line without the words, the name and the pictures of a person, and reminders of them.

    None where nothing is left of it, or where it does not tell whose words it holds.
    """
    time, *rest = line.text.split("\n")
    name = f'" {told_id(person)}'
    blocks = list(blocks_of(rest))
    reminders = list(takewhile(_is_reminder, blocks))
    said = _said(blocks[len(reminders) :], name)
    kept = [each for each in said or () if not each.who.endswith(name)]
    if said is None or not kept:
        return None
    blocks = [block for block in reminders if not block[0].endswith(f"{name}:")]
    blocks += [block for each in kept for block in (*each.earlier, each.lines)]
    text = "\n".join([time, *(row for block in blocks for row in block)])
    if len(kept) == len(said):
        return line if text == line.text else UserLine(text, line.images)
    owners = [each for each in said for _ in range(each.pictures)]
    if len(owners) != len(line.images):
        return UserLine(text)  # it is not certain whose they are
    ids = set(map(id, kept))
    return UserLine(text, tuple(i for i, owner in zip(line.images, owners, strict=True) if id(owner) in ids))


def tells_of(text: str, names: Iterable[str], words: Iterable[str], *, besides: str) -> bool:
    """Return whether a text names a person, or repeats what tells of their words.

    Args:
        text: what somebody else said in answer.
        names: the person's.
        words: what they wrote.
        besides: what others wrote, which may be repeated.
    """
    besides = besides.casefold()
    return PersonMatcher(names, (word for word in telling_words(words) if word not in besides)).is_in(text)


def telling_words(words: Iterable[str], besides: Iterable[str] = ()) -> set[str]:
    """Return the words of somebody that may tell of them, but for those that others used too."""
    own = {word for said in words for word in _TELLING.findall(said.casefold())}
    return own.difference(word for said in besides for word in _TELLING.findall(said.casefold()))


class PersonMatcher:
    """Knows whether a text names a person, or repeats one of the words that tell of them.

    Thousands of words cost a text little more than a few: only those are looked for that begin as some place
    of the text does.
    """

    def __init__(self, names: Iterable[str], telling: Iterable[str]) -> None:
        self._names = [name.casefold() for name in names if name.strip()]
        self._telling: dict[str, list[str]] = {}
        for word in telling:
            self._telling.setdefault(word[:_SHORTEST], []).append(word)

    def is_in(self, text: str) -> bool:
        """Return whether the text repeats something telling."""
        text = text.casefold()
        if any(_is_named(name, text) for name in self._names):
            return True
        begun = ((at, self._telling.get(text[at : at + _SHORTEST], ())) for at in range(len(text)))
        return any(text.startswith(word, at) for at, words in begun for word in words)


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.strip())}(?!\w)", text) is not None


def _is_reminder(block: list[str]) -> bool:
    return _REMINDER.fullmatch(block[0]) is not None


def _said(blocks: Iterable[list[str]], name: str) -> list[_Said] | None:
    """Return a line's messages, without what is quoted of a person; None where it does not tell whose."""
    said: list[_Said] = []
    earlier: list[list[str]] = []
    for head, *words in blocks:
        if quotation := _EARLIER.fullmatch(head):
            if not (quotation["who"] or "").endswith(name):
                earlier.append([head, *words])
            continue
        told = _HEAD.fullmatch(head)
        who = (told["who"] or (said[-1].who if said else "")) if told else ""
        if told is None or not who:
            return None  # no names, or the middle was left out: what comes after may be anybody's
        answers_them = (told["whom"] or "").endswith(name)
        shown = f"{head[: told.start('answers')]}:" if answers_them else head
        lines = [shown, *words] if shown != ":" else words
        said.append(_Said(who, int(told["pictures"] or 0), lines, earlier))
        earlier = []
    return said


def blocks_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the blocks of a stamped line: heads, each with the quoted lines under it."""
    block: list[str] = []
    for line in lines:
        if block and not line.startswith(">"):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of a user line, as it stands there.

    Attributes:
        about: of a memory the name of whom it tells, of others where it is from.
        person: of a memory and a notice: the id of the author of whom it tells.
    """

    kind: PartKind
    text: str
    about: str = ""
    person: str = ""

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that came to mind, without the marks of quotation."""
        if found := _CITED.fullmatch(self.text):
            return (found["text"],)
        return tuple(row[1:].strip() for row in self.text.split("\n") if row.startswith(">"))


def parts_of(text: str, said: str = "") -> list[LinePart]:
    """Return the parts of a user line, in order: joined by line breaks they are the line.

    `said`: what the message says that stands last, where it is known. In the talk of two no line stands above
    it, so that nothing else tells it from what came to mind.
    """
    first, *rest = text.split("\n")
    if _TIME.fullmatch(first):
        parts = [LinePart("stamp", first), *(part for block in blocks_of(rest) for part in _block(block))]
        return [*parts[:-1], *_without_words(parts[-1], quoted(said))]
    if _kind_of(first):  # a summary
        return list(_block([first, *rest]))
    return list(_short(text))


def _without_words(last: LinePart, words: str) -> list[LinePart]:
    """Return what came to mind, and the words that follow it."""
    if last.kind in ("stamp", "words") or not words or not last.text.endswith(f"\n{words}"):
        return [last]
    return [replace(last, text=last.text.removesuffix(f"\n{words}")), LinePart("words", words)]


def _block(block: list[str]) -> Iterator[LinePart]:
    head, *words = block
    if head.startswith(">"):
        yield LinePart("words", "\n".join(block))
    elif known := _kind_of(head):
        kind, found = known
        named = found.groupdict()
        yield LinePart(kind, "\n".join(block), named.get("about", ""), named.get("id", ""))
    else:
        yield LinePart("stamp", head)
        if words:
            yield LinePart("words", "\n".join(words))


def _short(text: str) -> Iterator[LinePart]:
    """Yield those of a line for a small model, which holds words alone below what documents say."""
    rows = text.split("\n")
    while rows and (found := _CITED.fullmatch(rows[0])):
        yield LinePart("document", rows.pop(0), found["about"])
    if rows:
        yield LinePart("words", "\n".join(rows))


def _kind_of(head: str) -> tuple[PartKind, re.Match[str]] | None:
    for kind, pattern in _HEADS:
        if found := pattern.fullmatch(head):
            return kind, found
    return None
