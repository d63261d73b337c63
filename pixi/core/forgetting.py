"""What a person wrote, taken out of what is kept of a talk in which others took part."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from pixi.core.lines import UserLine
from pixi.core.stamps import BROKE_OFF, STILL_WAITS, told_id

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
