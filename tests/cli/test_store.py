"""`store copy`: the operator's words, the files beside the store, and a copy that is killed."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pixi.channels.http.files import files_folder
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore
from tests.cli.conftest import Program

FILE, OTHER = "sqlite:///pixi.db", "sqlite:///other.db"


async def _say(path: Path, count: int) -> None:
    store = await SqliteStore.open(path)
    for n in range(count):
        await store.receive(Message(f"{n}", "room", Author("1", "mo"), "hi", 0.0))
    await store.close()


async def _heard(path: Path) -> int:
    store = await SqliteStore.open(path)
    heard = len((await store.load("room")).waiting)
    await store.close()
    return heard


def test_a_copy_tells_in_a_line_what_came_of_it(program: Program, home: Path) -> None:
    asyncio.run(_say(home / "pixi.db", 3))
    code, out, err = program("store", "copy", FILE, OTHER)
    other = home / "other.db"
    assert (code, err) == (0, "")
    told = rf"\d+ tables with 3 rows are the same in {re.escape(str(other))}"
    assert re.fullmatch(rf"Copied and checked: {told}\. Name it in \[store\] url, and start\.\n", out)
    assert asyncio.run(_heard(other)) == 3
    assert re.match(rf"Nothing to copy: {told}", program("store", "copy", FILE, OTHER)[1])


def test_files_that_people_sent_go_with_it(program: Program, home: Path) -> None:
    (home / "pixi.toml").write_text('[http]\nfiles = "sent"\n')
    asyncio.run(_say(home / "pixi.db", 1))
    sent = [files_folder(Path("sent"), url) for url in (FILE, OTHER)]
    names = [f"{'a' * 32}.png", f"{'b' * 32}.pdf"]
    sent[0].mkdir(parents=True)
    for name in (*names, f"coming-{'c' * 32}.png"):
        (sent[0] / name).write_bytes(name.encode())
    assert "other.db, and 2 files that people sent. Name it" in program("store", "copy", FILE, OTHER)[1]
    assert {file.name: file.read_bytes() for file in sent[1].iterdir()} == {
        name: name.encode() for name in names
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("pixi.db", OTHER),
            "store copy: FROM names no store; write sqlite:///pixi.db, sqlite:////folder/pixi.db or postgresql://",
        ),
        ((FILE, OTHER), "There is no store pixi.db: name one as sqlite:///pixi.db."),
        ((FILE, "postgresql://mo:pass@word@host/talks"), "There is no store pixi.db"),
        ((FILE, "other.db"), "store copy: TO names no store"),
        (("sqlite://", OTHER), "A store in memory cannot be copied"),
    ],
)
def test_what_cannot_be_copied_is_told(
    program: Program, home: Path, words: tuple[str, ...], told: str
) -> None:
    code, out, err = program("store", "copy", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert "pass@word" not in err
    assert not (home / "other.db").exists()


def test_no_password_is_shown(program: Program, home: Path) -> None:
    asyncio.run(_say(home / "pixi.db", 1))
    code, _, err = program("store", "copy", FILE, "postgresql://mo:sesame@127.0.0.1:1/talks")
    assert code == 2
    assert "no server answers there" in err
    assert "sesame" not in err


KILLED = """
import os, signal, sys
from pixi.store import copying
from pixi.cli import main
copying.BATCH_ROWS = 10
name, keep, left = sys.argv.pop(1), copying._keep, iter(range(6))
def keep_some(*batch):
    keep(*batch)
    if next(left, None) is None:
        os.kill(os.getpid(), getattr(signal, name))
copying._keep = keep_some
sys.exit(main())
"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_copy_that_is_ended_goes_on(program: Program, home: Path, name: str) -> None:
    asyncio.run(_say(home / "pixi.db", 200))
    words = [sys.executable, "-c", KILLED, name, "store", "copy", FILE, OTHER]
    ended = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False, env={**os.environ})
    if name == "SIGKILL":
        assert ended.returncode == -signal.SIGKILL
    else:
        assert (ended.returncode, ended.stderr) == (
            130,
            "pixi-persona: stopped; run it again to go on from here.\n",
        )
    code, out, _ = program("store", "copy", FILE, OTHER)
    assert (code, out.startswith("Copied and checked: ")) == (0, True)
    assert asyncio.run(_heard(home / "other.db")) == 200
