"""The Markdown of a persona's file: its sections, and the examples among them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from msgspec import Struct

from pixi.core.language import BUILT_IN, CommandEnded, CommandStarted, CommandStream, Event, Prose
from pixi.core.persona import Example
from pixi.personas.front_matter import LintError, LintWarning

EXAMPLES = "Examples"
IN_SHORT = "In short"

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_ALMOST_HEADING = re.compile(r"(?:#{1,6}|\*\*)([^#*]{5,40})[*]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_SAID = re.compile(r" {0,3}> ?(.*)")
_CAPTION = re.compile(r" {0,3}#{1,6}[ \t].*")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_COMMAND_NAME = re.compile(r"[\s>*`-]*[\[【［][\s*]*([^\W\d][\w-]*)[\s*]*[:：\]】］]")
_DECORATION = " \t\r\n`*_~>-"  # characters round a command that are not said
_MOST_PLACES = 20  # in one reply that are told: an author who mends these sees the others
_ALIKE = 80  # likeness, out of 100, from which a heading counts as a mistyped section
_MISTYPED = 75  # the same for a name in small letters, as a mistyped command


class SourceLine(Struct, frozen=True):
    """A line of the file. `in_code` is true inside a code fence and on the fence itself."""

    number: int
    text: str
    in_code: bool = False


class Sections(Struct, frozen=True):
    """The parts of the Markdown; a part that is not there is empty."""

    prompt: tuple[SourceLine, ...]
    in_short: tuple[SourceLine, ...]
    examples: tuple[SourceLine, ...]
    remarks: tuple[LintWarning, ...]


def read_sections(text: str, first_line: int) -> Sections:
    """Take the sections for examples and for small models out of the prompt.

    Args:
        text: Markdown, line breaks as `\\n`.
        first_line: the line of the file on which `text` begins.

    Raises:
        LintError: one of the two sections stands twice.
    """
    parts: dict[str, list[SourceLine]] = {"": [], EXAMPLES: [], IN_SHORT: []}
    starts: dict[str, int] = {}  # the line on which each section begins
    remarks: list[LintWarning] = []
    current, level = "", 0  # the section of the present line ("": the prompt), and of its heading
    lines, open_fence = number_lines(text, first_line)
    if open_fence:
        remarks.append(
            LintWarning(open_fence, "this code fence never closes: end it with a line like this one.")
        )
    for line in lines:
        heading = None if line.in_code else _HEADING.fullmatch(line.text)
        name = _section_of(heading[2]) if heading else ""
        if name and heading:
            if name in starts:
                raise LintError(
                    line.number, f"`## {name}` stands on line {starts[name]} already: make them one section."
                )
            current, level, starts[name] = name, len(heading[1]), line.number
            continue
        if heading and current and (len(heading[1]) <= level or current == IN_SHORT):
            current = ""
        if not line.in_code:
            remarks.extend(_nearly_a_section(line))
        parts[current].append(line)
    return Sections(tuple(parts[""]), tuple(parts[IN_SHORT]), tuple(parts[EXAMPLES]), tuple(remarks))


def number_lines(text: str, first_line: int) -> tuple[list[SourceLine], int | None]:
    """Return the lines of a Markdown text, and the line on which a fence opens that never closes, if any."""
    lines: list[SourceLine] = []
    fence = ""  # the marks of the fence that is open
    opened_on: int | None = None
    for number, line in enumerate(text.split("\n"), first_line):
        mark = _FENCE.fullmatch(line)
        lines.append(SourceLine(number, line, in_code=bool(fence or mark)))
        if fence and mark and mark[1].startswith(fence) and not mark[2].strip():
            fence, opened_on = "", None
        elif mark and not fence:
            fence, opened_on = mark[1], number
    return lines, opened_on


def join(lines: Iterable[SourceLine]) -> str:
    """Return the text of the lines, without empty ones around it."""
    return "\n".join(line.text for line in lines).strip("\n").rstrip()


def _section_of(title: str) -> str:
    """Return which section a heading opens; "" for one of the prompt's own."""
    plain = title.strip("#*_:： \t").casefold()
    if plain in ("examples", "example"):
        return EXAMPLES
    return IN_SHORT if plain == "in short" else ""


def _nearly_a_section(line: SourceLine) -> Iterator[LintWarning]:
    """Yield a warning of a mistyped section heading: its section would silently become part of the prompt."""
    written = _ALMOST_HEADING.fullmatch(line.text.strip())
    if not written:
        return
    title = written[1].strip(" \t:：").casefold()
    for name in (EXAMPLES, IN_SHORT):
        if any(_alike(part, name.casefold()) for part in (title, title.partition(" ")[0])):
            yield LintWarning(
                line.number, f"`{line.text.strip()}` is read as part of the prompt: write `## {name}`."
            )


def _alike(one: str, other: str) -> bool:
    common = (Counter(one) & Counter(other)).total()
    if 200 * common < _ALIKE * (len(one) + len(other)):  # the ratio cannot reach it: nothing is imported
        return False
    from rapidfuzz import fuzz

    return fuzz.ratio(one, other) >= _ALIKE


class Exchange(Struct, frozen=True):
    """An exchange as it stands in the file. `said_on` is its first line."""

    said_on: int
    said: str
    reply: tuple[SourceLine, ...]

    @property
    def example(self) -> Example:
        """The exchange without its place."""
        return Example(self.said, join(self.reply))


