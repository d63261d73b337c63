"""`init`: what it makes works as it is, and what was there stays."""

import argparse
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from pixi.app import find_persona
from pixi.cli import init
from pixi.core.errors import ConfigError
from pixi.personas.files import load_persona
from pixi.settings import load

MADE = {
    "pixi.toml",
    ".env.example",
    "personas/wren.md",
    "databases/README.md",
    "databases/trolley/README.md",
    "databases/trolley/teas.md",
}


def run(folder: Path | str) -> int:
    parser = argparse.ArgumentParser()
    init.configure(parser)
    return init.run(parser.parse_args([str(folder)]))


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_it_makes_a_folder_to_start_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "deep" / "down"
    assert run(folder) == 0
    assert files_of(folder) == MADE
    told = capsys.readouterr().out
    assert told.count("made ") == len(MADE)
    assert f"Go to {folder}" in told


def test_here_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    init.configure(parser)
    assert init.run(parser.parse_args([])) == 0
    assert files_of(tmp_path) == MADE
    assert "Go to" not in capsys.readouterr().out


def test_it_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pixi.toml").write_text("mine")
    (tmp_path / ".env.example").symlink_to("nowhere")
    assert run(tmp_path) == 0
    told = capsys.readouterr().out
    assert f"kept  {tmp_path / 'pixi.toml'}, which was there already" in told
    assert f"kept  {tmp_path / '.env.example'}" in told
    assert f"made  {tmp_path / 'personas' / 'wren.md'}\n" in told
    assert (tmp_path / "pixi.toml").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert run(tmp_path) == 0
    assert capsys.readouterr().out.count("kept ") == len(MADE)


@pytest.mark.parametrize("folder", ["file", "file/below", "x" * 300, "a\0b"])
def test_where_no_folder_can_be(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="name another folder"):
        run(f"{tmp_path}/{folder}")
    assert files_of(tmp_path) == {"file"}


def test_neither_the_root_nor_the_home_folder_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("it is written to"))
    (tmp_path / "link").symlink_to("/")
    for folder in ("/", "/..", tmp_path / "link", "//"):
        with pytest.raises(ConfigError, match="is the root of all files: name a folder of its own, such as"):
            run(folder)
    for folder in (tmp_path, tmp_path / "x" / ".."):
        with pytest.raises(ConfigError, match="is your home folder: name a folder in it, such as"):
            run(folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="is your home folder"):
        run(".")
    assert files_of(tmp_path) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="owners and permissions of POSIX")
def test_a_folder_of_another_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    mine = theirs.stat().st_uid
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(ConfigError, match="belongs to another user of this machine"):
            run(theirs)
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, _: Path(path) != theirs)
        for folder in (theirs, theirs / "deep" / "down"):
            with pytest.raises(ConfigError, match="theirs may not be written to; name another folder"):
                run(folder)
    assert files_of(theirs) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="root")
def test_root_fills_no_folder_that_is_used_for_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, owner = Path.stat, 0

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = list(real(path, follow_symlinks=follow_symlinks))
        return os.stat_result([*found[:4], owner, *found[5:]])

    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root")
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ConfigError, match="etc is not empty, and you are root: name a new folder"):
        run(tmp_path / "etc")
    for folder in (tmp_path / "empty", tmp_path / "etc" / "pixi", tmp_path / "etc" / "pixi"):
        assert run(folder) == 0
    assert files_of(tmp_path / "etc") == {"passwd", *(f"pixi/{name}" for name in MADE)}
    owner = 1000
    with pytest.raises(ConfigError, match="etc belongs to another user of this machine"):
        run(tmp_path / "etc" / "deep" / "down")


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").touch()
    (tmp_path / "personas").write_text("mine")
    with pytest.raises(ConfigError, match="personas is a file; move it away"):
        run(tmp_path)


def test_the_settings_as_made_are_the_defaults(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / ".env").write_text((tmp_path / ".env.example").read_text())
    settings = load(environ={}, folder=tmp_path)
    assert settings.sources == {}


def test_each_line_of_the_settings_works_without_its_mark(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / "pixi.toml"
    path.write_text(re.sub(r"(?m)^# (?=[a-z_]+ = )", "", path.read_text()))
    prices = {"model.prices": {"prompt": 0.1, "completion": 0.4}}  # which the file says are needed
    settings = load(environ={}, folder=tmp_path, overrides=prices)
    written = tomllib.loads(path.read_text())
    keys = {f"{section}.{key}" for section, keys in written.items() for key in keys}
    assert set(settings.sources) == keys | {"model.prices"}
    assert len(keys) == 9
    assert find_persona(settings).name == "Wren"


def test_the_example_persona_is_without_fault(tmp_path: Path) -> None:
    run(tmp_path)
    loaded = load_persona(tmp_path / "personas" / "wren.md")
    assert loaded.remarks == ()
    assert loaded.persona.name == "Wren"
    assert len(loaded.persona.examples) == 3
    assert loaded.persona.in_short
