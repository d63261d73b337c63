"""A folder to start in, apart from the settings of whoever runs the tests; and the log left as it was."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pixi.app.doctor.checks import Check
from pixi.cli import frame, logs
from pixi.cli.console import Printer
from pixi.models import machine
from pixi.settings import load

Program = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root, hook = logging.getLogger(), sys.excepthook
    handlers, level = list(root.handlers), root.level
    others = {name: logging.getLogger(name).level for name in ("pixi", *logs.LIBRARIES, *logs.SILENT)}
    yield
    logging.captureWarnings(False)
    root.handlers[:], sys.excepthook = handlers, hook
    root.setLevel(level)
    for name, before in others.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with no settings and keys in the environment, and no model server."""
    for name in [*os.environ]:
        if name.startswith(("PIXI_", "OPENAI_", "DISCORD_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(machine, "KNOWN_SERVERS", ())
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def program(home: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    """Runs a command line in `home`; gives its exit code, and what it wrote to its two outputs."""

    def run(*words: str) -> tuple[int, str, str]:
        code = frame.run(words)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def found_by(check: Check) -> list[str]:
    """The lines of `doctor` of one check, for the settings of the working directory."""

    async def found() -> list[str]:
        return [Printer().redact(str(finding)) async for finding in check(load())]

    return asyncio.run(found())


@pytest.fixture
def trolley(home: Path) -> Path:
    """A small database in `home`, as `init` makes it."""
    assert frame.run(["init"]) == 0
    return home / "databases" / "trolley"