def read_exchanges(lines: Iterable[SourceLine]) -> tuple[list[Exchange], list[LintWarning]]:
    """Read the section of examples: the exchanges, and warnings of lines that belong to none.

    Captions (`### …`) and rules (`---`) between the exchanges are left out. A reply may stand in a code
    fence; then nothing in it is Markdown.
    """
    exchanges: list[Exchange] = []
    remarks: list[LintWarning] = []
    for said, block in _pairs(lines):
        reply = _without_fence(block)
        if said and reply:
            text = "\n".join(line.text for line in said).strip()
            exchanges.append(Exchange(said[0].number, text, reply))
        elif said:
            text = "nothing answers this example: to show silence, reply with a NOTE alone."
            remarks.append(LintWarning(said[0].number, text))
        elif reply:
            text = "this belongs to no example: begin what is said with `> `."
            remarks.append(LintWarning(reply[0].number, text))
    return exchanges, remarks


def _pairs(lines: Iterable[SourceLine]) -> Iterator[tuple[list[SourceLine], list[SourceLine]]]:
    """Yield the lines of each quote with those of the reply below it; first those before any quote."""
    said: list[SourceLine] = []
    reply: list[SourceLine] = []
    quoting = False
    for line in lines:
        quote = None if line.in_code else _SAID.fullmatch(line.text)
        if quote:
            if not quoting:
                yield said, reply
                said, reply = [], []
            said.append(SourceLine(line.number, quote[1]))
        elif line.in_code or not (_CAPTION.fullmatch(line.text) or _RULE.fullmatch(line.text)):
            reply.append(line)
        quoting = bool(quote)
    yield said, reply


def _without_fence(block: list[SourceLine]) -> tuple[SourceLine, ...]:
    """Return a reply without empty lines around it, and without the fence round the whole of it."""
    reply = _without_margins(block)
    fenced = len(reply) > 1 and all(line.in_code for line in reply) and not reply[-1].text.strip(" `~")
    return _without_margins(reply[1:-1]) if fenced else reply


def _without_margins(lines: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
    filled = [index for index, line in enumerate(lines) if line.text.strip()]
    return tuple(lines[filled[0] : filled[-1] + 1]) if filled else ()


def check_reply(exchange: Exchange, commands: tuple[str, ...] | None) -> Iterator[LintWarning]:
    """Yield warnings of an example's reply that would not do what its author means.

    Args:
        commands: the commands that the persona may use; None: all.
    """
    allowed = {_canonical(name) for name in (BUILT_IN if commands is None else commands)}
    known = {name: BUILT_IN.get(name, ()) for name in sorted({*BUILT_IN, *allowed})}
    mistyped = dict(_mistyped(exchange.reply, {*known, *chain.from_iterable(known.values())}))
    outside: list[str] = []
    performed = False
    for number, event in _events(exchange.reply, CommandStream(known)):
        match event:
            case CommandStarted(name) if name not in allowed:
                yield LintWarning(number, f"the key `commands` does not name {name.upper()}: add it there.")
            case CommandEnded(_, _, complete):
                performed = True
                if not complete:
                    yield LintWarning(number, "this command never closes: end it with `]`.")
            case Prose(text):
                outside.extend(text.split("\n"))
            case _:
                pass
    yield from (LintWarning(number, text) for number, text in mistyped.items())
    if performed:
        for number in sorted(_lines_of(outside, exchange.reply) - mistyped.keys()):
            yield LintWarning(number, "this stands outside every command and is never said: use [SEND: …].")
    elif not mistyped:
        yield LintWarning(
            exchange.reply[0].number, "this reply holds no command: write [SEND: …], [REACT: …] or [NOTE: …]."
        )


def _canonical(name: str) -> str:
    """Return the name of a command that may be written as an alias of a built-in one."""
    lower = name.lower()
    for built_in, aliases in BUILT_IN.items():
        if lower in aliases:
            return built_in
    return lower


def _events(reply: tuple[SourceLine, ...], stream: CommandStream) -> Iterator[tuple[int, Event]]:
    """Yield the events of a reply, each with its line; the end of a command has that of its beginning."""
    number = opened = reply[0].number
    for line in reply:
        number = line.number
        for event in stream.feed(line.text + "\n"):
            opened = number if isinstance(event, CommandStarted) else opened
            yield (opened if isinstance(event, CommandEnded) else number), event
    for event in stream.close():
        yield (opened if isinstance(event, CommandEnded) else number), event


def _lines_of(texts: Iterable[str], reply: tuple[SourceLine, ...]) -> set[int]:
    """Return the lines on which texts stand. The stream may give prose late, so its events cannot tell."""
    numbers: set[int] = set()
    said = filter(None, (text.strip(_DECORATION) for text in texts))
    for text in islice(said, _MOST_PLACES):
        holding = [line.number for line in reply if text in line.text]
        numbers.add(holding[0] if holding else reply[0].number)
    return numbers


def _mistyped(reply: Iterable[SourceLine], names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield lines that begin with the bracket of a command whose name is not one."""
    for line in reply:
        written = _COMMAND_NAME.match(line.text)
        if not written or written[1].lower() in names:
            continue
        from rapidfuzz import fuzz, process

        nearest = process.extractOne(
            written[1].lower(), sorted(names), scorer=fuzz.ratio, score_cutoff=_MISTYPED
        )
        if nearest:
            yield line.number, f"[{written[1]}: …] is no command: do you mean [{nearest[0].upper()}: …]?"
        elif written[1].isupper():
            yield line.number, f"[{written[1]}: …] is no command: mend it, or name it under `commands`."
