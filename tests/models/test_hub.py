"""Fetching a model from the hub: whole and checked, or not at all. The real package, a hub on loopback."""

import asyncio
import errno
import gc
import shutil
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError, ModelError
from pixi.models import hub as hub_module
from pixi.models.hub import (
    CatalogueModel,
    HubFile,
    cached_files,
    catalogue,
    duration,
    fetch,
    find_in_catalogue,
    look_up,
)
from pixi.models.weights import cache_folder
from tests.servers.loopback_hub import LoopbackHub, loopback_hub
from tests.waiting import until, within

GGUF = b"GGUF" + bytes(range(256)) * 8_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache and home, in a folder of the test's own; no token of theirs."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    # Many pieces, as of a model.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100_000)
    return cache_folder()


@pytest.fixture
async def hub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LoopbackHub]:
    async with loopback_hub(good=GGUF, page=b"<html>" * 20) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def _model(file: str = "good") -> CatalogueModel:
    return CatalogueModel(
        name=file,
        repository="tiny/model-GGUF",
        file=f"{file}.gguf",
        parameters=1.0,
        languages=("en",),
        licence="Apache-2.0",
        bytes=1,  # the hub's word counts, not this
        memory_bytes=1,
        source="",
    )


def _ignore(_: str) -> None: ...


async def test_a_model_is_fetched_once_and_said_to_be_on_its_way(hub: LoopbackHub, cache: Path) -> None:
    told: list[str] = []
    async with within("the file"):
        path = await fetch(_model(), progress=told.append)
        again = await fetch(_model(), progress=told.append)
    assert path == again == cache / "good.gguf"
    assert path.read_bytes() == GGUF
    assert cached_files() == (path,)
    assert hub.ranges == [""]
    assert told[-1] == ""
    assert any("good: " in line and f"of {len(GGUF) / 1e6:,.0f} MB" in line for line in told)


@pytest.mark.nightly  # the package waits a second
async def test_a_broken_connection_goes_on_where_it_broke(hub: LoopbackHub) -> None:
    hub.breaks_after = 1_500_000
    async with within("the file"):
        path = await fetch(_model(), progress=_ignore)
    assert path.read_bytes() == GGUF
    first, second = hub.ranges
    start = int(second.removeprefix("bytes=").rstrip("-"))
    assert (first, start > 0) == ("", True)


async def test_another_run_goes_on_with_what_is_there(hub: LoopbackHub, cache: Path) -> None:
    file = await look_up(_model())
    cache.mkdir(parents=True)
    (cache / f"good.gguf.{file.sha256[:12]}.part").write_bytes(GGUF[:1000])
    (cache / "good.gguf.ofanother000.part").write_bytes(b"of a version that is gone")
    async with within("the file"):
        path = await fetch(_model(), progress=_ignore)
    assert path.read_bytes() == GGUF
    assert hub.ranges == ["bytes=1000-"]
    assert not list(cache.glob("*.part"))


async def test_a_cancelled_download_leaves_no_file_and_can_go_on(hub: LoopbackHub, cache: Path) -> None:
    begun = asyncio.Event()
    task = asyncio.create_task(fetch(_model(), progress=lambda line: begun.set()))
    hub.breaks_after = 1_000_000  # then it waits a second before it goes on: time enough to be cancelled
    async with within("a part of it"):
        await until(lambda: list(cache.glob("*.part")), "a part")
        await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (cache / "good.gguf").exists()

    async def fetched() -> Path | None:
        try:
            return await fetch(_model(), progress=_ignore)
        except ConfigError:  # the thread that was left behind still waits for its connection
            return None

    path = await until(fetched, "the file, once the first download let go of it")
    assert path is not None
    assert path.read_bytes() == GGUF


async def test_a_cancelled_download_ends_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    begun = threading.Event()

    def download(model: CatalogueModel, file: HubFile, meter: hub_module._Meter) -> Path:
        while True:
            meter.update(1)
            begun.set()
            time.sleep(0.01)

    monkeypatch.setattr(hub_module, "_download", download)
    task = asyncio.create_task(fetch(_model(), progress=_ignore, file=HubFile(10**9, "0" * 64, "main")))
    async with within("a piece of it"):
        await until(begun.is_set, "a piece")
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    del task
    gc.collect()
    assert told == []


