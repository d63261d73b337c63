"""`make cluster`: all parts on one machine, and what they say."""

import re
import subprocess
import sys

import pytest

from tests.pages import ROOT


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="there is no PostgreSQL to start")
def test_all_parts_start_and_workers_answer() -> None:
    command = [sys.executable, "-m", "tests.cluster", "--seconds", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"serve │ serving at http://", done.stdout)
    assert re.search(r"worker \d │ turn \d+ stop", done.stdout), done.stdout
    assert re.search(r"#\w+ │ Pixi: \w", done.stdout)
