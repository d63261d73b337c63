"""The log: lines for people or JSON, no secret in either, and nothing that a stranger could forge."""

import io
import json
import logging
import re
import sys
from typing import Any

import pytest

from pixi.app.logs import log_turn
from pixi.cli.logs import set_up
from pixi.core.events import TurnReport
from pixi.core.llm import Usage
from pixi.core.masking import SecretRedactor
from pixi.core.untrusted import escaped_line
from pixi.settings import DiscordSettings, ModelSettings, Secret, Settings, StoreSettings
from pixi.settings.secret import secrets_in

TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs-canary"
HOSTILE = "mo\n14:03:22  error    bot  all is lost\r\x1b[2J\x1b]0;owned\x07\x9b31m\u2028\u202eevil\x00"


class Log:
    """A log that can be read."""

    def __init__(self, *, as_json: bool, debug: bool = False) -> None:
        self.stream = io.StringIO()
        self.mask: SecretRedactor = set_up(self.stream, as_json=as_json, debug=debug)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[str]:
        # As bytes, so that only a line feed counts.
        return self.text.removesuffix("\n").split("\n") if self.text else []

    @property
    def only(self) -> dict[str, Any]:
        (line,) = self.lines
        told: dict[str, Any] = json.loads(line)
        return told


@pytest.fixture(params=[True, False], ids=["json", "people"])
def log(request: pytest.FixtureRequest) -> Log:
    return Log(as_json=request.param)


def test_json_has_time_level_logger_message_and_the_fields_of_a_turn() -> None:
    log = Log(as_json=True)
    report = TurnReport(
        turn=7,
        conversation="discord:1:2:pixi",
        person="5",
        persona="Pixi",
        model="large",
        finish="stop",
        steps=2,
        usage=Usage(1_000, 400, 20),
        cost=0.00123,
        seconds=2.5,
        first_visible=0.75,
        effects={"send": 2, "react": 1},
    )
    log_turn(report)
    told = log.only
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", told.pop("time"))
    assert told.pop("message").startswith("turn 7 stop · Pixi on large · to 5 in discord:1:2:pixi")
    assert told == {
        "level": "info",
        "logger": "pixi.turns",
        "turn": 7,
        "conversation": "discord:1:2:pixi",
        "person": "5",
        "persona": "Pixi",
        "model": "large",
        "finish": "stop",
        "steps": 2,
        "usage": {"prompt_tokens": 1_000, "cached_tokens": 400, "completion_tokens": 20, "searches": 0},
        "cost": 0.00123,
        "seconds": 2.5,
        "first_visible": 0.75,
        "effects": {"send": 2, "react": 1},
    }


def test_people_read_time_level_name_and_text() -> None:
    log = Log(as_json=False)
    logging.getLogger("pixi.bot").info("Connected as %s.", "Pixi#1")
    logging.getLogger("discord.gateway").warning("slow")
    first, second = log.lines
    assert re.fullmatch(r"\d\d:\d\d:\d\d  info     bot  Connected as Pixi#1\.", first)
    assert second.endswith("warning  discord.gateway  slow")


def test_what_strangers_write_forges_no_line_and_moves_no_cursor(log: Log) -> None:
    logging.getLogger("pixi.turns").info("to %s", HOSTILE, extra={"fields": {HOSTILE: [HOSTILE]}})
    assert len(log.lines) == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", log.text)
    assert "all is lost" in log.text


def test_an_exception_is_told_and_its_text_forges_nothing(log: Log) -> None:
    try:
        raise ValueError(f"{HOSTILE} {TOKEN}")
    except ValueError:
        logging.getLogger("pixi.engine").exception("a turn broke")
    assert len(log.lines) == 1
    assert "a turn broke: ValueError: mo 14:03:22" in log.text
    assert "\x1b" not in log.text
    assert "canary" not in log.text


