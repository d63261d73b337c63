"""`python -m benchmarks [NAME …]`: measure, and print; everything at once also writes BENCHMARKS.md."""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import cast

from benchmarks.processes import ROOT, WorkerFailed
from benchmarks.report import Figure, document, in_words, progress
from pixi.core.errors import PixiError

NAMES = (
    "parser",
    "client",
    "latency",
    "capacity",
    "tokens",
    "long_talk",
    "returning",
    "start",
    "discord",
    "hops",
    "house",
    "crowd",
    "store",
    "parts",
    "search_speed",
    "sureness",
    "retrieval",
    "retrieval_tokens",
    "mcp",
    "web",
    "web_search",
    "serve",
    "serves",
    "beside",
    "paint",
)
LONG = ("flow", "repeats")
"""What takes so long that it is only measured where it is named."""
OUTPUT = ROOT / "BENCHMARKS.md"


def measure(name: str, quick: bool) -> list[Figure]:
    """Run one benchmark, a module with `run(quick) -> list[Figure]`. Should it fail, the others go on."""
    # Imported here: what one needs (a model, another client) must not burden the others.
    run = cast("Callable[[bool], list[Figure]]", import_module(f"benchmarks.{name}").run)
    progress(name)
    try:
        figures = run(quick)
    except (WorkerFailed, PixiError, TimeoutError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        figures = [Figure(name.capitalize(), "–", f"not measured: {why}")]
    return [replace(figure, command=f"python -m benchmarks {name}") for figure in figures]


def main(arguments: list[str] | None = None) -> int:
    """Measure what was named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join((*NAMES, *LONG))}; default: all but {', '.join(LONG)}",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: a try, nothing is written")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {*NAMES, *LONG}
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))} (there are {', '.join((*NAMES, *LONG))})")
    started = time.monotonic()
    figures = [figure for name in options.names or NAMES for figure in measure(name, options.quick)]
    for figure in figures:
        print(in_words(figure))
    if not options.names and not options.quick:
        OUTPUT.write_text(document(figures), encoding="utf-8")
        progress(f"{OUTPUT.name} written")
    progress(f"{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
