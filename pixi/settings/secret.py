"""Secrets in settings: shown to nobody, and found where they stand."""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NoReturn, Self
from urllib.parse import unquote, urlsplit

from pixi.core.masking import SecretRedactor, names_secret
from pixi.settings.sources import Given


class Secret:
    """A key or a token. `str`, `repr` and format strings show `***`; `reveal` gives the text itself."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text. Hand it to the library that needs it, and nowhere else."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret is not to be copied elsewhere.")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


_SHORTEST = 6
"""Shorter ones are placeholders such as `none`, which would make holes into ordinary words."""

_PASSWORD = re.compile(r"://[^:/@\s]*:(.+)@", re.DOTALL)  # also one that should have been written otherwise
_PARAMETER = re.compile(r"[?&]([^=&#?]+)=([^&#]+)")
_SCHEME = re.compile(r"(?:basic|bearer|token) +(?=\S)", re.IGNORECASE)
"""Scheme before the secret itself in a header that lets somebody in."""

_NO_SECRET_VARIABLE = re.compile(
    r"PWD|OLDPWD|GOOGLE_APPLICATION_CREDENTIALS"
    r"|.*(?:_TOKENS|TOKENI[SZ]ER\w*|_(?:DIR|DIRECTORY|FILE|PATH)|ASKPASS)",
    re.IGNORECASE,
)
"""Names of variables that sound like a secret and hold a folder, a file, a program, a count or a kind."""

_NO_SECRETS = frozenset({"sources"})  # by what each key was set: "DISCORD_TOKEN", where the token is in it


class HidesSecrets:
    """Base of sections whose `repr` shows no secret, and no password of an address."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not dataclasses.is_dataclass(self):
            return super().__repr__()
        told = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
        redactor = SecretRedactor()
        redactor.learn(filter(None, _secrets_within(self)))
        return redactor.hide(f"{type(self).__name__}({told})")


def ambient_secrets() -> frozenset[str]:
    """Return the values of environment variables whose names tell of a secret: addons have their own keys.

    Left out are names that only sound so (`PASSWORD_STORE_DIR`, `MAX_TOKENS`), and numbers of tokens.
    """
    kept = {name: value for name, value in os.environ.items() if not _only_sounds_secret(name, value)}
    return secrets_in(kept)


def _only_sounds_secret(name: str, value: str) -> bool:
    counts = "token" in name.lower() and value.isdecimal()  # a password may be all digits, a token is not
    return counts or _NO_SECRET_VARIABLE.fullmatch(name) is not None


def secrets_in(settings: object) -> frozenset[str]:
    """Return the texts of all secrets in settings, or in a part of them."""
    return frozenset(text for text in _secrets_within(settings) if len(text) >= _SHORTEST)


def _secrets_within(value: object) -> Iterator[str]:
    """Yield the texts of secrets in a value and in all that it holds, placeholders too."""
    if isinstance(value, Secret):
        yield value.reveal()
        if scheme := _SCHEME.match(value.reveal()):
            yield value.reveal()[scheme.end() :]
    elif isinstance(value, str):
        yield from _passwords(value)
    elif isinstance(value, Given):  # of an addon: nothing but its name tells that it is a secret
        yield from _secrets_within({value.key.rpartition(".")[2]: value.value})
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and names_secret(str(key)):
                yield inner
            yield from _secrets_within(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _secrets_within(inner)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in _NO_SECRETS:
                yield from _secrets_within(getattr(value, field.name))


def _passwords(text: str) -> Iterator[str]:
    """Yield the passwords in an address, as they are written and as they are meant."""
    if "://" not in text:
        return
    found = [password[1] for password in _PASSWORD.finditer(text)]
    found += [value for name, value in _PARAMETER.findall(text) if names_secret(name)]
    with suppress(ValueError):
        found.append(urlsplit(text).password or "")
    for password in filter(None, found):
        yield password
        yield unquote(password)
