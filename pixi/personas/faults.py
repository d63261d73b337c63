"""What can be wrong with a persona file: a fault stops it, a remark only tells the author."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LintWarning:
    """Something that loads but is hardly meant. `line` counts from 1; `text` names the thing and the mend."""

    line: int
    text: str


class LintError(Exception):
    """The file cannot be a persona. Never leaves this package: the reader gathers them, with the file's name.

    Attributes:
        line: counts from 1.
        text: the thing and the mend, one line.
    """

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text
