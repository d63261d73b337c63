"""The new user line, stamped once: what was written since the last reply, by whom, when, and about what.

What strangers wrote stands on lines that begin with `> `, and nothing else does. A name is one short line in
quotation marks. So no text and no name can pass for the stamp of somebody else.

A message that comes due again stands in the history already. It is told by its number, its author and its
beginning, with the mark that it still waits; its pictures and what it rests on are not shown again."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.llm import TOKENS_PER_IMAGE, PartKind, Span, UserLine, estimate, shortened
from pixi.core.message import Author, Image, Message, Quoted
from pixi.core.untrusted import clipped, prompt_name, quoted, without_middle

_LONGEST_QUOTATION = 500
_LONGEST_CITED = 400  # characters of what a document says
_LONGEST_AGAIN = 200  # characters of a message that the history holds already
_CITED_SHORTLY = re.compile(r'\A(?:[^\n]+ says: "[^"\n]*"\n)+')  # as `_cited_shortly` writes it
_LONGEST_OWN = 100  # its history holds its own messages: it need only know which

STILL_WAITS = "still waits for your answer"
"""The mark of a message that comes due again."""

BROKE_OFF = "your reply above broke off: go on where it ended, and do not say again what stands there:"
"""The line above such messages, where a part of the reply to them was said."""

_BROKE_OFF_SHORTLY = "(Your reply broke off. Go on.)"

# Not from strftime: its names change with the process's locale, and the prompt with them.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


class Reminder(Struct, frozen=True):
    """A persona's knowledge of a person now: facts of one line, a stranger's words.

    Attributes:
        source: who tells that, e.g. an addon; "": the persona remembers it.
    """

    person: Author
    facts: tuple[str, ...]
    source: str = ""


class Citation(Struct, frozen=True):
    """A document's words on a question, a stranger's, and their place for people."""

    source: str
    text: str


def stamp(
    messages: Sequence[Message],
    reminders: Sequence[Reminder | Citation] = (),
    *,
    local_time: datetime,
    small: bool,
    group: bool,
    broke_off: bool = False,
) -> UserLine:
    """Return the new user line: what was written since the last reply, with who and when, and the pictures.

    Args:
        messages: in order, at least one.
        reminders: what comes to mind: facts of those who wrote the messages, left out where `small`; and
            what documents say.
        local_time: when the line is made, in the time zone to be told.
        small: only the texts and pictures, of those messages that are meant for the persona where any is,
            below what documents say.
        group: several people may talk here: each message gets its author's name and id.
        broke_off: the program ended in the midst of the reply to the messages that come due again, and what
            was said of it stands at the end of the history: the persona is to go on from there. Else it is
            to answer them.
    """
    messages = [recalled(message) for message in messages]
    if small:
        messages = [message for message in messages if message.addressed] or messages
        parts = [*_shortly(messages, reminders, broke_off=broke_off)]
    else:
        parts = [LinePart("stamp", _told_time(local_time)), *_reminding(reminders)]
        if broke_off:
            parts.append(LinePart("stamp", BROKE_OFF))
        parts += _Stamp(messages, group=group).parts()
    return _joined(parts, tuple(image for message in messages for image in message.images))


class LinePart(Struct, frozen=True, gc=False):
    """A part of a user line, see `Span`. `goes_on`: it stands behind the part before, in the same line."""

    kind: PartKind
    text: str
    people: tuple[str, ...] = ()
    pictures: int = 0
    about: str = ""
    goes_on: bool = False

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that came to mind, without the marks of quotation."""
        if _CITED_SHORTLY.fullmatch(f"{self.text}\n"):
            return (self.text.partition(' says: "')[2][:-1],)
        return tuple(row[1:].strip() for row in self.text.split("\n") if row.startswith(">"))


def _joined(parts: Iterable[LinePart], images: tuple[Image, ...]) -> UserLine:
    texts: list[str] = []
    spans: list[Span] = []
    for part in parts:
        texts.append(part.text if part.goes_on or not texts else f"\n{part.text}")
        spans.append(Span(len(texts[-1]), part.kind, part.people, part.pictures, part.about))
    return UserLine("".join(texts), images, tuple(spans))


def parts_of(line: UserLine) -> list[LinePart]:
    """Return the parts of a line, in order: joined by line breaks they are the line."""
    parts: list[LinePart] = []
    for part in _cut_apart(line) or (LinePart("words", line.text),):
        if part.goes_on:
            parts[-1] = replace(parts[-1], text=parts[-1].text + part.text)
        else:
            parts.append(part)
    return [shown for part in parts for shown in _shown(part)]


