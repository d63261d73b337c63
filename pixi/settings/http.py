"""Whether what is set of the HTTP server can hold together."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pixi.core.errors import ConfigError
from pixi.settings.given import Given
from pixi.settings.http_rules import origin_of
from pixi.settings.sections import HttpSettings, JwtSettings

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SHORTEST_SECRET = 32  # characters: RFC 7518 wants as many bits as the signature has
_JWT = ("issuer", "audience", "keys")


def http_of(server: Mapping[str, Any], jwt: Mapping[str, Any], folder: Path) -> HttpSettings:
    """The settings of the server; origins as browsers send them, and a file of keys by its whole path."""
    tokens = JwtSettings(**jwt)
    if tokens.keys and "://" not in tokens.keys:
        tokens = replace(tokens, keys=str(folder / Path(tokens.keys).expanduser()))
    plain = {key: value for key, value in server.items() if not key.startswith("jwt.")}
    settings = HttpSettings(**{"files": folder / HttpSettings().files, **plain}, jwt=tokens)
    return replace(settings, allowed_origins=tuple(origin_of(one) or one for one in settings.allowed_origins))


def check_http(settings: HttpSettings, origins: Mapping[str, Given]) -> None:
    """See that the lists hold what they are for, and that nothing of `[http.jwt]` is missing.

    Raises:
        ConfigError: they do not, or something is; the text says where, and what to write.
    """
    if not _is_host(settings.host):
        place = origins["http.host"].place
        raise ConfigError(f"{place}: http.host is no name and no address; write 127.0.0.1 or 0.0.0.0.")
    for key, fits, example in (
        ("allowed_hosts", _is_host_and_port, "chat.example.org"),
        ("allowed_origins", origin_of, "https://example.org"),
        ("conversation_headers", _HEADER.fullmatch, "X-Conversation-Id"),
    ):
        for each in getattr(settings, key):
            if not fits(each):
                told = each if len(each) <= 60 else f"{each[:57]}…"
                raise ConfigError(
                    f"{origins[f'http.{key}'].place}: {told!r} has no place in http.{key}; "
                    f"write each as {example!r} is written."
                )
    if settings.address_header and not _HEADER.fullmatch(settings.address_header):
        raise ConfigError(
            f"{origins['http.address_header'].place}: http.address_header is no name of a header; write "
            '"X-Forwarded-For", or what your proxy sets.'
        )
    secret = settings.open_webui_secret
    if secret is not None and len(secret.reveal()) < _SHORTEST_SECRET:
        raise ConfigError(
            f"{origins['http.open_webui_secret'].place}: http.open_webui_secret is too short to sign with; "
            f"give it and Open WebUI {_SHORTEST_SECRET} characters or more, such as `openssl rand -hex 32` "
            "writes."
        )
    _check_jwt(settings.jwt, origins)


def _check_jwt(jwt: JwtSettings, origins: Mapping[str, Given]) -> None:
    place = next((given.place for key, given in origins.items() if key.startswith("http.jwt.")), "")
    missing = [key for key in _JWT if not getattr(jwt, key)]
    if place and missing:
        raise ConfigError(
            f"{place}: [http.jwt] needs {' and '.join(missing)}; add that, or remove the section."
        )
    if "://" in jwt.keys and not jwt.keys.startswith("https://"):
        raise ConfigError(
            f"{origins['http.jwt.keys'].place}: http.jwt.keys must be an address that begins with https://, "
            "or the path of a file."
        )


def _is_host(text: str) -> bool:
    return origin_of(f"http://{text}") is not None or origin_of(f"http://[{text}]") is not None


def _is_host_and_port(text: str) -> bool:
    return origin_of(f"http://{text}") is not None
