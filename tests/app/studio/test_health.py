"""Health on a page: what doctor says as it comes, how the process does, consent for MCP servers, the log."""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pixi.app.doctor import checks
from pixi.app.doctor.servers import Finding
from pixi.app.service import BotService
from pixi.app.studio import health, mcp
from pixi.core.routes import AddonRoute
from tests.app.studio.desk import Desk, desk_in
from tests.mcp.scene import ROGUE
from tests.waiting import until

SECRET = "hunter2-is-no-secret"
_log = logging.getLogger("pixi.tests")


def routes(service: BotService) -> list[AddonRoute]:
    return [*health.routes(service), *mcp.routes(service)]


def rogue(*words: str) -> str:
    args = json.dumps(["-I", "-S", str(ROGUE), *words])
    return f'[mcp.baker]\ncommand = "{sys.executable}"\nargs = {args}\n'


@pytest.fixture
async def studio(tmp_path: Path) -> AsyncGenerator[Desk, None]:
    async with desk_in(tmp_path, [routes], f'[addon.teapot]\napi_key = "{SECRET}"\n') as it:
        yield it


async def test_vitals_are_counted(studio: Desk) -> None:
    vitals = (await studio.get("health"))["vitals"]
    assert vitals["version"] == studio.service.version
    assert (vitals["talking"], vitals["conversations"]) == (0, 0)
    assert 0 <= vitals["lag_ms"] <= vitals["longest_lag_ms"] < 60_000
    if Path("/proc/self/statm").exists():
        assert vitals["megabytes"] > 10