def _shown(part: LinePart) -> Iterator[LinePart]:
    """Yield the part; one of a message as two: the stamp, which is Pixi's own, and the words below it."""
    head, _, words = part.text.partition("\n")
    if part.kind != "stamp" or not (words or head.startswith(">")):
        yield part
    elif head.startswith(">"):
        yield replace(part, kind="words")
    else:
        yield replace(part, text=head)
        yield replace(part, kind="words", text=words)


def _cut_apart(line: UserLine) -> list[LinePart]:
    """Return the stretches of a line; none where it does not tell which they are."""
    parts: list[LinePart] = []
    at = 0
    for span in line.spans:
        text = line.text[at : at + span.length]
        goes_on = bool(parts) and not text.startswith("\n")
        text = text.removeprefix("\n") if parts else text
        parts.append(LinePart(span.kind, text, span.people, span.pictures, span.about, goes_on))
        at += span.length
    return parts if at == len(line.text) else []


def without(line: UserLine, person: str) -> UserLine | None:
    """Return a line without the words, the name and the pictures of a person, and reminders of them.

    None where no message is left in it, or where it does not tell whose words it holds.
    """
    parts = _cut_apart(line)
    kept = [part for part in parts if person not in part.people]
    if not any(_is_said(part) for part in kept):
        return None
    if len(kept) == len(parts):
        return line
    images: list[Image] = []
    if sum(part.pictures for part in parts) == len(line.images):
        at = 0
        for part in parts:
            if person not in part.people:
                images += line.images[at : at + part.pictures]
            at += part.pictures
    elif not any(_is_said(part) and part.people[0] == person for part in parts):
        images += line.images  # else it is not certain whose they are
    return _joined(kept, tuple(images))


def _is_said(part: LinePart) -> bool:
    """Return True for a part of a message."""
    return part.kind in ("stamp", "words") and bool(part.people)


def recalled(message: Message) -> Message:
    """Return a message as it is told: of one that comes due again its beginning, and no pictures."""
    if not message.again:
        return message
    return replace(message, text=clipped(message.text, _LONGEST_AGAIN), images=(), quoted=(), reply_to=None)


def _shortly(
    messages: Sequence[Message], reminders: Sequence[Reminder | Citation], *, broke_off: bool
) -> Iterator[LinePart]:
    """Yield the rows for a small model. Where its reply broke off, the words right above it are left out."""
    for each in reminders:
        if isinstance(each, Citation):
            yield LinePart("document", _cited_shortly(each), about=prompt_name(each.source))
    if broke_off:
        yield LinePart("stamp", _BROKE_OFF_SHORTLY)
    for message in messages:
        if not (broke_off and message.again):
            yield LinePart("words", message.text.strip(), (message.author.id,), len(message.images))


