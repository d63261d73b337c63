"""Secrets are in nothing that is shown: errors, tracebacks, logs, what `doctor` says, how objects print."""

import ast
import io
import json
import logging
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pixi.app.models import open_model
from pixi.cli import frame, logs
from pixi.cli.console import Printer
from pixi.core.errors import ModelError, PixiError
from pixi.core.llm import Request, UserLine
from pixi.core.masking import SecretRedactor
from pixi.models.breaker import Breakers
from pixi.settings import Settings, load
from pixi.settings.secret import secrets_in
from pixi.store.opening import open_store
from tests.cli.conftest import Program
from tests.servers.scripted_openai import ScriptedOpenAI, error
from tests.waiting import within

PACKAGE = Path(__file__).resolve().parents[2] / "pixi"
KEY, TOKEN, PASSWORD = "canary-key-1234567890", "canary-token-1234567890", "canary-pass/#?-word"
URL = f"postgresql://pixi:{PASSWORD}@127.0.0.1:9/talks?sslpassword=canary-ssl-word"
ENVIRON = {
    "OPENAI_API_KEY": KEY,
    "DISCORD_TOKEN": TOKEN,
    "PIXI_STORE__URL": URL,
    "PIXI_MODEL__BASE_URL": "http://mo:canary-proxy@127.0.0.1:9/v1",
    "PIXI_MODEL__NAME": "scripted",
    "PIXI_MODEL__EXTRA_BODY": '{"headers": {"Authorization": "canary-header"}}',
    "KITCHEN_API_KEY": "canary-of-an-addon",
}
ADDRESSES = [
    "https://host/v1?key=canary",
    "https://host/v1?a=b&sig=canary%2Bcanary",
    "https://host/?X-Amz-Signature=canary&X-Amz-Credential=canary/20260101",
    "https://host/?access_token=canary",
    "https://host/?API-Key=canary&q=tea",
    "https://host/?client_secret=canary",
    "https://host/?db_password=canary",
    "https://host/#token=canary",
    "https://canary@host/",
    "https://mo:canary@host/",
    "redis://:canary@host",
    "(see <https://host/?signature=canary>, it says)",
    "https://host/?accesskey=canary&authkey=canary",
    "https://host/?jwt=canary;canary&q=tea;sig=canary&my%20token=canary",
    "https://host/?k%65y=canary&sig%6eature=canary&api%5Fkey=canary",
    "https://host/?key[]=canary&key[0]=canary&of[key]=canary&key%5B%5D=canary",
    "https://host/?next=https%3A%2F%2Fx%3Fq%3Dtea%26key%3Dcanary%26sig%3Dcanary",
    "https://host/?next=https%3A%2F%2Fmo%3Acanary%40host%2Ftea",
    "https://host/?next=a%3Fnext%3Db%253fkey%253dcanary&key=canary",
]
LEAKY_ADDON = """
import os

def setup(addon):
    key = os.environ["KITCHEN_API_KEY"]
    raise RuntimeError(f"no answer with {key} from https://kitchen.example/?token=canary-in-a-query")
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(environ=ENVIRON, folder=tmp_path)


@pytest.fixture
def secret_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    return home


def test_nothing_that_prints_shows_one(settings: Settings) -> None:
    for value in (settings, settings.model, settings.helper_model, settings.store, settings.discord):
        for text in (repr(value), str(value), f"{value}", f"{[value]}"):
            assert "canary" not in text
            assert "pixi:***@127.0.0.1:9/talks" in text or value not in (settings, settings.store)
    assert "canary" not in json.dumps({"key": settings.model.api_key}, default=str)
    assert settings.store.url == URL, "who needs it has it"


def test_all_of_them_are_known(settings: Settings) -> None:
    known = secrets_in(settings)
    for secret in (KEY, TOKEN, PASSWORD, "canary-ssl-word", "canary-proxy", "canary-header"):
        assert secret in known


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "postgresql://pixi:canary@[::1/talks",
        "postgresql://pixi:canary@host:port/talks",
        "postgresql://pixi:canary@127.0.0.1:9/talks?sslmode=nonsense",
        "postgresql://pixi:canary@127.0.0.1:9/a/b/c",
        "postgres://:canary@/",
        "mysql://me:canary@host/db",
        "sqlite://me:canary@host/db",
        "me:canary@host",
        "postgresql:/pixi:canary@host",
    ],
)
async def test_no_url_of_a_store_is_told_with_its_password(url: str) -> None:
    with pytest.raises(PixiError) as caught:
        async with within("an error"):
            await open_store(url)
    told: BaseException | None = caught.value
    while told is not None:
        assert "canary" not in str(told)
        assert "\n" not in str(told)
        told = told.__cause__


@pytest.mark.usefixtures("secret_home")
@pytest.mark.parametrize("words", [("doctor",), ("audit",), ("forget", "Mo", "--yes"), ("export", "Mo")])
def test_no_command_prints_one(program: Program, words: tuple[str, ...]) -> None:
    code, out, err = program(*words)
    assert code != 0
    assert "canary" not in out + err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ADDRESSES)
def test_no_secret_of_an_address_is_printed(text: str) -> None:
    assert "canary" not in SecretRedactor().redact(text)
    assert "canary" not in str(PixiError(f"cannot reach {text}"))
    assert "host" in SecretRedactor().redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://host/v1/@mo?q=key&design=tea&page=2",
        "mail mo@example.org: is key=1 right? a token=2 is",
        "https://host/?monkey_id=1 and user@host",
    ],
)
def test_what_is_no_secret_is_printed_as_it_is(text: str) -> None:
    assert SecretRedactor().redact(text) == text


@pytest.mark.usefixtures("secret_home")
def test_what_an_addon_raises_is_told_without_secrets(
    program: Program, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "leaky.py").write_text(LEAKY_ADDON)
    monkeypatch.setenv("PIXI_STORE__URL", "sqlite:///:memory:")
    monkeypatch.setenv("PIXI_MODEL__BASE_URL", "http://127.0.0.1:9/v1")
    reading, writing = os.pipe()
    os.write(writing, b"hi\n")
    os.close(writing)
    with open(reading) as said:
        monkeypatch.setattr(sys, "stdin", said)
        _, out, err = program("chat", "--addon", "leaky.py")
    assert "addon leaky.py: RuntimeError: no answer with *** from" in err
    assert "canary" not in out + err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("APP_TOKENIZER", "default"),
        ("TOKENIZERS_PARALLELISM", "answers"),
        ("PIXI_MODEL__MAX_TOKENS", "1310729999x"),
        ("KITCHEN_TOKEN", "1310729999"),
        ("PASSWORD_STORE_DIR", "/home/mo"),
        ("CREDENTIALS_DIRECTORY", "/run/credentials"),
        ("KITCHEN_TOKEN_FILE", "/run/secret"),
        ("SSH_ASKPASS", "/usr/bin/ask"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/mo"),
        ("OLDPWD", "/home/mo"),
    ],
)
def test_a_variable_that_only_sounds_like_a_secret_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("KITCHEN_PASSWORD", "84736251")
    assert Printer().redact(f"84736251 {value}") == f"*** {value}"


@pytest.mark.usefixtures("secret_home")
@pytest.mark.parametrize(
    "url", ["http://host/v1?key=canary", "http://[::1/v1?sig=canary", "mo:canary@host/v1"]
)
def test_no_address_of_a_model_is_told_with_its_secret(
    program: Program, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("PIXI_MODEL__BASE_URL", url)
    _, out, err = program("doctor")
    assert "base_url" in out
    assert "canary" not in out + err
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        _, out, err = program("chat")
    assert "canary" not in out + err


def writes_past_a_printer(code: str) -> list[str]:
    """The functions that print to a file of their choice, or write to standard error; each once a line."""
    found = []
    for function in ast.walk(ast.parse(code)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Call(ast.Name("print"), keywords=[*keywords]) if any(
                        keyword.arg == "file" for keyword in keywords
                    ):
                        found.append(function.name)
                    case ast.Attribute(ast.Attribute(ast.Name("sys"), "stderr"), "write" | "writelines"):
                        found.append(function.name)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "print(line, file=err)",
        "print(str(error), file=sys.stderr)",
        "print(error.text, end='', file=sys.stderr)",
        "sys.stderr.write(line)",
        "tell = sys.stderr.write",
    ],
)
def test_a_line_past_the_printer_would_be_found(line: str) -> None:
    assert writes_past_a_printer(f"async def f():\n    {line}\n") == ["f"]
    assert writes_past_a_printer("def f():\n    print(line)\n    Printer().complain(line)\n") == []


def test_lines_on_standard_error_go_through_the_printer() -> None:
    files = [*(PACKAGE / "cli").rglob("*.py"), *(PACKAGE / "app").rglob("*.py")]
    found = {(path.name, name) for path in files for name in writes_past_a_printer(path.read_text())}
    assert found == {
        ("console.py", "complain"),
        ("chat.py", "_said"),  # a mark to type behind
        ("frame.py", "_traceback"),  # which masks by itself
        ("serve.py", "_stay"),  # the link to the studio, which must stand in no log
    }


ESCAPES = "\x1b[2J\x1b]0;owned\x07"


def test_no_error_drives_the_terminal(program: Program, home: Path) -> None:
    (home / "rude.py").write_text(f"raise RuntimeError({ESCAPES!r} + 'no\\x9b1m')")
    (home / "pixi.toml").write_text('addons = ["rude.py"]')
    _, out, err = program("doctor")
    assert r"RuntimeError: \x1b[2J\x1b]0;owned\x07no\x9b1m" in out
    assert not set("\x1b\x07\x9b") & set(out + err)


@pytest.mark.parametrize("debug", [True, False])
def test_no_error_that_nobody_foresaw_drives_the_terminal(
    capsys: pytest.CaptureFixture[str], debug: bool
) -> None:
    frame.prepare(debug=debug)
    sys.excepthook(RuntimeError, RuntimeError(ESCAPES), None)
    Printer().complain(f"one{ESCAPES}\ntwo", about=ESCAPES)
    told = capsys.readouterr().err
    assert told.count(r"\x1b]0;owned\x07") == 3
    assert told.endswith("\ntwo\n")
    assert not set("\x1b\x07") & set(told)


BAD_SETTINGS = [
    'model = "canary"',
    '[model]\napi_key = ["canary"]',
    '[model]\napi_key = "canary canary"',
    "[discord]\ntoken = 'canary\\n'\ntoken = 'canary'",
    '[store]\nurl = ["postgresql://x:canary@h/d"]',
    '[model]\nbase_url = "ftp://x:canary@h"',
    '[model.api_key]\nvalue = "canary"',
]


@pytest.mark.parametrize("text", BAD_SETTINGS)
def test_no_mistake_in_the_settings_prints_one(program: Program, home: Path, text: str) -> None:
    (home / "pixi.toml").write_text(text)
    code, out, err = program("audit")
    assert code == 2
    assert "canary" not in (out + err).replace('model = "canary"', "") or text == BAD_SETTINGS[0]
    assert len(err.splitlines()) == 1


async def test_a_server_that_echoes_the_key_is_not_quoted(tmp_path: Path) -> None:
    async with ScriptedOpenAI(error(400, f"bad request by {KEY} and Bearer {KEY}")) as server:
        given = load(environ=ENVIRON | {"PIXI_MODEL__BASE_URL": server.base_url}, folder=tmp_path)
        model = await open_model(replace(given.model, extra_body={}), 5.0, lambda _: None, Breakers())
        try:
            with pytest.raises(ModelError) as caught:
                async for _ in model.stream(Request((UserLine("hi"),))):
                    pass
        finally:
            await model.close()
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(model)


class Boom(Exception):
    """What a library may raise, with everything that it knows."""


@pytest.mark.usefixtures("secret_home")
@pytest.mark.parametrize("as_json", [True, False])
def test_no_log_holds_one(settings: Settings, as_json: bool) -> None:
    stream = io.StringIO()
    mask = logs.set_up(stream, as_json=as_json, debug=True)
    mask.learn(secrets_in(settings))
    log = logging.getLogger("pixi.test")
    log.info("%s", settings.store.url)
    log.warning("refused %s", KEY, extra={"fields": {"url": URL, "more": [{"token": TOKEN}]}})
    try:
        raise Boom(f"{URL} {KEY}") from ValueError(TOKEN)
    except Boom:
        log.exception("it broke with %r", ENVIRON)
    assert "it broke" in stream.getvalue()
    assert "canary" not in stream.getvalue()


@pytest.mark.usefixtures("secret_home")
@pytest.mark.parametrize("debug", [True, False])
def test_no_error_that_nobody_foresaw_holds_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], debug: bool
) -> None:
    def run(*_: object) -> int:
        logging.getLogger("pixi.test").warning("connecting to %s", URL)
        raise Boom(f"{URL} {KEY} {TOKEN}") from ValueError(URL)

    from pixi.cli import demo

    monkeypatch.setattr(demo, "run", run)
    for other in list(logging.getLogger().handlers):
        logging.getLogger().removeHandler(other)
    mask = frame.prepare(debug=debug)
    with pytest.raises(Boom) as caught:
        frame.run(["demo", *(["--debug"] if debug else [])], mask)
    sys.excepthook(caught.type, caught.value, caught.tb)
    err = capsys.readouterr().err
    assert "Boom" in err
    assert "canary" not in err
    assert ("Traceback" in err, "connecting to" in err) == (debug, debug)


def test_a_secret_is_not_carried_away_by_accident(settings: Settings) -> None:
    key = settings.model.api_key
    assert key is not None
    assert not hasattr(key, "__dict__")
    with pytest.raises(TypeError, match="not to be copied elsewhere"):
        pickle.dumps(key)


def test_an_empty_secret_masks_nothing() -> None:
    mask = SecretRedactor()
    mask.learn(secrets_in({"token": "", "key": "abc"}))
    assert mask.hide("plain words, abc") == "plain words, abc"
