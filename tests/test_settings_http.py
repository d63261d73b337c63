"""`[http]` and `[http.jwt]`: the server for programs and web pages."""

from pathlib import Path

import pytest

from pixi.settings import HttpSettings, JwtSettings
from tests.test_settings import fault, loaded

JWT = '[http.jwt]\nissuer = "https://example.org"\naudience = "pixi"\nkeys = "keys.json"\n'


def test_without_a_word_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    settings = loaded(tmp_path).http
    assert settings == HttpSettings(files=tmp_path / "pixi-files")
    assert (settings.host, settings.port, settings.local) == ("127.0.0.1", 8642, True)
    assert settings.jwt == JwtSettings()


def test_both_sections_are_read(tmp_path: Path) -> None:
    toml = (
        '[http]\nport = 0\nsilence = ""\nreactions = "line"\nallowed_hosts = ["chat.example.org:80"]\n' + JWT
    )
    settings = loaded(tmp_path, toml)
    assert settings.http == HttpSettings(
        port=0,
        files=tmp_path / "pixi-files",
        silence="",
        reactions="line",
        allowed_hosts=("chat.example.org:80",),
        jwt=JwtSettings("https://example.org", "pixi", str(tmp_path / "keys.json"), "sub"),
    )
    assert settings.sources["http.jwt.issuer"] == str(tmp_path / "pixi.toml")


def test_variables_reach_both(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        PIXI_HTTP__PORT="80",
        PIXI_HTTP__MAX_BODY_BYTES="2000",
        PIXI_HTTP__ALLOWED_ORIGINS="https://a.example, HTTPS://B.example:443/",
        PIXI_HTTP__JWT__ISSUER="me",
        PIXI_HTTP__JWT__AUDIENCE="pixi",
        PIXI_HTTP__JWT__KEYS="https://example.org/keys",
        PIXI_HTTP__JWT__USER="email",
    ).http
    assert (settings.port, settings.max_body_bytes) == (80, 2_000)
    assert settings.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.jwt == JwtSettings("me", "pixi", "https://example.org/keys", "email")


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("[http]\nport = 70000", "http.port is 70000; it must be a whole number from 0 to 65,535."),
        ("[http]\nprot = 80", "[http] has no key 'prot'; did you mean 'port'?"),
        ("[http]\njwt = 3", "http.jwt is a section; write [http.jwt] and its keys below."),
        ('[http]\nissuer = "x"', "[http] has no key 'issuer'; it belongs in [http.jwt]."),
        ('[http.jwt]\nisuer = "x"', "[http.jwt] has no key 'isuer'; did you mean 'issuer'?"),
        ("[http.jwt]\nissuer = 3", "http.jwt.issuer is 3; it must be text in quotes."),
        ('[http.jwt]\nissuer = ""', "http.jwt.issuer is empty; give it a value or remove the line."),
        ('[http.jwt]\nissuer = "x"', "[http.jwt] needs audience and keys; add that, or remove the section."),
        (JWT + 'user = "sub"\n[http]\nhost = "a b"', "http.host is no name and no address"),
        (JWT.replace("keys.json", "http://example.org"), "must be an address that begins with https://"),
        ('[http]\nallowed_origins = ["*"]', "'*' has no place in http.allowed_origins"),
        (
            '[http]\nallowed_origins = ["https://a.example/x"]',
            "write each as 'https://example.org' is written.",
        ),
        ('[http]\nallowed_hosts = ["https://a.example"]', "write each as 'chat.example.org' is written."),
        ('[http]\nconversation_headers = ["X: y"]', "write each as 'X-Conversation-Id' is written."),
        ('[http]\naddress_header = "X: y"', "http.address_header is no name of a header; write"),
        ("[http]\nvisitors_per_address = 0", "it must be a whole number from 1 to 1,000,000."),
        ('[http]\nhosts = "x"', "[http] has no key 'hosts'; did you mean 'host'?"),
        ('[http]\nsystem = "obey"', 'it must be one of "note", "ignore", "append".'),
    ],
)
def test_a_mistake_is_told_with_its_mend(tmp_path: Path, toml: str, told: str) -> None:
    assert told in fault(tmp_path, toml)


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("PIXI_HTTP__OPEN_WEBUI_SECRET", "is too short to sign with; give it and Open WebUI 32 characters"),
        ("PIXI_HTTP_PORT", "PIXI_HTTP_PORT: write PIXI_HTTP__PORT, with two underscores."),
        ("PIXI_HTTP__JWT_ISSUER", "write PIXI_HTTP__JWT__ISSUER, with two underscores."),
        ("PIXI_HTTP__JWT__ISUER", "[http.jwt] has no key 'isuer'; did you mean 'issuer'?"),
    ],
)
def test_a_mistake_in_a_variable_is_told(tmp_path: Path, variable: str, told: str) -> None:
    assert told in fault(tmp_path, **{variable: "x"})


def test_what_open_webui_signs_with_is_a_secret(tmp_path: Path) -> None:
    settings = loaded(tmp_path, PIXI_HTTP__OPEN_WEBUI_SECRET="5a" * 32).http
    assert settings.open_webui_secret is not None
    assert settings.open_webui_secret.reveal() == "5a" * 32
    assert "5a" not in repr(settings)
