"""The number of faults that is told is the number of rows that tell of them."""

import re
from pathlib import Path

import pytest

from tests.pages import ROOT, read_page

PAGE = ROOT / "docs" / "faults.md"


@pytest.mark.parametrize("page", [PAGE, ROOT / "README.md"], ids=lambda page: page.name)
def test_the_number_is_counted(page: Path) -> None:
    rows = re.findall(r"^\| (?!what goes wrong|-)", read_page(PAGE), re.MULTILINE)
    told = re.findall(r"\b(\d+) of (\d+) faults", read_page(page))
    assert told
    assert set(told) == {(str(len(rows)),) * 2}
