"""Figures as values, and the table that is made of them, with the machine and the date."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        name: what was measured, with its unit.
        goal: what was aimed at.
        ours: the value, ready to be shown.
        peers, floors: the same of others, by name; a text in place of a value says why there is none.
        ratios: comparisons, by what they say.
        met: whether every part of the goal was reached; None where it was not measured.
        note: what a reader should know of this run.
        command: how to measure it alone; entered by who runs the benchmark.
    """

    name: str
    goal: str
    ours: str
    peers: Mapping[str, str] = field(default_factory=dict)
    floors: Mapping[str, str] = field(default_factory=dict)
    ratios: Mapping[str, str] = field(default_factory=dict)
    met: bool | None = None
    note: str = ""
    command: str = ""


def _processor() -> str:
    """The processor's name, as well as the system knows it."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except FileNotFoundError:
        pass  # Not Linux; what Python knows must do.
    return platform.processor() or platform.machine()


def _versions(names: Sequence[str]) -> str:
    """Those packages with their versions; one that is not installed is said to be missing."""
    told = []
    for name in names:
        try:
            told.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            told.append(f"{name} missing")
    return ", ".join(told)


def machine() -> list[str]:
    """Where and when, as lines: processor, system, versions, load."""
    load = f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    return [
        f"{_processor()}, {os.cpu_count()} cores{load}",
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        _versions(("aiohttp", "msgspec", "openai", "uvloop", "xllamacpp")),
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    ]


def _cell(values: Mapping[str, str]) -> str:
    return "<br>".join(f"{name}: {value}" for name, value in values.items()) or "–"


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    met = {True: "yes", False: "**no**", None: "–"}
    lines = [
        "| figure | goal | Pixi | peer | floor | ratio | reached |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for figure in figures:
        cells = (
            f"{figure.name}<br>`{figure.command}`",
            figure.goal,
            f"**{figure.ours}**",
            _cell(figure.peers),
            _cell(figure.floors),
            _cell(figure.ratios),
            met[figure.met],
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(figures: Sequence[Figure]) -> str:
    """The whole of BENCHMARKS.md."""
    notes = [f"- {figure.name}: {figure.note}" for figure in figures if figure.note]
    return "\n".join(
        [
            "# Figures",
            "",
            "Written by `make bench`. Each figure is measured beside its peers and a floor in the same run,",
            "in interleaved rounds; values are medians, ratios are medians of the rounds' ratios. On a",
            "shared machine trust the ratios. The floor does the least that could count as the work.",
            "",
            *(f"- {line}" for line in machine()),
            "",
            table(figures),
            "",
            *notes,
            "",
        ]
    )


def in_words(figure: Figure) -> str:
    """A figure for the terminal."""
    parts = [f"{figure.name}: {figure.ours}  (goal {figure.goal})"]
    for title, values in (("peer", figure.peers), ("floor", figure.floors), ("ratio", figure.ratios)):
        parts += [f"  {title:5} {name}: {value}" for name, value in values.items()]
    if figure.note:
        parts.append(f"  note  {figure.note}")
    return "\n".join(parts)


def progress(text: str) -> None:
    """Say what is being measured, where it does not disturb the table."""
    print(f"· {text}", file=sys.stderr, flush=True)
