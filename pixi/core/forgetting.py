"""Forgetting a person: their words are known again, and taken out of lines that hold more than theirs."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal

from pixi.core.lines import UserLine
from pixi.core.stamps import BROKE_OFF, STILL_WAITS, told_id
from pixi.core.untrusted import quoted

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


@dataclass(slots=True)
class _Said:
    """One message in a stamped line, with the earlier ones that are quoted above it."""

    who: str
    pictures: int
    lines: list[str]
    earlier: list[list[str]] = field(default_factory=list)


def without(line: UserLine, person: str) -> UserLine | None:
    """A stamped line without the words, the name and the pictures of a person, and reminders of them.

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
    """Whether a text names a person, or repeats what tells of their words.

    Args:
        text: what somebody else said in answer.
        names: the person's.
        words: what they wrote.
        besides: what others wrote, which may be repeated.
    """
    besides = besides.casefold()
    return PersonMatcher(names, (word for word in telling_words(words) if word not in besides)).is_in(text)


def telling_words(words: Iterable[str], besides: Iterable[str] = ()) -> set[str]:
    """The words of somebody that may tell of them, but for those that others used too."""
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
        """Whether it does."""
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
    """The messages of a line, without what is quoted of a person; None where it does not tell whose."""
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


PartKind = Literal["stamp", "words", "memory", "notice", "document", "summary"]
"""Of a part: `stamp` is Pixi's own line, `words` are what people wrote, the others came to mind."""

_TIME = re.compile(r"[A-Z][a-z]+day \d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d")
_HEADS: tuple[tuple[PartKind, re.Pattern[str]], ...] = (
    ("summary", re.compile(r"you remember of what was said here before:")),
    ("memory", re.compile(r'you remember of "(?P<about>[^"]*)" \(id (?P<id>[^)]*)\):')),
    ("notice", re.compile(r'you are told by (?P<about>[^"]*) of "[^"]*" \(id (?P<id>[^)]*)\):')),
    ("document", re.compile(r'your documents say, in "(?P<about>[^"]*)":')),
)
_CITED = re.compile(r'(?P<about>[^\n]+) says: "(?P<text>[^"\n]*)"')  # for a small model


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
        """Of what came to mind: each piece, without the marks of quotation."""
        if found := _CITED.fullmatch(self.text):
            return (found["text"],)
        return tuple(row[1:].strip() for row in self.text.split("\n") if row.startswith(">"))


def parts_of(text: str, said: str = "") -> list[LinePart]:
    """The parts of a user line, in order: joined by line breaks they are the line.

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
    """What came to mind, and the words that follow it."""
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
    """Those of a line for a small model, which holds words alone below what documents say."""
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
