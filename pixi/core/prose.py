"""Text outside the commands, on its way out: what belongs to a command's ornament is kept back from it."""

import re
from typing import Final, Literal

_LINE_ORNAMENT: Final = re.compile(r"[ \t]*(?:(?:[-*+>]|\d{1,2}[.)])[ \t]*)*[*_`~]*")
_LINE_ORNAMENT_BEGUN: Final = re.compile(_LINE_ORNAMENT.pattern + r"\d{0,2}")
_MARKS: Final = re.compile(r"[*_`~]*$")
_OPENING_FENCE: Final = re.compile(r"\s*```\w{0,16}[ \t]*\n\s*")
_CLOSING_FENCE: Final = re.compile(r"[ \t]{0,8}```[ \t]{0,8}(\n)?")
_CLOSING_FENCE_BEGUN: Final = re.compile(r"[ \t]{0,8}`{0,3}[ \t]{0,8}")
_WINDOW: Final = 64
_LEAD: Final = 65_536
"""Characters of leading prose that wait to be told from reasoning which ends in a lone `</think>`."""


class ProseText:
    """Collects prose and gives it out as soon as it is certain.

    `leading` until anything else came: prose that leads a reply may turn out to be reasoning. `fenced`
    while a fence that was opened round the whole reply is not closed.
    """

    __slots__ = ("_line_start", "_pending", "_size", "fenced", "leading")

    def __init__(self) -> None:
        self.leading = True
        self._pending: list[str] = []
        self._size = 0
        self._line_start = True  # whether what is pending begins a line
        self.fenced = False

    def command_passed(self) -> None:
        """A command came; what stood before it was given out elsewhere."""
        self.leading = False
        self._line_start = False

    def tag_passed(self) -> None:
        """A tag came; what follows begins as a line does."""
        self.leading = False
        self._line_start = True

    def closing_fence(self, text: str, at: int, final: bool) -> int | Literal["more"]:
        """Where the line behind the fence that closes the whole reply begins; `at` where there is none."""
        if not self.fenced:
            return at
        match = _CLOSING_FENCE.match(text, at)
        if match is None or (match[1] is None and not (final and match.end() == len(text))):
            begun = not final and _CLOSING_FENCE_BEGUN.fullmatch(text, at)
            return "more" if begun else at
        self.fenced = False
        return match.end()

    def add(self, text: str) -> None:
        """More prose."""
        self._pending.append(text)
        self._size += len(text)
        if self._size > _LEAD:
            self.leading = False

    def take(self, final: bool) -> str:
        """What is certain by now; all of it with `final`."""
        if not self._pending or (self.leading and not final):
            return ""
        text = self._join()
        return self._keep(text, len(text) if final else len(text) - len(self._ornament(text, begun=True)))

    def before_command(self) -> tuple[str, str]:
        """All of it but the ornament of the command that opens here; and the emphasis to close behind it."""
        text = self._join()
        ornament = self._ornament(text)
        text = text[: len(text) - len(ornament)]
        if self.leading and _OPENING_FENCE.fullmatch(text):
            self.fenced, text = True, ""
        self.command_passed()
        marks = _MARKS.search(ornament)
        return text, marks[0][::-1] if marks else ""

    def _join(self) -> str:
        text = "".join(self._pending)
        self._pending.clear()
        self._size = 0
        return text

    def _keep(self, text: str, at: int) -> str:
        """Give out the text before a place, and keep the rest back."""
        if at < len(text):
            self.add(text[at:])
        if at:
            self._line_start = text[at - 1] == "\n"
        return text[:at]

    def _ornament(self, text: str, *, begun: bool = False) -> str:
        """What at the end of the text may belong to a command behind it; `begun`: or may yet become that."""
        window = text[-_WINDOW - 1 :]  # with the line break before it
        line = window[window.rfind("\n") + 1 :]
        whole_line = "\n" in window or (self._line_start and len(text) <= _WINDOW)
        if whole_line and (_LINE_ORNAMENT_BEGUN if begun else _LINE_ORNAMENT).fullmatch(line):
            return line
        marks = _MARKS.search(line)
        return marks[0] if marks else ""