class _Stamp:
    """The blocks of one line: of each message the line above its words, and the words."""

    def __init__(self, messages: Sequence[Message], *, group: bool) -> None:
        self._messages = messages
        self._group = group
        self._numbered = group or len(messages) > 1
        self._numbers = {m.number for m in messages}
        self._earlier: set[str] = set()  # the ids of those that were quoted

    def parts(self) -> Iterator[LinePart]:
        last: Message | None = None
        for message in self._messages:
            earlier = list(self._rests_on(message))
            yield from earlier
            goes_on = not earlier and last is not None and _is_continued(last, message)
            yield from self._told(message, named=self._group or bool(earlier), goes_on=goes_on)
            last = message

    def _rests_on(self, message: Message) -> Iterator[LinePart]:
        """Yield the earlier messages that it rests on, as far as the persona was not shown them."""
        for each in message.quoted:
            own = each.author is None
            text = quoted(clipped(each.text, _LONGEST_OWN if own else _LONGEST_QUOTATION))
            if text and not self._is_known(each) and each.id not in self._earlier:
                self._earlier.add(each.id)
                told = f"earlier, {_whose(each.author)}:\n{text}"
                yield LinePart("stamp", told, _people(message.author, each.author))

    def _is_known(self, earlier: Quoted) -> bool:
        """Return whether its number tells which one it is: in the talk of two, single messages show none."""
        shown = self._group or earlier.number in self._numbers
        return earlier.author is not None and earlier.number > 0 and shown

    def _told(self, message: Message, *, named: bool, goes_on: bool) -> Iterator[LinePart]:
        """Yield somebody's words below a line of what need be said of them, in parts.

        Args:
            goes_on: the words above are the same person's, who need not be named again.
        """
        author, pictures = message.author, len(message.images)
        parts: list[str] = []
        if not (goes_on or message.addressed):
            parts.append("overheard")
        if named and not goes_on:
            parts.append(_whose(author))
        if message.again and message.addressed:
            parts.append(STILL_WAITS)
        if pictures:
            parts.append("1 picture" if pictures == 1 else f"{pictures} pictures")
        if (self._numbered or message.again) and message.number:
            if named and not goes_on:
                parts[0] = f"#{message.number} {parts[0]}"
            else:
                parts.insert(0, f"#{message.number}")
        own, words = (author.id,), quoted(message.text)
        last = message.quoted[-1] if message.quoted else None
        if last is not None and last.id == message.reply_to:
            if self._is_known(last):
                parts.append(f"replying to #{last.number}")
            elif last.author is None:
                parts.append(f"replying to {_whose(None)}")
            elif parts:  # it goes with either of the two
                yield LinePart("stamp", ", ".join(parts), own, pictures)
                told = f", replying to {_whose(last.author)}"
                yield LinePart("stamp", told, _people(author, last.author), goes_on=True)
                yield LinePart("stamp", f":\n{words}" if words else ":", own, goes_on=True)
                return
            else:
                yield LinePart("stamp", f"replying to {_whose(last.author)}:", _people(author, last.author))
        rows = []
        if parts:
            rows.append(f"{', '.join(parts)}:")
        if words:
            rows.append(words)
        if rows:
            yield LinePart("stamp", "\n".join(rows), own, pictures)


def _reminding(reminders: Sequence[Reminder | Citation]) -> Iterator[LinePart]:
    """Yield the blocks of reminders and citations, one for each person and place."""
    for reminder in reminders:
        match reminder:
            case Reminder(person, facts, source):
                source, name = prompt_name(source), prompt_name(person.name) or "somebody"
                told = f"you are told by {source}" if source else "you remember"
                head = f'{told} of "{name}" {told_id(person.id)}:'
                text = "\n".join([head, *filter(None, map(quoted, facts))])
                yield LinePart("notice" if source else "memory", text, (person.id,), about=source or name)
            case Citation(source, text):
                source = prompt_name(source)
                text = quoted(prompt_name(text, longest=_LONGEST_CITED))
                yield LinePart("document", f'your documents say, in "{source}":\n{text}', about=source)


def _cited_shortly(citation: Citation) -> str:
    """Return a citation on one line, for a small model: no quotation marks but those round the words."""
    return f'{prompt_name(citation.source)} says: "{prompt_name(citation.text, longest=_LONGEST_CITED)}"'


def without_additions(text: str) -> str:
    """Return a small model's line without the words of documents and the word to go on."""
    return _CITED_SHORTLY.sub("", text).removeprefix(_BROKE_OFF_SHORTLY).lstrip("\n")


def told_id(person: str) -> str:
    """Return the mark that names a person in a stamped line. A name stands before it, in quotation marks."""
    return f"(id {prompt_name(person)})"


def _is_continued(message: Message, following: Message) -> bool:
    """Return True if a message needs no line above it but that of the message before."""
    return (message.author, message.addressed, message.again) == (
        following.author,
        following.addressed,
        following.again,
    )


def _people(author: Author, other: Author | None) -> tuple[str, ...]:
    return (author.id,) if other is None else (author.id, other.id)


def _whose(author: Author | None) -> str:
    if author is None:
        return "your message"
    name = f'"{prompt_name(author.name) or "somebody"}" {told_id(author.id)}'
    return f"{name}, a bot" if author.is_bot else name


def _told_time(time: datetime) -> str:
    return f"{_DAYS[time.weekday()]} {time.day} {_MONTHS[time.month - 1]} {time.year}, {time:%H:%M}"


_LEAST = 200  # characters of a message, before the oldest of those that are answered together go
_GAP = 40  # characters: what a gap takes itself, so that there is no use in a smaller one


