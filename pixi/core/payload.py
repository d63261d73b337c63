"""The payload of a tool call written as text: up to the closing tag that stands outside a JSON string."""

import json
import re
from typing import Final

from pixi.core.tape import Tape

_STOP: Final = re.compile(r'["\\]|</tool-call\s{0,4}>', re.IGNORECASE)
_BLANK: Final = re.compile(r"\s*")
_END: Final = re.compile(r"</tool-call\s{0,4}>", re.IGNORECASE)
_END_TAG: Final = "</tool-call    >"


class Payload:
    """Reads one payload from a tape, from where the tape stands.

    Args:
        careful: look for the end outside JSON strings first. Without, the first closing tag is the end.
        ends: False where it is known that no closing tag comes any more.
        empty: the tag closed itself, there is no payload.

    Attributes:
        tool: the name of the tool that is called.
        ends: whether a closing tag may still come behind it.
        broken: 1 if a string never ended, so that all was read twice.
    """

    __slots__ = ("_careful", "_empty", "_in_string", "_start", "_tape", "broken", "ends", "tool")

    def __init__(
        self, tool: str, tape: Tape, *, careful: bool, ends: bool = True, empty: bool = False
    ) -> None:
        self.tool = tool
        self.broken = 0
        self._tape = tape
        self._careful = careful
        self._in_string = False
        self.ends = ends
        self._empty = empty
        self._start = tape.mark(tape.at)

    def read(self, final: bool) -> str | None:
        """The payload, once it is whole; None while it is not. The tape then stands behind the tag."""
        tape = self._tape
        if self._empty:
            tape.forget()
            return ""
        if final and not self.ends:
            return self._broken_off()
        while True:
            text = tape.text
            stop = _STOP.search(text, tape.at)
            if stop is None:
                tape.at = len(text) if final else self._beginning_of_tag(text)
                return self._broken_off() if final else None
            if stop[0] == "\\":
                if self._in_string and stop.end() == len(text) and not final:
                    tape.at = stop.start()
                    return None
                tape.at = min(stop.end() + self._in_string, len(text))
            elif stop[0] == '"':
                self._in_string = not self._in_string and self._careful
                tape.at = stop.end()
            elif self._in_string:
                tape.at = stop.end()
            else:
                return self._end(len(text) - stop.start(), len(text) - stop.end())

    def _end(self, from_tag: int, behind_tag: int) -> str:
        """End at a place told by how much text follows it, since rewinding may join earlier pieces."""
        tape = self._tape
        tape.rewind(self._start)
        payload = tape.text[tape.at : len(tape.text) - from_tag]
        tape.at = len(tape.text) - behind_tag
        tape.forget()
        return payload.strip()

    def _broken_off(self) -> str:
        """The reply is over: the first closing tag ends it, wherever it stands, or the JSON itself."""
        tape = self._tape
        tape.rewind(self._start)
        self.broken = 1
        end = _END.search(tape.text, tape.at) if self.ends else None
        self.ends = end is not None
        until, behind = end.span() if end else (_json_end(tape.text, tape.at),) * 2
        payload = tape.text[tape.at : until]
        tape.at = behind
        tape.forget()
        return payload.strip()

    def _beginning_of_tag(self, text: str) -> int:
        """Where what may be the beginning of the closing tag stands at the end of the text."""
        at = text.rfind("<", max(self._tape.at, len(text) - len(_END_TAG)))
        written = text[at:].lower() if at >= 0 else ""
        begins = written and (
            "</tool-call".startswith(written)
            or (written.startswith("</tool-call") and not written[len("</tool-call") :].strip())
        )
        return at if begins else len(text)


def _json_end(text: str, at: int) -> int:
    """Where the JSON value at `text[at]` ends; the end of the text where there is none."""
    blank = _BLANK.match(text, at)
    try:
        return json.JSONDecoder().raw_decode(text, blank.end() if blank else at)[1]
    except (ValueError, RecursionError):
        return len(text)
