"""The picture of a persona: an address, or a file in the folder of its own file and nowhere else."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.errors import ConfigError
from pixi.personas.files import LoadedPersona, load_persona, parse_persona


def loaded(folder: Path, avatar: str) -> LoadedPersona:
    path = folder / "mo.md"
    path.write_text(f"---\nname: Mo\navatar: {avatar}\n---\nYou are Mo.\n", encoding="utf-8")
    return load_persona(path)


def fault(folder: Path, avatar: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, avatar)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{folder / 'mo.md'}:3: ")
    return text.removeprefix(f"{folder / 'mo.md'}:3: ")


@pytest.mark.parametrize(
    "name", ["mo.png", "Mo.JPG", "mo.jpeg", "a b.gif", "mo.webp", "faces/mo.png", "./mo.png"]
)
def test_a_picture_beside_the_file_is_told_by_its_whole_path(tmp_path: Path, name: str) -> None:
    picture = tmp_path / name
    picture.parent.mkdir(exist_ok=True)
    picture.write_bytes(b"x")
    found = loaded(tmp_path, name)
    assert found.remarks == ()
    assert Path(found.persona.avatar).is_absolute()
    assert Path(found.persona.avatar).samefile(picture)


def test_a_persona_that_is_named_by_a_short_path_finds_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mo.png").write_bytes(b"x")
    loaded(tmp_path, "mo.png")
    monkeypatch.chdir(tmp_path)
    assert Path(load_persona(Path("mo.md")).persona.avatar).is_absolute()


@pytest.mark.parametrize(
    "address", ["https://example.org/mo.png", "https://example.org/a?size=512", "HTTPS://a.b/c"]
)
def test_an_address_stays_as_it_is(tmp_path: Path, address: str) -> None:
    found = loaded(tmp_path, address)
    assert (found.persona.avatar, found.remarks) == (address, ())


@pytest.mark.parametrize(
    "written",
    [
        "http://example.org/mo.png",
        "file:///etc/mo.png",
        "https://",
        "https://[a/mo.png",
        '"https://a b/mo.png"',
        "mo.svg",
        "mo",
        "mo.png.exe",
        "data:image/png;base64,AAAA",
    ],
)
def test_what_is_neither_is_a_fault(tmp_path: Path, written: str) -> None:
    told = fault(tmp_path, written)
    assert told.startswith("`avatar` is an https address or the name of a picture (png, jpg, gif or webp)")
    assert written.strip('"') in told


def test_a_list_is_a_fault(tmp_path: Path) -> None:
    assert fault(tmp_path, "[a.png, b.png]") == "`avatar` is one text, not a list."


def test_a_picture_elsewhere_is_a_fault(tmp_path: Path) -> None:
    folder = tmp_path / "personas"
    folder.mkdir()
    outside = tmp_path / "mo.png"
    outside.write_bytes(b"x")
    (tmp_path / "personas-old").mkdir()
    (tmp_path / "personas-old" / "mo.png").write_bytes(b"x")
    (folder / "link.png").symlink_to(outside)
    for written in ("../mo.png", str(outside), "link.png", "x/../../mo.png", "../personas-old/mo.png"):
        assert fault(folder, written).startswith("`avatar` leads out of this folder: put the picture beside")


@pytest.mark.parametrize("written", ["gone.png", "folder.png", "loop.png", f"{'x' * 300}.png"])
def test_a_picture_that_is_not_there_is_remarked_and_left_out(tmp_path: Path, written: str) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    found = loaded(tmp_path, written)
    assert found.persona.avatar == ""
    (remark,) = found.remarks
    assert remark.line == 3
    assert remark.text.startswith("there is no picture `")
    assert "\n" not in remark.text


def test_a_persona_without_one_has_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").persona.avatar == ""


def test_one_that_never_ends_is_a_fault(tmp_path: Path) -> None:
    assert fault(tmp_path, f"{'x' * 3_000}.png") == "`avatar` has 3,004 characters: 2,000 is the most."


@given(st.text(max_size=60))
def test_whatever_is_written_gives_a_persona_or_a_line(written: str) -> None:
    quoted = written.replace("'", "''")
    with suppress(ConfigError):
        parse_persona(f"---\navatar: '{quoted}'\n---\nYou are Mo.\n", Path("mo.md"))
