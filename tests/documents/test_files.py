import os
import socket
import sys
from pathlib import Path

import pytest

from pixi.documents import FileLimits, SetAside, suffix_of
from pixi.documents.files import open_regular
from tests.documents.at_hand import read, write

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the system has none of these")


def reason(path: Path, limits: FileLimits | None = None) -> str:
    with pytest.raises(SetAside) as caught:
        read(path, limits)
    assert "\n" not in caught.value.reason
    return caught.value.reason


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "x.md").mkdir()
    assert "is a folder" in reason(tmp_path / "x.md")


@POSIX
def test_pipes_links_devices_and_sockets_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert "is a pipe" in reason(tmp_path / "pipe.md")
    (tmp_path / "link.md").symlink_to(write(tmp_path / "real.md", "text"))
    assert "is a symbolic link" in reason(tmp_path / "link.md")
    (tmp_path / "dangling.md").symlink_to(tmp_path / "nowhere")
    assert "is a symbolic link" in reason(tmp_path / "dangling.md")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(tmp_path)  # the address of a socket may not be long
        try:
            listening.bind("s.md")
        finally:
            os.chdir(here)
        assert "is a socket" in reason(tmp_path / "s.md")
    with pytest.raises(SetAside, match="is a device"):
        open_regular(b"/dev/null", FileLimits())


@POSIX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", "text")
    path.chmod(0)
    assert "check its permissions" in reason(path)


def test_a_file_that_is_gone_may_be_back(tmp_path: Path) -> None:
    with pytest.raises(SetAside) as caught:
        read(tmp_path / "a.md")
    assert caught.value.again


def test_a_large_file_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(500_000_001)
    assert reason(path) == "is larger than 256 MiB; split it into smaller files"
    assert "is larger than 99 bytes" in reason(
        write(tmp_path / "b.txt", "x" * 100), FileLimits(file_bytes=99)
    )


@pytest.mark.parametrize("name", ["a.exe", "a", "md", ".md", "a.md.bak", "a.zip"])
def test_other_kinds_are_named(tmp_path: Path, name: str) -> None:
    assert ".markdown" in reason(write(tmp_path / name, "x"))


@pytest.mark.parametrize(
    "name", ["煎饼.md", "پنکیک.md", "блины.MD", "👩‍🍳.md", "a\nb\x1b[31m.md", " .md", "x" * 252 + ".md"]
)
def test_names_in_every_script(tmp_path: Path, name: str) -> None:
    assert read(write(tmp_path / name, "text"))[0].sections[0].text == "text"


@pytest.mark.skipif(sys.platform != "linux", reason="names are text there")
def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.md"))
    assert read(write(path, "text"))[0].sections[0].text == "text"


@pytest.mark.parametrize("name", ["x" * 300 + ".md", "nul\0.md"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    reason(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("A.MD", ".md"),
        ("a.json.zst", ".json.zst"),
        ("a.b.jsonl.ZST", ".jsonl.zst"),
        ("0f.zst", ".zst"),
        ("a.txt.zst", ".zst"),
        ("a.tar.gz", ""),
        ("README", ""),
    ],
)
def test_suffixes(name: str, suffix: str) -> None:
    assert suffix_of(name) == suffix
