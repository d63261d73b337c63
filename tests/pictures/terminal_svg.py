"""Screens of a terminal as an SVG: one as a still, several as a film that plays again and again.

A screen is rows of runs: text in one style that begins at a column. In a film each run is one element, shown
and hidden by a CSS animation. So a run that stays is written once, however many screens have it, and a film
of half a minute is some tens of kilobytes. Runs are fitted to their columns, whatever font the reader has;
frames are drawn as lines, so that they have no gaps.

Whoever asks for less motion sees the last screen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from wcwidth import wcswidth, wcwidth

CELL, LINE, FONT = 8.4, 20, 14  # pixels: width and height of a cell, size of the letters
_MARGIN = 14

_BOX = {  # from the centre of a cell: left, right, up, down
    "─": "lr",
    "━": "lr",
    "│": "ud",
    "╭": "rd",
    "╮": "ld",
    "╰": "ru",
    "╯": "lu",
}

THEMES: Mapping[str, Mapping[str, str]] = {
    "dark": {
        "ground": "#0d1117",
        "edge": "#30363d",
        "default": "#e6edf3",
        "bright_black": "#8b949e",
        "red": "#ff7b72",
        "green": "#56d364",
        "yellow": "#e3b341",
        "blue": "#79c0ff",
        "magenta": "#d2a8ff",
        "cyan": "#56d4dd",
    },
    "light": {
        "ground": "#ffffff",
        "edge": "#d0d7de",
        "default": "#1f2328",
        "bright_black": "#656d76",
        "red": "#cf222e",
        "green": "#1a7f37",
        "yellow": "#9a6700",
        "blue": "#0969da",
        "magenta": "#8250df",
        "cyan": "#1b7c83",
    },
}


@dataclass(frozen=True, slots=True)
class Look:
    """How a run looks. `colour` is a name of `THEMES`."""

    colour: str = "default"
    bold: bool = False
    italic: bool = False
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Text in one look, and where it begins; `row` and `column` count from 0."""

    row: int
    column: int
    text: str
    look: Look


Screen = frozenset[Run]


def screen_of(rows: Iterable[Iterable[tuple[str, Look]]]) -> Screen:
    """Return the screen of rows of styled text; what cannot be seen is left out."""
    return frozenset(run for row, parts in enumerate(rows) for run in _runs(row, parts))


def _runs(row: int, parts: Iterable[tuple[str, Look]]) -> Iterator[Run]:
    column = 0
    for look, same in groupby(parts, key=lambda part: part[1]):
        for _, letters in groupby("".join(text for text, _ in same), key=_kind):
            piece = "".join(letters)
            start, end = (0, len(piece)) if look.reverse else _seen(piece)
            if start < end:
                yield Run(row, column + start, piece[start:end], look)
            column += max(0, wcswidth(piece))


def _seen(text: str) -> tuple[int, int]:
    return len(text) - len(text.lstrip()), len(text.rstrip())


def _kind(letter: str) -> str:
    """Letters of one kind can be one run: of the font's own width, wide ones, lines of one kind."""
    if letter in _BOX:
        return letter
    return "wide" if wcwidth(letter) != 1 else "word"


def svg(
    screens: Sequence[tuple[float, Screen]],
    *,
    columns: int,
    rows: int,
    seconds: float,
    theme: str,
    title: str,
) -> str:
    """Return the picture.

    Args:
        screens: each with the second from which on it is seen; one alone makes a still.
        columns: of the terminal.
        rows: of the terminal.
        seconds: how long the film takes until it plays again.
        theme: `dark` or `light`.
        title: what it shows, for people who do not see it.
    """
    colours = THEMES[theme]
    width, height = columns * CELL + 2 * _MARGIN, rows * LINE + 2 * _MARGIN
    last = screens[-1][1]
    lifetimes = _lifetimes(screens, seconds)
    animations = {
        spans: f"t{number}"
        for number, spans in enumerate(sorted({*lifetimes.values()}))
        if spans != ((0.0, seconds),)
    }
    drawn = [
        _element(run, colours, animations.get(lifetimes[run], ""), last=run in last)
        for run in sorted(lifetimes, key=lambda run: (run.row, run.column, run.text))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_style(animations, seconds)}</style>",
            f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="10" '
            f'fill="{colours["ground"]}" stroke="{colours["edge"]}"/>',
            f'<g transform="translate({_MARGIN},{_MARGIN})" xml:space="preserve">',
            *drawn,
            "</g></svg>\n",
        ]
    )