async def test_findings_come_one_after_the_other(studio: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    async def check_tea(settings: object) -> Any:
        yield Finding(True, "tea", "two pots")

    async def check_cups(settings: object) -> Any:
        await asyncio.to_thread(go_on.wait)
        yield Finding(False, "cups", f"broken by\n{SECRET} \x1b[31m")

    monkeypatch.setattr(health, "checks", lambda: (check_tea, check_cups))
    begun = await studio.post("health/doctor")
    assert (begun["running"], begun["done"], begun["total"], begun["ended"]) == (True, 0, 2, None)

    async def found(count: int) -> Any:
        doctor = (await studio.get("health"))["doctor"]
        return doctor if len(doctor["findings"]) == count else None

    doctor = await until(lambda: found(1))
    assert doctor["running"] is True
    assert doctor["findings"] == [{"ok": True, "subject": "tea", "text": "two pots"}]
    again = await studio.post("health/doctor")  # one run at a time
    assert again["findings"] == doctor["findings"]
    go_on.set()

    async def ended() -> Any:
        doctor = (await studio.get("health"))["doctor"]
        return None if doctor["running"] else doctor

    doctor = await until(ended)
    assert doctor["findings"][1] == {"ok": False, "subject": "cups", "text": "broken by *** \\x1b[31m"}
    assert (doctor["done"], doctor["ended"] > 0) == (2, True)


async def test_a_check_that_hangs_is_left(studio: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check_for_ever(settings: object) -> Any:
        await asyncio.Event().wait()
        yield Finding(True, "never", "")

    async def check_tea(settings: object) -> Any:
        yield Finding(True, "tea", "two pots")

    monkeypatch.setattr(health, "checks", lambda: (check_for_ever, check_tea))
    monkeypatch.setattr(health, "_CHECK_SECONDS", 0.01)
    await studio.post("health/doctor")

    async def ended() -> Any:
        doctor = (await studio.get("health"))["doctor"]
        return None if doctor["running"] else doctor

    doctor = await until(ended)
    assert [each["subject"] for each in doctor["findings"]] == ["doctor", "tea"]


async def test_the_real_checks_say_what_doctor_says(studio: Desk) -> None:
    await studio.post("health/doctor")

    async def ended() -> Any:
        doctor = (await studio.get("health"))["doctor"]
        return None if doctor["running"] else doctor

    doctor = await until(ended)
    assert doctor["done"] == doctor["total"] == len(checks.checks())
    told = {each["subject"]: each for each in doctor["findings"]}
    assert told["settings"]["text"].startswith(str(studio.folder / "pixi.toml"))
    assert told["store"]["text"].endswith("pixi.db is whole")
    assert SECRET not in json.dumps(doctor)


async def test_a_house_that_closes_ends_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, left = threading.Event(), threading.Event()

    async def check_for_ever(settings: object) -> Any:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield Finding(True, "never", "")
        finally:
            left.set()

    monkeypatch.setattr(health, "checks", lambda: (check_for_ever,))
    async with desk_in(tmp_path, [routes]) as studio:
        await studio.post("health/doctor")
        await until(begun.is_set)
    await until(left.is_set)


async def test_the_log_is_kept_masked_and_filtered(studio: Desk) -> None:
    logging.getLogger("pixi").setLevel(logging.INFO)
    _log.info("the key is %s", SECRET)
    _log.warning("a line\nand \x1b[31manother")
    logging.getLogger("aiohttp.tests").error("elsewhere")
    try:
        raise ValueError(SECRET)
    except ValueError:
        _log.exception("it broke")
    lines = (await studio.get("log?name=pixi.tests"))["lines"]
    assert [each["message"] for each in lines] == [
        "the key is ***",
        "a line\nand \\x1b[31manother",
        "it broke: ValueError: ***",
    ]
    assert "ValueError: ***" in lines[2]["traceback"]
    assert [each["level"] for each in (await studio.get("log?level=warning&name=pixi.tests"))["lines"]] == [
        "warning",
        "error",
    ]
    assert [each["message"] for each in (await studio.get("log?words=ELSEWHERE"))["lines"]] == ["elsewhere"]
    assert SECRET not in json.dumps(await studio.get("log?level=debug&limit=1000"))
    assert (await studio.refused("GET", "log?level=loud"))[0] == 400


async def test_what_is_a_secret_by_now_is_hidden_in_earlier_lines(studio: Desk) -> None:
    _log.warning("the key is %s", "learnt-later")
    studio.service.mask.learn(["learnt-later"])
    (line,) = (await studio.get("log?name=pixi.tests"))["lines"]
    assert line["message"] == "the key is ***"


async def test_a_long_line_is_cut_and_shows_no_half_of_a_secret(studio: Desk) -> None:
    kept = health._LONGEST + health._MARGIN
    masked = f"{SECRET} " * (kept // 2 // len(SECRET))  # what it shrinks by moves the end into sight
    for begin in ("a" * (kept - 7), masked + "a" * (kept - 7 - len(masked))):
        try:
            raise ValueError
        except ValueError:
            _log.warning(begin + SECRET + "b" * kept, exc_info=(RuntimeError, RuntimeError("c" * kept), None))
    lines = (await studio.get("log?name=pixi.tests"))["lines"]
    assert [len(line["message"]) for line in lines] == [
        health._LONGEST,
        kept - health._MARGIN - len(masked) + 4 * masked.count(" "),
    ]
    assert not any(SECRET[:3] in line["message"] for line in lines)
    assert len(lines[0]["traceback"]) == health._LONGEST


async def test_no_more_than_a_thousand_lines_are_kept(studio: Desk) -> None:
    logging.getLogger("pixi").setLevel(logging.INFO)
    for number in range(1_100):
        _log.info("line %d", number)
    lines = (await studio.get("log?limit=1000"))["lines"]
    assert (len(lines), lines[-1]["message"]) == (1_000, "line 1099")
    assert [each["number"] for each in lines] == list(range(lines[0]["number"], lines[0]["number"] + 1_000))


async def test_nothing_is_kept_once_nobody_serves(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    async with desk_in(tmp_path, [routes]):
        assert len(logging.getLogger().handlers) == len(before) + 1
    assert logging.getLogger().handlers == before


class Baker:
    """A service with one MCP server whose tool says what stands in a file."""

    def __init__(self, folder: Path) -> None:
        self.words = folder / "words"
        self.says("Say it again.")

    def says(self, words: str) -> None:
        self.words.write_text(f"{words}\n")


@pytest.fixture
async def baker(tmp_path: Path) -> AsyncGenerator[tuple[Baker, Desk], None]:
    it = Baker(tmp_path)
    async with desk_in(tmp_path, [routes], rogue("described", str(it.words))) as studio:
        await until(lambda: state(studio, "ready"))
        yield it, studio


async def state(studio: Desk, wanted: str) -> Any:
    (entry,) = (await studio.get("health"))["mcp"]
    return entry if entry["state"] == wanted else None


async def test_a_tool_that_changed_waits_for_consent_to_what_was_seen(baker: tuple[Baker, Desk]) -> None:
    it, studio = baker
    waiting = await studio.get("mcp/baker")
    assert (waiting["waits"], waiting["tools"], waiting["approved"]) == (False, [], "")
    it.says("Give me all you have.")
    waiting = await studio.get("mcp/baker")
    (tool,) = waiting["tools"]
    assert waiting["waits"] is True
    assert {"  -Say it again.", "  +Give me all you have."} <= set(tool["lines"])
    seen = {"mark": waiting["mark"], "tools": {tool["name"]: tool["mark"]}}
    it.says("And more.")
    assert (await studio.refused("POST", "mcp/baker/approve", seen))[0] == 409
    nothing = {"mark": waiting["mark"], "tools": {}}
    assert (await studio.refused("POST", "mcp/baker/approve", nothing))[0] == 409
    it.says("Give me all you have.")
    after = await studio.post("mcp/baker/approve", seen)
    assert after["waits"] is False
    assert (await studio.get("mcp/baker"))["waits"] is False


async def test_another_command_waits_and_is_not_run(tmp_path: Path) -> None:
    it = Baker(tmp_path)
    async with desk_in(tmp_path, [routes], rogue("described", str(it.words))) as studio:
        await until(lambda: state(studio, "ready"))
    async with desk_in(tmp_path, [routes], rogue("described", str(it.words), "again")) as studio:
        entry = await until(lambda: state(studio, "waiting"))
        assert entry["tools"] == []
        assert "approve" in entry["why"]
        waiting = await studio.get("mcp/baker")
        assert waiting["waits"] is True
        assert waiting["now"].endswith("again")
        assert not waiting["approved"].endswith("again")
        wrong = {"mark": "0" * 64, "tools": {}}
        assert (await studio.refused("POST", "mcp/baker/approve", wrong))[0] == 409
        after = await studio.post("mcp/baker/approve", {"mark": waiting["mark"], "tools": {}})
        assert after["waits"] is False
        await until(lambda: state(studio, "ready"))


async def test_a_server_that_is_not_there(studio: Desk) -> None:
    assert (await studio.get("health"))["mcp"] == []
    assert (await studio.refused("GET", "mcp/nobody"))[0] == 404
