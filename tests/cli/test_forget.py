"""`forget` and `export`: the operator names a person, sees what would go, and it goes."""

import asyncio
import io
import json
import stat
from pathlib import Path

import pytest

from pixi.channels.http.files import files_folder
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Author, Message
from pixi.store.kept import SentFile
from pixi.store.sqlite import SqliteStore
from tests.begun import begun
from tests.cli.conftest import Program

MO, ANN, OTHER_ANN = Author("11", "Mo"), Author("12", "Ann"), Author("13", "ann")
SEATED = Author("terminal:Mo T", "Mo T")


def fill(path: Path) -> None:
    async def filling() -> None:
        store = await SqliteStore.open(path)
        for number, author in enumerate((MO, MO, ANN, OTHER_ANN, SEATED)):
            room = "terminal:pixi:mo" if author is SEATED else "discord:1:7:pixi"
            message = Message(f"m{number}", room, author, f"canary {author.id}", 100.0)
            await store.receive(message)
            turn = await begun(store, room, 0, "pixi", (message.id,))
            lines = (UserLine(f"> {message.text}"), AssistantLine("[SEND: hm]"))
            await store.end_turn(turn, lines, "stop", 1, Usage(10, 5, 2))
        await store.remember(Memory(0, "Pixi", MO.id, "", "discord:1:7:pixi", "all", "likes tea", 5.0))
        await store.close()

    asyncio.run(filling())


@pytest.fixture
def kept(home: Path) -> Path:
    fill(home / "pixi.db")
    return home / "pixi.db"


def test_it_tells_what_would_go_and_does_it(program: Program, kept: Path) -> None:
    code, out, err = program("forget", "11", "--yes")
    assert (code, err) == (0, "")
    assert out == (
        "11 (Mo): 2 messages, in 1 conversation, 1 memory, 0 changes by tools\n"
        "Forgotten. Changed: 1 conversation.\n"
    )
    assert b"canary 11" not in kept.read_bytes()
    assert b"canary 12" in kept.read_bytes()
    code, _, err = program("forget", "11", "--yes")
    assert code == 1
    assert err.startswith("pixi-persona: Nothing is kept of '11': give the id of the author")


def test_a_name_that_is_one_persons_will_do(program: Program, kept: Path) -> None:
    assert program("forget", "mo", "--yes")[0] == 0
    code, out, err = program("forget", "ANN", "--yes")
    assert (code, out) == (1, "")
    assert err == (
        "pixi-persona: Several are called 'ANN': name one by id: 12 (1 message), 13 (1 message).\n"
    )


def test_without_a_terminal_it_wants_the_flag(
    program: Program, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, out, err = program("forget", "Mo")
    assert code == 2
    assert "2 messages" in out
    assert err == "pixi-persona: Nobody can be asked here: add --yes, once you have read it.\n"
    assert b"canary 11" in kept.read_bytes()


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code"), [("Yes \n", 0), ("n\n", 1), ("", 1)])
def test_on_a_terminal_it_asks(
    program: Program, kept: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    ended, out, _ = program("forget", "Mo")
    assert ended == code
    assert "Forget all of it, for good? [y/N]" in out
    assert (b"canary 11" in kept.read_bytes()) == bool(code)


def test_what_was_typed_at_the_terminal_goes_with_whoever_sat_there(
    program: Program, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(kept.parent / "state"))
    history = kept.parent / "state" / "pixi-persona" / "history"
    history.parent.mkdir(parents=True)
    history.write_text("+canary\n")
    history.chmod(0o600)
    assert program("forget", "Mo", "--yes")[0] == 0
    assert history.read_text() == "+canary\n", "that is not the one"
    assert program("forget", "terminal:Mo T", "--yes")[0] == 0
    assert history.read_text() == ""
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_a_file_that_was_set_aside_is_not_passed_over(program: Program, kept: Path) -> None:
    aside = kept.with_name("pixi.db.damaged-20261122-120000")
    aside.write_bytes(b"canary")
    code, _, err = program("forget", "Mo", "--yes")
    assert code == 0
    assert (
        f"{aside.name} was set aside because it is damaged, and may hold words of theirs: delete it." in err
    )


def test_files_that_were_sent_over_http_go_at_once(program: Program, kept: Path) -> None:
    ids = {MO.id: "a" * 32, ANN.id: "b" * 32}

    async def sending() -> None:
        store = await SqliteStore.open(kept)
        for person, file_id in ids.items():
            await store.add_file(SentFile(file_id, person, "x.txt", "text/plain", 6, "d", 1.0), 99)
        await store.close()

    asyncio.run(sending())
    folder = files_folder(kept.parent / "pixi-files", f"sqlite:///{kept}")
    folder.mkdir(parents=True)
    for file_id in ids.values():
        (folder / f"{file_id}.txt").write_text("canary")
    _, out, _ = program("export", "11")
    assert [file["name"] for file in json.loads(out)["files"]] == ["x.txt"]
    assert program("forget", "11", "--yes")[0] == 0
    assert [path.name for path in folder.iterdir()] == [f"{ids[ANN.id]}.txt"]


@pytest.mark.parametrize("command", ["forget", "export"])
def test_without_a_store_nothing_is_made(program: Program, home: Path, command: str) -> None:
    code, _, err = program(command, "Mo")
    assert (code, err) == (1, "pixi-persona: Nothing is kept of anybody: there is no store yet.\n")
    assert list(home.iterdir()) == []


def test_all_of_it_is_told(program: Program, kept: Path) -> None:
    code, out, err = program("export", "Mo")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["person"] == "11"
    assert [each["text"] for each in told["conversations"][0]["messages"]] == ["canary 11"] * 2
    assert [each["text"] for each in told["memories"]] == ["likes tea"]
    assert "usage" in told
    assert "canary 12" not in out


def test_a_file_is_for_its_owners_eyes_and_nothing_is_overwritten(program: Program, kept: Path) -> None:
    code, out, err = program("export", "Mo", "--output", "mo.json")
    assert (code, out) == (0, "")
    assert err == "pixi-persona: written to mo.json; only you may read it.\n"
    written = kept.with_name("mo.json")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert json.loads(written.read_text())["person"] == "11"
    code, _, err = program("export", "Ann", "--output", "mo.json")
    assert code == 1
    code, _, err = program("export", "Mo", "--output", "mo.json")
    assert (code, err) == (2, "pixi-persona: mo.json is there already; name another file.\n")
    code, _, err = program("export", "Mo", "--output", "gone/mo.json")
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot be written (No such file or directory)" in err
