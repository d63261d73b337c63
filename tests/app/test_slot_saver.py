"""What was read of a talk goes from the disk with the words of the talk, whoever has them forgotten."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from pixi.app.slot_saver import saved_slot, slots_of
from pixi.core.llm import Request, UserLine
from pixi.core.message import Author, Message
from pixi.models import saved_slots
from pixi.models.llama import LocalModel
from pixi.models.weights import cached, installed
from pixi.store.opening import open_store
from pixi.testing import ScriptedModel

ROOM = "terminal:pixi:mo"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(saved_slots, "cache_folder", lambda: tmp_path)
    usage = type("Usage", (), {"free": 1 << 40})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    return saved_slots.slots_folder()


def save(url: str) -> None:
    slots = slots_of(url)
    assert slots is not None
    with slots.writing("a talk") as path:
        path.write_bytes(b"words")


async def test_files_go_when_words_of_the_store_do(tmp_path: Path, folder: Path) -> None:
    url = f"sqlite:///{tmp_path / 'pixi.db'}"
    save(url)
    save(f"sqlite:///{tmp_path / 'other.db'}")
    mine, other = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    store = await open_store(url)
    await store.receive(Message("m1", ROOM, Author("1", "Mo"), "hi", 1.0))
    async with saved_slot(url, store, ScriptedModel, ""):
        assert mine.exists()
    assert await store.forget("1") == (ROOM,)  # and this process is killed now
    async with saved_slot(url, store, ScriptedModel, "") as kept:  # on whatever model the next one talks
        assert list(folder.iterdir()) == [other]
        before = (await store.forgotten(0)).revision
        await store.receive(Message("m2", ROOM, Author("2", "Ann"), "hi", 1.0))
        await store.reset(ROOM)
        (folder / mine.name.replace(".0.", f".{before}.", 1)).write_bytes(b"words")
        await kept.follow((await store.forgotten(before)).revision)
        assert list(folder.iterdir()) == [other]
    await store.close()


@pytest.mark.skipif(os.name == "nt", reason="links want a right there")
def test_a_store_has_the_same_files_by_whatever_path(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    save(f"sqlite:///{tmp_path}/link/pixi.db")
    slots = slots_of(f"sqlite:///{tmp_path}/pixi.db")
    assert slots is not None
    slots.drop()
    assert not list(folder.iterdir())


def test_of_a_store_in_memory_nothing_is_kept() -> None:
    assert slots_of("sqlite://") is None
    assert slots_of(":memory:") is None


def test_the_password_of_a_store_plays_no_part() -> None:
    one, two = slots_of("postgresql://mo:one@host/pixi"), slots_of("postgresql://mo:two@host/pixi")
    assert one is not None
    assert two is not None
    assert one._store == two._store


@pytest.mark.skipif(
    find_spec("xllamacpp") is None or (installed() or cached()) is None,
    reason="needs the extra `local` and the weights",
)
async def test_what_another_process_forgets_is_not_saved(tmp_path: Path, folder: Path) -> None:
    url = f"sqlite:///{tmp_path / 'pixi.db'}"
    store = await open_store(url)
    await store.receive(Message("m1", ROOM, Author("1", "Mo"), "hi", 1.0))
    model = await LocalModel.open(context_tokens=256, max_tokens=4)
    try:
        async with saved_slot(url, store, lambda: model, ROOM):
            async for _ in model.stream(Request((UserLine("hi"),))):
                pass
        assert len(list(folder.iterdir())) == 1
        async with saved_slot(url, store, lambda: model, ROOM):
            async for _ in model.stream(Request((UserLine("hi"),))):
                pass
            await store.forget("1")
        assert not list(folder.iterdir())
    finally:
        await model.close()
        await store.close()
