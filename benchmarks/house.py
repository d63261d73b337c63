"""The size of the house: files, lines of code, functions, tests, and the way of a message to the model."""

import ast
import asyncio
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from benchmarks import hops
from benchmarks.processes import ROOT
from benchmarks.report import Figure

GOAL_FILES, GOAL_FUNCTION, GOAL_TESTS, GOAL_HOPS, GOAL_RETURNS = 4.0, 80, 1.2, 12, 6
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def modules(folder: Path) -> Iterator[str]:
    """Read the source files below a folder."""
    return (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def lines_of_code(source: str) -> int:
    """Count the lines that hold code: no blank lines, comments and docstrings."""
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def functions(source: str) -> Iterator[int]:
    """Count the lines of each function, from its `def` to its end."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def to_the_request(ways: dict[str, hops.Way]) -> tuple[int, int]:
    """Count the hops of a message to the model's request, and how often it returns to a file on its way."""
    stations = list(ways)
    before = stations[: stations.index(hops.ASKED)]
    return len(ways[hops.ASKED]) - 1, len(before)


def run(quick: bool) -> list[Figure]:
    """Count."""
    package, tests = list(modules(ROOT / "pixi")), list(modules(ROOT / "tests"))
    lines = sum(source.count("\n") for source in package)
    sizes = [size for source in package for size in functions(source)]
    tested = sum(source.count("\n") for source in tests) / lines
    there, returns = to_the_request(asyncio.run(hops.measure()))
    return [
        Figure(
            name="Files of the package per 1,000 lines; lines of code without comments and docstrings",
            goal=f"≤ {GOAL_FILES:g}; as few as can be",
            ours=f"{len(package) / lines * 1000:.2f}; {sum(map(lines_of_code, package)):,}",
            met=len(package) / lines * 1000 <= GOAL_FILES,
        ),
        Figure(
            name="Lines of a function, median / p90 / at most",
            goal=f"at most {GOAL_FUNCTION}",
            ours=f"{median(sizes):g} / {quantiles(sizes, n=10)[-1]:g} / {max(sizes)}",
            met=max(sizes) <= GOAL_FUNCTION,
        ),
        Figure(
            name="Lines of the tests per line of the package",
            goal=f"≤ {GOAL_TESTS:g}",
            ours=f"{tested:.2f}",
            met=tested <= GOAL_TESTS,
        ),
        Figure(
            name="From Discord to the model's request: hops from file to file; returns to a file on the way",
            goal=f"≤ {GOAL_HOPS}; ≤ {GOAL_RETURNS}",
            ours=f"{there}; {returns}",
            met=there <= GOAL_HOPS and returns <= GOAL_RETURNS,
        ),
    ]