def test_people_see_a_traceback_when_debugging_set_off_from_the_lines() -> None:
    log = Log(as_json=False, debug=True)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("pixi.engine").exception("a turn broke")
    first, *rest = log.lines
    assert "a turn broke" in first
    assert any("Traceback" in line for line in rest)
    assert all(line.startswith("    | ") for line in rest)


def test_json_always_has_the_traceback_in_a_field() -> None:
    log = Log(as_json=True)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("pixi.engine").exception("a turn broke")
    assert log.only["traceback"].startswith("Traceback (most recent call last):\n")


def test_secrets_of_the_settings_are_masked_wherever_they_stand(log: Log) -> None:
    settings = Settings(
        model=ModelSettings(api_key=Secret("canary-one")),
        models={"x": ModelSettings(api_key=Secret("canary-two"), base_url="http://me:canary%2Fthree@h/v1")},
        discord=DiscordSettings(token=Secret("canary-four")),
        store=StoreSettings("postgresql://me:canary-five@h/db"),
    )
    log.mask.learn(secrets_in(settings))
    everything = "canary-one canary-two canary%2Fthree canary/three canary-four canary-five"
    try:
        raise RuntimeError(everything)
    except RuntimeError:
        logging.getLogger("httpx").error(
            everything, exc_info=True, extra={"fields": {"a": {"b": [everything]}}}
        )
    assert "canary" not in log.text
    assert "***" in log.text


def test_a_secret_that_came_later_is_masked_and_the_old_one_too() -> None:
    log = Log(as_json=True)
    log.mask.learn(["canary-old"])
    log.mask.learn(["canary-new"])
    logging.getLogger("pixi").info("canary-old canary-new")
    assert log.only["message"] == "*** ***"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bot {TOKEN}",
        TOKEN,
        "POST https://discord.com/api/v10/webhooks/123/canary_canary-canary_canary_x failed",
        "https://discord.com/api/v10/interactions/1/canaryCANARYcanaryCANARY99/callback",
        "sk-canary0123456789abcdef",
        "bearer canary0123456789.abcdefgh",
    ],
)
def test_what_looks_like_a_token_is_masked_though_nobody_told_of_it(text: str) -> None:
    assert "canary" not in SecretRedactor().hide(text).lower()


def test_placeholders_are_no_secrets() -> None:
    assert secrets_in(Settings(model=ModelSettings(api_key=Secret("none")))) == frozenset()


def test_libraries_are_quiet_and_debugging_makes_more_of_it() -> None:
    log = Log(as_json=True)
    for name in ("discord.client", "aiohttp.access", "httpx2", "asyncio"):
        logging.getLogger(name).info("chatter")
    logging.getLogger("pixi.engine").debug("detail")
    assert log.text == ""
    log = Log(as_json=True, debug=True)
    logging.getLogger("pixi.engine").debug("detail")
    logging.getLogger("discord.client").info("chatter")
    logging.getLogger("discord.client").debug("a whole payload")
    assert [json.loads(line)["message"] for line in log.lines] == ["detail", "chatter"]


def test_an_error_that_nobody_foresaw_goes_to_the_log() -> None:
    log = Log(as_json=True)
    error = ZeroDivisionError("of course")
    sys.excepthook(ZeroDivisionError, error, None)
    assert log.only["message"] == "this should not have happened: ZeroDivisionError: of course"


@pytest.mark.parametrize("as_json", [True, False])
def test_text_and_values_that_do_not_fit_are_told_as_they_are(as_json: bool) -> None:
    log = Log(as_json=as_json)
    unfitting: tuple[object, ...] = ("x", "y")
    logging.getLogger("pixi").info("%d of %d", *unfitting)
    assert "%d of %d" in log.text


def test_a_stream_that_was_closed_stops_nothing(log: Log) -> None:
    log.stream.close()
    logging.getLogger("pixi").info("anybody?")


def test_other_scripts_stay_readable() -> None:
    assert escaped_line("老秦 🥞 سلام") == "老秦 🥞 سلام"
    log = Log(as_json=True)
    logging.getLogger("pixi").info("老秦 🥞")
    assert "老秦 🥞" in log.text
