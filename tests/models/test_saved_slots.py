"""What llama.cpp has read of a talk, kept between runs: real llama.cpp, real weights, real files."""

import os
import stat
from importlib.util import find_spec
from pathlib import Path

import pytest

from pixi.core.llm import Finished, Line, Request, SystemLine, UserLine
from pixi.models import saved_slots
from pixi.models.llama import LocalModel
from pixi.models.llama_process import LlamaProcess
from pixi.models.saved_slots import SavedSlots
from pixi.models.weights import cached, installed

with_model = pytest.mark.skipif(
    find_spec("xllamacpp") is None or (installed() or cached()) is None,
    reason="needs the extra `local` and the weights",
)
TALK: tuple[Line, ...] = (SystemLine("You are Bo, who paints boats. " * 8),)
HI = UserLine("hi")
POSIX = os.name == "posix"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(saved_slots, "cache_folder", lambda: tmp_path)
    usage = type("Usage", (), {"free": 1 << 40})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    return saved_slots.slots_folder()


def write(slots: SavedSlots, key: str, content: bytes) -> Path:
    with slots.writing(key) as path:
        path.write_bytes(content)
    found = slots.find(key)
    assert found is not None
    return found


async def evaluated(model: LocalModel, *lines: Line) -> int:
    """How many tokens llama.cpp read anew for a request."""
    async for delta in model.stream(Request(lines)):
        if isinstance(delta, Finished):
            return delta.usage.prompt_tokens - delta.usage.cached_tokens
    raise AssertionError("no end")


async def opened() -> LocalModel:
    return await LocalModel.open(context_tokens=512, max_tokens=8)


@pytest.mark.nightly
@with_model
async def test_what_was_read_is_not_read_again_by_the_next_process(folder: Path) -> None:
    slots = SavedSlots("a store")
    model = await opened()
    try:
        await model.restore_slot(slots, "a talk")  # there is nothing yet
        assert await evaluated(model, *TALK, HI) > 50
        await model.save_slot(slots, "a talk")
    finally:
        await model.close()
    (file,) = folder.iterdir()
    if POSIX:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    model = await opened()
    try:
        await model.restore_slot(slots, "a talk")
        assert await evaluated(model, *TALK, HI) < 10
        model.forget_slot()
        await model.save_slot(slots, "a talk")
        assert list(folder.iterdir()) == [file]  # what was read holds what was forgotten
        size = file.stat().st_size
        await evaluated(model, HI)
        await model.save_slot(slots, "a talk")
        (other,) = folder.iterdir()
        assert other.stat().st_size < size / 2  # it holds the new prompt, and nothing of the other
    finally:
        await model.close()


@pytest.mark.nightly
@with_model
async def test_what_is_forgotten_while_the_process_starts_again_is_not_saved(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = SavedSlots("a store")
    model = await opened()
    running = model._running

    async def forgotten_meanwhile() -> LlamaProcess:
        model.forget_slot()
        return await running()

    monkeypatch.setattr(model, "_running", forgotten_meanwhile)
    try:
        await evaluated(model, *TALK, HI)
        await model.save_slot(slots, "a talk")
        assert not folder.exists()
    finally:
        await model.close()


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _changed(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.nightly
@with_model
async def test_a_broken_file_is_thrown_away_and_never_given_to_llama_cpp(folder: Path) -> None:
    slots = SavedSlots("a store")
    model = await opened()
    try:
        await evaluated(model, *TALK, HI)
        await model.save_slot(slots, "a talk")
        (file,) = folder.iterdir()
        whole = file.read_bytes()
        for broken in (_half(whole), _changed(whole), b"", bytes(100_000)):
            file.write_bytes(broken)
            await model.restore_slot(slots, "a talk")
            assert not list(folder.iterdir())
        write(slots, model._slot_key("a talk"), b"whole, and no state of any slot")
        await model.restore_slot(slots, "a talk")
        assert not list(folder.iterdir())
        await evaluated(model, *TALK, HI)  # it lives
    finally:
        await model.close()


def test_another_revision_finds_nothing_and_drops_what_was_before(folder: Path) -> None:
    slots, others = SavedSlots("a store"), SavedSlots("another store")
    file, kept = write(slots, "talk", b"words"), write(others, "talk", b"words")
    assert file != kept
    slots.revision = 7
    assert slots.find("talk") is None
    newer = write(slots, "talk", b"words")
    left, fresh = newer.with_suffix(".saving"), newer.with_suffix(".1.saving")
    left.write_bytes(b"cut off by a kill")
    fresh.write_bytes(b"being written")
    os.utime(left, (0, 0))
    slots.drop(but=7)
    assert not file.exists()
    assert not left.exists()
    assert newer.exists()
    assert fresh.exists()
    slots.drop()
    assert list(folder.iterdir()) == [kept]


def test_a_file_that_was_deleted_while_it_was_written_stays_deleted(folder: Path) -> None:
    slots = SavedSlots("a store")
    with pytest.raises(FileNotFoundError), slots.writing("talk") as path:  # noqa: PT012
        path.write_bytes(b"words")
        SavedSlots("a store").drop()  # another process forgets somebody
    assert not list(folder.iterdir())


def test_what_was_not_used_for_longest_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_slots, "MOST_BYTES", 250)
    slots = SavedSlots("a store")
    for age, key in enumerate(("one", "two")):
        os.utime(write(slots, key, bytes(100)), (age, age))
    assert slots.find("one")  # it is used now
    write(SavedSlots("another store"), "three", bytes(100))
    assert slots.find("one")
    assert slots.find("two") is None
    with slots.writing("huge") as path:
        path.write_bytes(bytes(300))
    assert slots.find("huge") is None
    assert slots.find("one")


def test_nothing_is_written_where_there_is_little_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": saved_slots.MOST_BYTES})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(OSError, match="little room"), SavedSlots("a store").writing("talk"):
        raise AssertionError("it is written")
