"""A talk as a terminal shows it, and the state of a reply: events in, lines out; no terminal needed."""

import time
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from prompt_toolkit.utils import get_cwidth

from pixi.channels.terminal.lines import ReadingIndicator, call_in_words
from pixi.channels.terminal.rows import Fragment, Line, framed, height, markdown_rows
from pixi.core.events import (
    Failed,
    Grew,
    Makes,
    Noted,
    Opened,
    Performed,
    Pictured,
    Progressed,
    Reacted,
    Sent,
    Shown,
    Sourced,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnEvent,
)
from pixi.core.message import Card
from pixi.core.untrusted import printable, printable_line

CURSOR = "▌"

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK_SECONDS = 0.1
_LONG_SECONDS = 10  # after which it is told how long one has waited


class PersonMessage(Struct):
    """A message of the person. Reactions are shown on it."""

    id: str
    who: str
    text: str
    reactions: list[str] = field(default_factory=list)


class OpenCommand(Struct):
    """A command whose argument is being written. What makes neither message nor note is not seen before it is
    performed."""

    id: str
    makes: Makes | None
    text: str = ""


class Delivered(Struct):
    """A message of the persona, or with `stopped` what was written of one before it was stopped."""

    text: str
    stopped: bool = False


class Note(Struct):
    """A private thought, shown while notes are switched on."""

    text: str


class StatusLine(Struct):
    """A line of the terminal's own: a tool call, an error, help. `style`: `aside`, `error`, `question`."""

    text: str
    style: str = "aside"


class CardFrame(Struct):
    """A card, and its picture as lines where it could be drawn. Kept as it was framed for `columns`."""

    card: Card
    picture: Sequence[Line]
    columns: int = 0
    lines: Sequence[Line] = ()

    def framed(self, columns: int) -> Sequence[Line]:
        """Frame the card for a terminal of so many columns."""
        if columns != self.columns:
            self.columns, self.lines = columns, framed(self.card, columns, self.picture)
        return self.lines


Entry = PersonMessage | OpenCommand | Delivered | Note | StatusLine | CardFrame