class LineFitter(Struct, frozen=True):
    """Makes lines that fit.

    Args:
        stamped: makes the line of messages.
        reminders: of those who wrote them, and what documents say.
        tokens: the most that a line may have, by estimate.
    """

    stamped: Callable[[Sequence[Message], Sequence[Reminder | Citation]], UserLine]
    reminders: Sequence[Reminder | Citation]
    tokens: float

    def line(self, messages: Sequence[Message]) -> UserLine:
        """Return the line of these messages, at least one.

        Where they are too long, there goes as much as must, in this order: what was merely overheard, the
        oldest first; what messages quote; what comes to mind; pictures; the middle of the longest messages.
        """
        messages = [recalled(message) for message in messages]  # what is not shown is not what is too long
        line = self.stamped(messages, self.reminders)
        if estimate(line) <= self.tokens:
            return line
        meant = self._with_less_overheard(messages)
        # Without the words that messages quote: whom each replies to is still told.
        bare = [replace(each, quoted=tuple(replace(one, text="") for one in each.quoted)) for each in meant]
        for told, reminders in ((meant, self.reminders), (bare, self.reminders), (bare, ())):
            if self._fits(told, reminders):
                return self.stamped(told, reminders)
        line = self.stamped(self._cut(self._with_fewer_pictures(bare)), ())
        return line if estimate(line) <= self.tokens else shortened(line, self.tokens)

    def _fits(self, messages: Sequence[Message], reminders: Sequence[Reminder | Citation] = ()) -> bool:
        return estimate(self.stamped(messages, reminders)) <= self.tokens

    def _with_less_overheard(self, messages: Sequence[Message]) -> list[Message]:
        """Drop the oldest overheard messages; keep of the latest what there is room for."""
        overheard = [message for message in messages if not message.addressed]
        if len(overheard) in (0, len(messages)):
            return list(messages)

        def left(gone: int) -> list[Message]:
            return _without(messages, overheard[:gone])

        def with_part(characters: int) -> list[Message]:
            short = _cut_to(replace(last, images=()), characters)
            return [short if message.id == last.id else message for message in left(gone - 1)]

        gone = _first(len(overheard), lambda gone: self._fits(left(gone), self.reminders))
        last = overheard[gone - 1]
        most = _first(len(last.text), lambda most: not self._fits(with_part(most), self.reminders)) - 1
        return with_part(most) if most >= _LEAST else left(gone)

    def _with_fewer_pictures(self, messages: list[Message]) -> list[Message]:
        """Drop the oldest pictures: as many as must go, or those that take more than half of the room."""
        pictures = sum(len(message.images) for message in messages)
        gone = _first(pictures, lambda gone: self._fits(_without_pictures(messages, gone)))
        less = _without_pictures(messages, gone)
        if self._fits(less):
            return less
        return _without_pictures(messages, max(0, pictures - int(self.tokens / (2 * TOKENS_PER_IMAGE))))

    def _cut(self, messages: list[Message]) -> list[Message]:
        """Cut the middle of the longest; drop the oldest, where they are too many for that."""
        short = [_cut_to(message, _LEAST) for message in messages]
        gone = _first(len(messages) - 1, lambda gone: self._fits(short[gone:]))
        left = messages[gone:]
        if gone:
            left[0] = replace(left[0], text=f"[… {gone} messages left out …]\n{left[0].text}")

        def cut(characters: int) -> list[Message]:
            return [_cut_to(message, characters) for message in left]

        longest = max(len(message.text) for message in left)
        return cut(max(0, _first(longest, lambda most: not self._fits(cut(most))) - 1))


def _first(end: int, holds: Callable[[int], bool]) -> int:
    """Return the first number below `end` from which on `holds` is true; `end` where there is none."""
    return bisect_left(range(end), True, key=holds)


def _without(messages: Iterable[Message], gone: Sequence[Message]) -> list[Message]:
    """Remove messages; replies to one of them quote it."""
    ids = {message.id for message in gone}
    return [
        replace(
            message, quoted=tuple(replace(one, number=0) if one.id in ids else one for one in message.quoted)
        )
        for message in messages
        if message.id not in ids
    ]


def _without_pictures(messages: Iterable[Message], gone: int) -> list[Message]:
    """Remove the oldest pictures; a line in the text tells that they are gone."""
    left = []
    for message in messages:
        fewer = min(gone, len(message.images))
        gone -= fewer
        told = f"{message.text}\n[… {fewer} pictures left out …]" if fewer else message.text
        left.append(replace(message, text=told, images=message.images[fewer:]))
    return left


def _cut_to(message: Message, characters: int) -> Message:
    """Return the message with so many characters of its text, from the beginning and the end."""
    text = message.text
    if len(text) <= characters + _GAP:
        return message
    return replace(message, text=without_middle(text, characters))
