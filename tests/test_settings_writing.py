"""A chosen model is written into the settings file, and nothing else in it is touched."""

import errno
import os
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError
from pixi.settings import load
from pixi.settings.sources import write_model

CHOSEN = {"name": 'a "quoted" 模型\\x', "base_url": "http://127.0.0.1:11434/v1"}
LINES = 'name = "a \\"quoted\\" 模型\\\\x"\nbase_url = "http://127.0.0.1:11434/v1"\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", f"[model]\n{LINES}"),
        ("# mine\n[reply]\nprose = 'send'", f"# mine\n[reply]\nprose = 'send'\n\n[model]\n{LINES}"),
        ("[reply]\nprose = 'send'\n", f"[reply]\nprose = 'send'\n\n[model]\n{LINES}"),
        (
            "[reply]\n[ model ]  # the brain\n# name = 'local'\ntemperature = 0.5 # warm\n[limits]\n",
            f"[reply]\n[ model ]  # the brain\n{LINES}# name = 'local'\ntemperature = 0.5 # warm\n[limits]\n",
        ),
        ("[[model.fallback]]\nname = 'local'\n", f"[[model.fallback]]\nname = 'local'\n\n[model]\n{LINES}"),
        ("[model]", f"[model]\n{LINES}"),
        ("\ufeff[model]\r\n# x\r\n", "\ufeff[model]\r\n" + LINES.replace("\n", "\r\n") + "# x\r\n"),
    ],
    ids=["no file", "no end", "no section", "a section", "a list", "a header alone", "of Windows"],
)
def test_it_is_added_and_all_else_stays_as_it_was(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "pixi.toml"
    if old:
        path.write_bytes(old.encode())
        path.chmod(0o640)
    write_model(path, CHOSEN)
    assert path.read_bytes().decode() == new
    model = load(environ={}, folder=tmp_path).model
    assert (model.name, model.base_url) == (CHOSEN["name"], CHOSEN["base_url"])
    assert [each.name for each in tmp_path.iterdir()] == ["pixi.toml"]
    if old and os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "old",
    [
        "model = { temperature = 1.0 }\n",
        "model.temperature = 1.0\n",
        'about = """\n[model]\n"""\n',
        "[model]\nname = 'x'\n",
    ],
    ids=["a table in a line", "dotted", "within a text", "there already"],
)
def test_what_cannot_be_added_is_told_with_the_lines_and_nothing_is_written(tmp_path: Path, old: str) -> None:
    path = tmp_path / "pixi.toml"
    path.write_text(old)
    with pytest.raises(ConfigError, match=r'under \[model\]: name = "qwen3:8b"$'):
        write_model(path, {"name": "qwen3:8b"})
    assert path.read_text() == old


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_model(tmp_path / "pixi.toml", {"name": "qwen3:8b"})


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_a_file_that_is_read_only_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pixi.toml"
    path.write_text("[reply]\n")
    path.chmod(0o444)
    with pytest.raises(ConfigError, match="it is read-only"):
        write_model(path, {"name": "local"})
    assert path.read_text() == "[reply]\n"


@pytest.mark.parametrize("old", ["", "[reply]\n"])
def test_a_path_that_is_no_text_is_told_and_nothing_is_left_behind(tmp_path: Path, old: str) -> None:
    path = tmp_path / "pixi.toml"
    if old:
        path.write_text(old)
    with pytest.raises(ConfigError, match="Write this there"):
        write_model(path, {"name": "/home/\udcff/x.gguf"})
    assert [each.read_text() for each in tmp_path.iterdir()] == ([old] if old else [])


def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(new: Path, old: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    path = tmp_path / "pixi.toml"
    path.write_text("[reply]\n")
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(ConfigError, match="busy"):
        write_model(path, {"name": "local"})
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("pixi.toml", "[reply]\n")]


def test_a_link_to_itself_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pixi.toml"
    path.symlink_to(path)
    with pytest.raises(ConfigError, match="its link leads nowhere"):
        write_model(path, {"name": "local"})


def test_a_link_leads_to_the_file_that_is_changed(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "pixi.toml"
    real.write_text("[reply]\n")
    link.symlink_to(real)
    write_model(link, {"name": "local"})
    assert link.is_symlink()
    assert real.read_text() == '[reply]\n\n[model]\nname = "local"\n'