@pytest.mark.parametrize("content", [GGUF[:-1] + b"?", GGUF + b"more"])
async def test_what_is_there_but_not_the_file_is_fetched_anew(
    hub: LoopbackHub, cache: Path, content: bytes
) -> None:
    file = await look_up(_model())
    cache.mkdir(parents=True)
    part = cache / f"good.gguf.{file.sha256[:12]}.part"
    part.write_bytes(content)
    if len(content) == len(GGUF):
        with pytest.raises(ModelError, match="its checksum is another"):
            await fetch(_model(), progress=_ignore)
        assert not part.exists()
    async with within("the file"):
        assert (await fetch(_model(), progress=_ignore)).read_bytes() == GGUF


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("wrong checksum", ModelError, "not the file that 127.0.0.1"),
        ("wrong size", ModelError, "in another size than"),
        ("endless", ModelError, "in another size than"),
        ("no checksum", ModelError, "names no size and checksum"),
        ("gated", ConfigError, "set HF_TOKEN"),
        ("private", ModelError, "no tiny/model-GGUF at"),
        ("forbidden", ConfigError, "does not give out good.gguf (403)"),
        ("broken", ModelError, "out of order (503)"),
        ("circle", ModelError, "without end"),
        ("log-in page", ModelError, "does not answer as a hub does"),
    ],
)
async def test_each_fault_of_the_hub_names_its_mend_and_leaves_no_file(
    hub: LoopbackHub, cache: Path, fault: str, kind: type[Exception], said: str
) -> None:
    hub.fault = fault
    with pytest.raises(kind) as raised:
        async with within("the fault"):
            await fetch(_model(), progress=_ignore)
    assert said in str(raised.value)
    assert not (cache / "good.gguf").exists()
    assert all(part.stat().st_size <= len(GGUF) for part in cache.glob("*.part"))


async def test_a_file_that_is_gone_and_one_that_is_no_model(hub: LoopbackHub, cache: Path) -> None:
    with pytest.raises(ModelError, match=r"no longer has gone\.gguf"):
        await fetch(_model("gone"), progress=_ignore)
    with pytest.raises(ModelError, match="is not a GGUF file, and was removed"):
        await fetch(_model("page"), progress=_ignore)
    assert not list(cache.glob("page.gguf*part"))
    assert not cached_files()


async def test_no_hub_an_address_that_is_none_and_a_machine_that_is_to_stay_offline(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(ModelError, match="could not be reached"):
        await look_up(_model())
    monkeypatch.setenv("HF_ENDPOINT", "huggingface")
    with pytest.raises(ConfigError, match="HF_ENDPOINT is no address: 'huggingface'"):
        await look_up(_model())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE is set"):
        await look_up(_model())


async def test_a_token_is_shown_to_the_hub_and_not_to_its_storage(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody")
    await fetch(_model(), progress=_ignore)
    assert hub.keys == ["Bearer hf_of_somebody", "Bearer hf_of_somebody", ""]


async def test_a_full_disk_is_told_before_anything_is_fetched(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    with pytest.raises(ConfigError, match=r"There is no room for good in .*2 MB .* 1 MB are free"):
        await fetch(_model(), progress=_ignore)
    assert hub.ranges == []


async def test_a_cache_that_cannot_be_written_is_told(
    hub: LoopbackHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file stands where the folder shall be")
    with pytest.raises(ConfigError, match=r"(?s)good cannot be kept in .*make it writable"):
        await fetch(_model(), progress=_ignore)
    cache.unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ConfigError, match="make room there"):
        await fetch(_model(), progress=_ignore)


async def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r'pip install "pixi-persona\[hub\]"'):
        await look_up(_model())


def test_the_catalogue_is_whole_and_goes_from_small_to_large() -> None:
    models = catalogue()
    assert 4 <= len(models) <= 6
    assert list(models) == sorted(models, key=lambda model: model.bytes)
    assert len({model.name for model in models}) == len({model.file for model in models}) == len(models)
    for model in models:
        assert 1 <= model.parameters <= 9
        assert model.bytes < model.memory_bytes
        assert model.source.startswith(f"https://huggingface.co/{model.repository}/")
        assert model.file.endswith(".gguf")
        assert find_in_catalogue(model.name.upper()) is model
    assert find_in_catalogue("gpt-5") is None


def test_durations_are_for_people() -> None:
    assert [duration(each) for each in (4.4, 99, 130, 7200, 36_000)] == [
        "4 s", "99 s", "2 min", "2.0 h", "10.0 h",
    ]  # fmt: skip
