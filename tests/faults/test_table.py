"""The page and the tests say the same: each row is shown by tests that exist, and the number is counted."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.faults.table import TESTS
from tests.faults.test_model_server import CALLS, REPLIES
from tests.pages import ROOT, read_page
from tests.servers.model_faults import FAULTS

PAGE = read_page(ROOT / "docs" / "faults.md")
README = read_page(ROOT / "README.md")
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = [row[1] for row in ROW.finditer(PAGE) if row[1] != "what goes wrong" and set(row[1]) != {"-"}]


PARTS = {fault.name for fault in FAULTS} | REPLIES.keys() | CALLS.keys()
NEVER_RUN = re.compile(r"pytest\.mark\.(skip|xfail)\b")


@cache
def functions_in(path: str) -> frozenset[str]:
    """The tests of a file that are run."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    tests = [node for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")]
    return frozenset(
        node.name
        for node in tests
        if not any(NEVER_RUN.search(ast.unparse(mark)) for mark in node.decorator_list)
    )


@pytest.mark.parametrize("wrong", TESTS)
def test_each_fault_is_shown_by_tests_that_exist(wrong: str) -> None:
    assert TESTS[wrong]
    for test in TESTS[wrong]:
        path, _, name = test.partition("::")
        name, _, part = name.partition("[")
        assert name in functions_in(path), test
        assert not part or part.removesuffix("]") in PARTS, test


def test_the_page_has_each_of_them_once_and_no_other() -> None:
    assert list(TESTS) == ROWS
    assert len(ROWS) >= 40


def test_each_fault_of_a_server_has_a_row() -> None:
    parts = {part for tests in TESTS.values() for test in tests for part in re.findall(r"\[(.+)\]$", test)}
    assert parts == PARTS


def test_each_test_of_a_fault_has_a_row() -> None:
    shown = {test.partition("[")[0] for tests in TESTS.values() for test in tests}
    files = [path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    assert files
    for path in files:
        place = path.relative_to(ROOT).as_posix()
        assert {f"{place}::{name}" for name in functions_in(place)} <= shown


@pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
def test_the_number_is_counted(page: str) -> None:
    told = re.findall(r"\b(\d+) of (\d+) faults", page)
    assert told
    assert all(numbers == (str(len(TESTS)),) * 2 for numbers in told)