Spans = tuple[tuple[float, float], ...]


def _lifetimes(screens: Sequence[tuple[float, Screen]], seconds: float) -> dict[Run, Spans]:
    """When each run is seen, as (from, to)."""
    seen: dict[Run, list[tuple[float, float]]] = {}
    ends = [*(begin for begin, _ in screens[1:]), seconds]
    for (begin, screen), end in zip(screens, ends, strict=True):
        for run in screen:
            spans = seen.setdefault(run, [])
            if spans and spans[-1][1] == begin:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((begin, end))
    return {run: tuple(spans) for run, spans in seen.items()}


def _style(animations: Mapping[Spans, str], seconds: float) -> str:
    rules = [
        'text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;'
        f"font-size:{FONT}px;white-space:pre}}",
        f".m{{visibility:hidden;animation:{seconds:g}s step-end infinite}}",
        "@media (prefers-reduced-motion:reduce){.m{animation:none}.z{visibility:visible}}",
    ]
    for spans, name in animations.items():
        frames = {0.0: "hidden"}
        for begin, end in spans:
            frames[begin] = "visible"
            if end < seconds:
                frames[end] = "hidden"
        steps = "".join(
            f"{100 * at / seconds:.4g}%{{visibility:{how}}}" for at, how in sorted(frames.items())
        )
        rules.append(f"@keyframes {name}{{{steps}}}.{name}{{animation-name:{name}}}")
    return "".join(rules)


def _element(run: Run, colours: Mapping[str, str], animation: str, *, last: bool) -> str:
    """A run as an element of the picture."""
    colour, x, y = colours[run.look.colour], run.column * CELL, run.row * LINE
    moving = f' class="m {animation}{" z" if last else ""}"' if animation else ""
    if run.text[0] in _BOX:
        thick = ' stroke-width="3"' if run.text[0] == "━" else ""
        return f'<path d="{_lines(run)}" stroke="{colour}" fill="none"{thick}{moving}/>'
    cells = max(1, wcswidth(run.text))
    ground = ""
    if run.look.reverse:
        ground = f'<rect x="{x:g}" y="{y:g}" width="{cells * CELL:g}" height="{LINE}" fill="{colour}"/>'
        colour = colours["ground"]
    style = (' font-weight="bold"' if run.look.bold else "") + (
        ' font-style="italic"' if run.look.italic else ""
    )
    fit = f' textLength="{cells * CELL:g}" lengthAdjust="spacingAndGlyphs"'
    text = f'<text x="{x:g}" y="{y + 15:g}" fill="{colour}"{style}{fit}'
    if ground:
        return f"<g{moving}>{ground}{text}>{escape(run.text)}</text></g>"
    return f"{text}{moving}>{escape(run.text)}</text>"


def _lines(run: Run) -> str:
    """The lines of characters that draw frames; such a run is of one character, once or several times."""
    y = run.row * LINE
    middle = y + LINE / 2
    if (ways := _BOX[run.text[0]]) == "lr":
        return f"M{run.column * CELL:g} {middle:g}h{len(run.text) * CELL:g}"
    drawn = []
    for column in range(run.column, run.column + len(run.text)):
        left, centre = column * CELL, (column + 0.5) * CELL
        ends = {"l": (left, middle), "r": (left + CELL, middle), "u": (centre, y), "d": (centre, y + LINE)}
        (from_x, from_y), (to_x, to_y) = (ends[way] for way in ways)
        drawn.append(f"M{from_x:g} {from_y:g}Q{centre:g} {middle:g} {to_x:g} {to_y:g}")
    return "".join(drawn)
