"""`pixi-persona audit`: the table, and the lines for programs."""

import asyncio
import io
import json
import os
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from msgspec.structs import replace

from pixi.cli import frame
from pixi.store.kept import Deed
from pixi.store.sqlite import SqliteStore

DEED = Deed("discord:1:7:pixi", "discord:1", 3, "Pixi", "11", "ban", '{"who": "[red]mo\x1b[2J"}', "11")


def audit(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PIXI_")}
    with (
        chdir(folder),
        mock.patch.dict(os.environ, environ | {"COLUMNS": "200"}, clear=True),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        code = frame.run(["audit", *flags])
    return subprocess.CompletedProcess(flags, code, out.getvalue(), err.getvalue())


async def recorded(folder: Path) -> None:
    store = await SqliteStore.open(folder / "pixi.db")
    await store.audit_end(await store.audit_begin(DEED), "done", 0.25)
    await store.audit_end(await store.audit_begin(replace(DEED, approved_by="")), "denied", 0.0)
    await store.audit_begin(replace(DEED, tool="kick", arguments="x" * 1_000, person=""))
    await store.close()


def test_without_a_store_nothing_is_told_and_nothing_made(tmp_path: Path) -> None:
    done = audit(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Nothing is on record: no tool has changed anything yet.\n"
    assert audit(tmp_path, "--json").stdout == ""
    assert not (tmp_path / "pixi.db").exists()


def test_the_table_and_the_lines_for_programs(tmp_path: Path) -> None:
    asyncio.run(recorded(tmp_path))
    done = audit(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "[red]mo" in done.stdout  # as it was written, and no colour
    assert [word for word in ("done", "denied", "unknown", "(forgotten)") if word not in done.stdout] == []
    assert "x" * 200 not in done.stdout.replace("\n", "").replace(" ", "")
    told = [json.loads(line) for line in audit(tmp_path, "--json").stdout.splitlines()]
    assert [each["outcome"] for each in told] == ["done", "denied", "unknown"]
    assert told[0] | {"time": ""} == {
        "id": 1,
        "time": "",
        "seconds": 0.25,
        "tool": "ban",
        "arguments": DEED.arguments,
        "outcome": "done",
        "persona": "Pixi",
        "person": "11",
        "approved_by": "11",
        "conversation": "discord:1:7:pixi",
        "guild": "discord:1",
        "turn": 3,
    }
    assert told[2]["person"] is None


def test_how_many_can_be_said_and_nonsense_is_refused(tmp_path: Path) -> None:
    asyncio.run(recorded(tmp_path))
    told = audit(tmp_path, "--json", "--limit", "2").stdout.splitlines()
    assert [json.loads(line)["id"] for line in told] == [2, 3]
    for nonsense in ("0", "-1", "many"):
        done = audit(tmp_path, "--limit", nonsense)
        assert done.returncode == 2
        assert "--limit" in done.stderr
