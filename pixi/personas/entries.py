"""Keys and values of a flat YAML mapping, every text as it is written and with its line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml
from yaml.reader import ReaderError

from pixi.core.untrusted import display_line
from pixi.personas.faults import LintError

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

_MENDS = (
    ("mapping values are not allowed", "a text that holds a colon stands in quotes"),
    ("'\\t' that cannot start", "indent with spaces, not with a tab"),
    ("cannot start any token", "put the text in quotes"),
    ("alias", "put a text that begins with * or & in quotes"),
    ("flow", "put the text in quotes, or close the bracket"),
    ("quoted scalar", "close the quotation marks"),
)
_MEND = "write each line as `key: text`"


@dataclass(frozen=True, slots=True)
class FrontMatterEntry:
    """One key and what stands behind it.

    Attributes:
        line: where the key stands, counted in the file.
        texts: the items of a list, or the one text.
        is_list: whether a list was written.
        quoted: whether the one text stood in quotes or in a block.
    """

    key: str
    line: int
    texts: tuple[str, ...]
    is_list: bool = False
    quoted: bool = False


def read_entries(text: str, first_line: int) -> Iterator[FrontMatterEntry]:
    """Read a YAML mapping of texts and lists of texts.

    It goes by the events of the YAML parser: nothing is constructed, nothing nests, and no text is
    guessed to be a number, a date or a truth value: `language: no` is Norwegian.

    Args:
        text: YAML, line breaks as `\\n`.
        first_line: the line of the file on which `text` begins.

    Raises:
        Fault: it is not YAML, or more of YAML than texts and lists of texts.
    """
    walk = _Walk(text, first_line)
    try:
        yield from walk.entries()
    except yaml.MarkedYAMLError as error:
        problem = f"{error.context or ''} {error.problem or ''}"
        mend = next((mend for sign, mend in _MENDS if sign in problem), _MEND)
        mark = error.problem_mark or error.context_mark
        raise LintError(walk.line_at(mark.index if mark else 0), f"this is not YAML: {mend}.") from error
    except ReaderError as error:
        raise LintError(walk.line_at(error.position), "delete the control character in this line.") from error
    except (ValueError, OverflowError) as error:
        # What chr() and int() raise inside the YAML parser, on an escape or a version that does not exist.
        raise LintError(first_line, "this is not YAML: it holds an escape that means nothing.") from error


def find_unfit(text: str) -> re.Match[str] | None:
    """The first control character or lone surrogate: no prompt, terminal or server takes them well."""
    return _UNFIT.search(text)


class _Walk:
    """One walk over the events of the YAML parser."""

    def __init__(self, text: str, first_line: int) -> None:
        self._text = text
        self._end = len(text.rstrip())
        self._first_line = first_line
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.SafeLoader)

    def line_at(self, index: int) -> int:
        """The line of a character. The YAML parser counts more line breaks than editors do."""
        return self._first_line + self._text.count("\n", 0, min(index, self._end))

    def entries(self) -> Iterator[FrontMatterEntry]:
        """The entries, in order. Raises `LintError`, and whatever the YAML parser raises."""
        event = self._next()
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = self._next()
        if isinstance(event, yaml.StreamEndEvent) or (
            isinstance(event, yaml.ScalarEvent) and not event.value
        ):
            return
        if not isinstance(event, yaml.MappingStartEvent):
            raise self._fault(event, f"{_MEND}.")
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            yield self._entry(event)
        for event in self._events:
            if not isinstance(event, yaml.DocumentEndEvent | yaml.StreamEndEvent):
                raise self._fault(event, "`...` ends the front matter too early: delete that line.")

    def _entry(self, event: yaml.Event) -> FrontMatterEntry:
        if not isinstance(event, yaml.ScalarEvent):
            raise self._fault(event, f"{_MEND}.")
        key, line = self._written(event), self._line(event)
        value = self._next()
        if isinstance(value, yaml.ScalarEvent):
            return FrontMatterEntry(key, line, (self._written(value),), quoted=value.style is not None)
        if not isinstance(value, yaml.SequenceStartEvent):
            raise self._fault(
                value, f"`{display_line(key, 40)}` is a text or a list: put the text in quotes."
            )
        texts: list[str] = []
        while not isinstance(item := self._next(), yaml.SequenceEndEvent):
            if not isinstance(item, yaml.ScalarEvent):
                raise self._fault(
                    item, f"an item of `{display_line(key, 40)}` is one text: put it in quotes."
                )
            texts.append(self._written(item))
        return FrontMatterEntry(key, line, tuple(texts), is_list=True)

    def _next(self) -> yaml.Event:
        event = next(self._events)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._fault(event, "put a text that begins with * or & in quotes.")
        if getattr(event, "tag", None) is not None:
            raise self._fault(event, "put a text that begins with ! in quotes.")
        return event

    def _written(self, event: yaml.ScalarEvent) -> str:
        unfit = find_unfit(event.value)
        if unfit:
            raise self._fault(event, f"delete the control character U+{ord(unfit[0]):04X}.")
        return str(event.value)

    def _fault(self, event: yaml.Event, text: str) -> LintError:
        return LintError(self._line(event), text)

    def _line(self, event: yaml.Event) -> int:
        return self.line_at(event.start_mark.index if event.start_mark else 0)