class Transcript:
    """The part of a talk that may still change: from the message being answered to the newest word.

    What is settled is taken out by `take`, printed once, and belongs to the terminal's own history.
    """

    def __init__(self, persona: str, *, notes: bool) -> None:
        self.persona = printable_line(persona)
        self.notes = notes
        self._entries: list[Entry] = []
        self._seen = False  # something of the turn was shown

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to be settled."""
        return not self._entries

    def say(self, message_id: str, who: str, text: str) -> None:
        """The person wrote a message."""
        self._entries.append(PersonMessage(message_id, printable_line(who), printable(text)))

    def tell(self, text: str, style: str = "aside") -> None:
        """The terminal itself has something to say."""
        self._entries.append(StatusLine(printable(text), style))

    def put(self, card: Card, picture: Sequence[Line] = ()) -> None:
        """A card was shown, with its picture if it could be drawn."""
        self._entries.append(CardFrame(card, picture))

    def react(self, message_id: str, emoji: str) -> None:
        """A reaction was put on a message: on its line if that can still change, else below."""
        for entry in self._entries:
            if isinstance(entry, PersonMessage) and entry.id == message_id:
                entry.reactions.append(printable_line(emoji))
                return
        self.tell(f"{self.persona} reacts {printable_line(emoji)}")

    def happened(self, event: TurnEvent) -> None:
        """Take in what happened."""
        self._seen |= isinstance(event, Sent | Reacted | Shown | Pictured | Performed | Failed) or (
            self.notes and isinstance(event, Noted)
        )
        match event:
            case Opened(_, makes, id):
                self._entries.append(OpenCommand(id, makes))
            case Grew(_, text, id):
                self._grow(id, printable(text))
            case Sent(text, id):
                self._perform(id, Delivered(printable(text).strip()))
            case Noted(text, id):
                self._perform(id, Note(printable(text).strip()))
            case Reacted(_, id):  # `react` knows which message it is on
                self._perform(id, None)
            case Performed(name, argument, id):
                shown = f"· {printable_line(name)}" + (f": {printable_line(argument)}" if argument else "")
                self._perform(id, StatusLine(shown))
            case ToolCalled(_, name, arguments):
                self.tell(f"· {call_in_words(name, arguments)}")
            case ToolAnswered(_, name, ok, result):
                if not ok:
                    self.tell(f"· {printable_line(name)} failed: {printable_line(str(result))}")
            case Sourced(sources):
                for each in sources:
                    self.tell(printable_line(f"· {each.title} {each.url}" if each.title else f"· {each.url}"))
            case Failed(text):
                self.tell(printable_line(text), "error")
            case TurnEnded(finish):
                self._give_up_drafts(cut=finish in ("cancelled", "error", "limit"))
                if finish == "stop" and not self._seen:
                    self.tell("· stays silent")
                self._seen = False
            case _:  # `put` shows cards and pictures, the status line tells of progress
                pass

    def lines(self, columns: int) -> list[Line]:
        """Return all that may still change, as lines for a terminal of so many columns."""
        return [line for entry in self._entries for line in self._shown(entry, columns)]

    def take(self, columns: int, room: int = 0) -> list[Line]:
        """Take settled entries out, oldest first, until the rest fits into `room` rows of the terminal.

        A draft is not settled, nor is what stands below one.
        """
        taken: list[Line] = []
        left = height(self.lines(columns), columns)
        while self._entries and not isinstance(self._entries[0], OpenCommand):
            shown = list(self._shown(self._entries[0], columns))
            if shown and left <= room:
                break
            del self._entries[0]
            left -= height(shown, columns)
            taken += shown
        return taken

    def _grow(self, act: str, text: str) -> None:
        for entry in reversed(self._entries):
            if isinstance(entry, OpenCommand) and entry.id == act:
                entry.text += text
                return

    def _perform(self, act: str, entry: Entry | None) -> None:
        """Put what was performed in the place of its draft.

        Commands are performed in their order, but one may come to nothing, a blank message for instance: the
        drafts before it were not performed. A command's second act has no draft, nor has a tool's.
        """
        done = [entry] if entry else []
        for place, each in enumerate(self._entries):
            if isinstance(each, OpenCommand) and each.id == act:
                before = [each for each in self._entries[:place] if not isinstance(each, OpenCommand)]
                self._entries = [*before, *done, *self._entries[place + 1 :]]
                return
        self._entries += done

    def _give_up_drafts(self, *, cut: bool) -> None:
        """Give up what was not performed; what a person saw of it stays, marked as cut off."""
        kept: list[Entry] = []
        for entry in self._entries:
            if not isinstance(entry, OpenCommand):
                kept.append(entry)
            elif cut and entry.makes == "message" and entry.text.strip():
                kept.append(Delivered(entry.text.strip(), stopped=True))
        self._entries = kept

    def _shown(self, entry: Entry, columns: int) -> Iterator[Line]:
        end: Fragment | None = None
        match entry:
            case PersonMessage(_, who, text, reactions):
                head, style = ("class:you", f"{who} › "), "class:said"
                end = ("class:reaction", "   " + " ".join(reactions)) if reactions else None
            case Delivered(text, stopped):
                head = ("class:persona", f"{self.persona} › ")
                style = "class:stopped" if stopped else "class:message"
                end = ("class:aside", " … (stopped)") if stopped else None
            case OpenCommand(_, "message", text) if text.strip():
                head, style = ("class:persona", f"{self.persona} › "), "class:message"
                end = ("class:cursor", CURSOR)
            case OpenCommand(_, "note", text) | Note(text) if self.notes and text.strip():
                head, style = ("class:note", "  · "), "class:note"
            case StatusLine(text, look):
                head, style = ("", "  "), f"class:{look}"
            case CardFrame():
                yield from entry.framed(columns)
                return
            case _:
                return
        margin = " " * min(get_cwidth(head[1]), columns // 3)
        plain = not isinstance(entry, Delivered | OpenCommand)
        rows = list(markdown_rows(text.strip("\n"), style, columns - len(margin), plain=plain))
        for number, row in enumerate(rows or [[(style, "")]]):
            line = [("", margin) if number else head, *row]
            yield [*line, end] if end and number == len(rows) - 1 else line


class ReplyStatus:
    """The state of a reply that is waited for, and what its turn is busy with; or what is being loaded.

    Attributes:
        busy: a reply is to come.
        loading: what is being loaded; "" for nothing.
    """

    def __init__(self, persona: str) -> None:
        self.busy = False
        self.loading = ""
        self._persona = persona
        self._busy_since = 0.0  # on the monotonic clock
        self._reading = ReadingIndicator()
        self._writing = False  # a message of the reply has begun
        self._doing = ""  # the tool that runs, or its progress

    def expect(self) -> None:
        """Note that a reply is to come."""
        if not self.busy:
            self.busy, self._busy_since = True, time.monotonic()

    def rest(self) -> None:
        """Note that no reply is to come."""
        self.busy = self._writing = False

    def happened(self, event: TurnEvent) -> None:
        """Take in what happened."""
        self._reading.happened(event)
        if not isinstance(event, TurnEnded):
            self.expect()  # it may be a reply that goes on by itself
        match event:
            case Opened(_, "message"):
                self._writing = True
            case ToolCalled(_, name, arguments):
                self._doing = f"{self._persona} {call_in_words(name, arguments)}"
            case Progressed(text):
                self._doing = printable_line(text)
            case TurnEnded() | ToolAnswered():
                self._doing = ""

    @property
    def turns(self) -> bool:
        """Return whether there is something to wait for, for which a spinner turns."""
        return self.busy or bool(self.loading)

    def line(self, columns: int) -> str:
        """Return the status line for a terminal of so many columns; "" where nothing is waited for."""
        spinner = SPINNER[int(time.monotonic() / TICK_SECONDS) % len(SPINNER)]
        reading = self._reading.words  # nearer to who waits for a reply than what is loaded beside
        if self.loading and not reading:
            return f"{spinner} {self.loading}"
        if not self.busy:
            return ""
        if self._doing:
            return f"{spinner} {self._doing}"
        doing = reading or self._thinking()
        if self._writing:
            doing = f"{self._persona} is writing"
        line, stops = f"{spinner} {doing}", " (Ctrl-C stops)"
        return line + stops if len(line + stops) <= columns else line

    def _thinking(self) -> str:
        waited = int(time.monotonic() - self._busy_since)
        told = f" · {waited} s" if waited >= _LONG_SECONDS else ""
        return f"{self._persona} is thinking{told}"
