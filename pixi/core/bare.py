"""A command whose bracket closed at once: `[SEND]`, or the BBCode form `[SEND]hello[/SEND]`."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from pixi.core.tags import tag_at
from pixi.core.tape import Tape
from pixi.core.vocabulary import Opening, Vocabulary

_STOP: Final = re.compile(r"[\[【［<]")
_LONGEST: Final = 4_096
"""Characters behind the bracket in which the closing tag is looked for."""


@dataclass(frozen=True, slots=True)
class Content:
    """The argument, untrimmed; `complete` is False where the reply broke off in it."""

    text: str
    complete: bool


class BareCommand:
    """Reads what stands behind `[SEND]`, from where the tape stands."""

    def __init__(self, opening: Opening, tape: Tape, vocabulary: Vocabulary) -> None:
        self.name = opening.name
        self.target = opening.target
        self._tape = tape
        self._vocabulary = vocabulary
        self._start = tape.mark(tape.at)

    def read(self, final: bool) -> Content | None:
        """Its argument, once that is certain; None while it is not. The tape then stands behind it.

        Up to a closing tag, everything is its argument. Without a tag, only what touches the bracket
        is: `[SEND]hello`, but not `[SEND]` and a sentence behind it. The reply ends at its token.
        """
        tape = self._tape
        while True:
            stop = _STOP.search(tape.text, tape.at)
            tape.at = stop.start() if stop else len(tape.text)
            if tape.read_since(self._start) > _LONGEST:
                return self._none()
            if stop is None:
                return self._touching(complete=False) if final else None
            content = self._at_tag(final) if stop[0] == "<" else self._at_bracket(final)
            if content == "more":
                return None
            if content is not None:
                return content
            tape.at += 1

    def _at_bracket(self, final: bool) -> Content | Literal["more"] | None:
        """None: it is only text."""
        tape = self._tape
        closing = self._vocabulary.closing(tape.text, tape.at, final)
        opening = None if closing else self._vocabulary.opening(tape.text, tape.at, final)
        if closing == "more" or opening == "more":
            return "more"
        if closing is not None and closing[0] == self.name:
            return self._until(closing[1], complete=True)
        return None if opening is None else self._touching(complete=True)

    def _at_tag(self, final: bool) -> Content | Literal["more"] | None:
        """None: it is only text."""
        tag = tag_at(self._tape.text, self._tape.at, final)
        if tag == "more":
            return "more"
        ends = tag is not None and tag.kind == "end"
        return self._touching(complete=False) if ends else None

    def _touching(self, *, complete: bool) -> Content:
        content = self._until(self._tape.at, complete=complete)
        if content.text and not content.text[0].isspace():
            return content
        self._tape.at -= len(content.text)
        return Content("", True)

    def _none(self) -> Content:
        self._tape.rewind(self._start)
        self._tape.forget()
        return Content("", True)

    def _until(self, end: int, *, complete: bool) -> Content:
        """All that was read; the tape goes on at `end`."""
        tape = self._tape
        # Told from the end of the text, since rewinding may join earlier pieces.
        unread, behind = len(tape.text) - tape.at, len(tape.text) - end
        tape.rewind(self._start)
        content = Content(tape.text[tape.at : len(tape.text) - unread], complete)
        tape.at = len(tape.text) - behind
        tape.forget()
        return content
