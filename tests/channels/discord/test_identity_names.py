"""Names and pictures of personas in the forms that Discord takes."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.channels.discord.formatting import units
from pixi.channels.discord.outgoing.identities import (
    is_marked_for,
    name_for_webhook,
    nickname,
    picture_address,
    picture_file,
    webhook_marked,
)
from pixi.core.persona import Persona

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("name", "borne"),
    [
        ("Pixi", "Pixi"),
        ("  老秦  ", "老秦"),
        ("a\nb\tc", "a b c"),
        ("Discord Dan", "Díscord Dan"),
        ("DISCORD", "DÍSCORD"),
        ("Clyde", "Clýde"),
        ("everyone", "everyone."),
        ("@here", "here."),
        ("a#b:c```d", "abcd"),
        ("", "Persona"),
        ("\u200b", "Persona"),
        ("x" * 200, "x" * 79 + "…"),
    ],
)
def test_a_webhook_bears_names_that_discord_takes(name: str, borne: str) -> None:
    assert name_for_webhook(name) == borne


@given(st.text(max_size=200))
def test_any_name_becomes_one_that_can_be_borne(name: str) -> None:
    borne = name_for_webhook(name)
    assert 1 <= units(borne) <= 80
    assert borne == borne.strip()
    assert "discord" not in borne.casefold()
    assert "clyde" not in borne.casefold()
    assert 1 <= units(nickname(name)) <= 32


async def test_a_picture_comes_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "pixi.png").write_bytes(PNG)
    assert await picture_file(Persona("Pixi", "", avatar=str(tmp_path / "pixi.png"))) == PNG
    assert await picture_file(Persona("Pixi", "")) is None


async def test_what_is_no_picture_is_left_out_with_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes.png").write_text("my notes")
    (tmp_path / "large.png").write_bytes(PNG + bytes(8_000_000))
    with caplog.at_level(logging.WARNING):
        for name in ("notes.png", "large.png", "missing.png"):
            assert await picture_file(Persona("Pixi", "", avatar=str(tmp_path / name))) is None
    reasons = ("it is no PNG, JPEG, GIF or WebP", "it is larger than 8 MB", "cannot be read")
    assert all(reason in line for reason, line in zip(reasons, caplog.messages, strict=True))


async def test_a_picture_on_the_web_is_told_by_its_address() -> None:
    persona = Persona("Pixi", "", avatar="https://example.org/pixi.png")
    assert picture_address(persona) == "https://example.org/pixi.png"
    assert await picture_file(persona) is None
    assert picture_address(Persona("Pixi", "", avatar="http://example.org/pixi.png")) == ""


@given(st.text(min_size=1, max_size=120))
def test_a_webhook_is_known_by_its_persona_whichever_picture_it_has(persona: str) -> None:
    for picture in (None, PNG):
        called = webhook_marked(persona, picture)
        assert 0 < units(called) <= 80
        assert is_marked_for(called, persona)
    assert not is_marked_for("pixie", "pixi")
    assert not is_marked_for("pixi two", "pixi")
