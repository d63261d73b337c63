"""Secrets in text: what is known to be one, and what looks like a token, is masked."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_TOKENS = (
    # Three parts, as Discord's tokens have.
    re.compile(r"\b[\w-]{23,28}\.[\w-]{6,7}\.[\w-]{27,}"),
    # Of webhooks and interactions, in the addresses that belong to them.
    re.compile(r"(?<=/webhooks/)(\d+/)[\w-]{20,}"),
    re.compile(r"(?<=/interactions/)(\d+/)[\w-]{20,}"),
    re.compile(r"\bsk-[\w-]{16,}"),
    re.compile(r"(?i)(\b(?:bearer|bot) )[\w.~+/-]{20,}=*"),
)

_SHORTEST_TOKEN = len("sk-") + 16
"""Characters of the shortest text that one of these finds."""

_SECRET_NAME = (
    r"(?:[\w.%-]{0,40}?(?:token|secret|passw|passphrase|pwd|credential|authorization|signature|api.?key)"
    r"[\w.%-]{0,40}|[\w.%-]{0,40}pass|"
    r"(?:[\w.%-]{0,40}[._-])?(?:(?:access|account|auth)?key|sig|auth|appid|jwt))"
)
"""Names of fields and parameters whose values are nobody's business. The bounds keep a search linear."""

_NAMED_SECRET = re.compile(_SECRET_NAME, re.IGNORECASE)
# User and password: all between `//` and the last `@` before the path. Mends write "user:password".
_LOGINS = (
    re.compile(r"(://)(?!user:password@)[^/?#\s\"'<>]*(?=@)"),
    # Likewise in an address that is encoded, as it is itself a value.
    re.compile(
        r"(%(?:25)*3A(?:%(?:25)*2F){2})(?:[^/?#&%\s\"'<>]|%(?!(?:25)*(?:2F|3F|23|26)))*(?=%(?:25)*40)",
        re.IGNORECASE,
    ),
)

# A parameter of the query or the fragment, up to its value. An address that is itself a value has its
# `?`, `#`, `&`, `;` and `=` encoded, once more for each address around it.
_PARAMETER = re.compile(
    r"(?:[?#&;]|%(?:25)*(?:3F|23|26|3B))"
    r"((?:[^?#&;=%\s\"'<>]|%(?!(?:25)*(?:3F|23|26|3B|3D)))++)"
    r"(?:=|%(?:25)*3D)",
    re.IGNORECASE,
)
_HINT = re.compile(r"://|[?#&;%]")
"""Stands in every text that an address with a secret stands in."""

_ENCODED = re.compile(r"%([0-9a-fA-F]{2})")
_VALUE = re.compile(r"[^&#\s\"'<>]*")


def names_secret(name: str) -> bool:
    """Return True if a field, header, variable or parameter of that name holds a secret."""
    return _NAMED_SECRET.fullmatch(name) is not None


def redact_addresses(text: str) -> str:
    """Put `***` in the place of users, passwords and secret parameters of all addresses in a text."""
    if _HINT.search(text) is None:
        return text
    for login in _LOGINS:
        text = login.sub(r"\1***", text)
    kept: list[str] = []
    start = 0  # of what is not in `kept`
    for parameter in _PARAMETER.finditer(text):
        if parameter.start() >= start and _is_secret(parameter[1]):
            value = _VALUE.match(text, parameter.end())
            if value and value[0]:
                kept += (text[start : value.start()], "***")
                start = value.end()
    return "".join((*kept, text[start:]))


def _is_secret(parameter: str) -> bool:
    """Return True if a parameter of that name, as it stands in an address, holds a secret."""
    name = _ENCODED.sub(lambda found: chr(int(found[1], 16)), parameter)
    return any(names_secret(part) for part in re.split(r"[^\w.%-]+", name))


def _after_group(found: re.Match[str], cover: Callable[[str], str]) -> str:
    """Return what stands in a token's place: its group, where it has one, stays."""
    kept = (found[1] or "") if found.re.groups else ""
    return kept + cover(found[0][len(kept) :])


class SecretRedactor:
    """Puts `***` in the place of secrets: those that it was told of, and what looks like a token.

    Attributes:
        longest: characters of the longest secret that it was told of.
    """

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.longest = 0

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these secrets too, from now on; what was a secret once stays one."""
        self._known |= frozenset(secrets)
        longest_first = sorted(self._known, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self.longest = len(longest_first[0]) if longest_first else 0

    def begun(self, text: str) -> int:
        """Count the characters at the end of a text that may be the beginning of a known secret."""
        longest = 0
        for secret in self._known:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            if at >= 0:
                longest = max(longest, len(text) - at)
        return longest

    def hide(self, text: str) -> str:
        """Return the text with `***` for each secret."""
        return self._put(text, lambda _: "***")

    def cover(self, text: str) -> str:
        """Return the text with a dot for each character of a secret, so that it keeps its length."""
        return self._put(text, lambda secret: "•" * len(secret))

    def _put(self, text: str, cover: Callable[[str], str]) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: cover(found[0]), text)
        for token in _TOKENS if len(text) >= _SHORTEST_TOKEN else ():
            text = token.sub(lambda found: _after_group(found, cover), text)
        return text

    def redact(self, text: str) -> str:
        """Hide secrets in what people read of errors and settings: also what any address in it holds.

        `hide` leaves those alone, because a link that a tool found is to work.
        """
        return redact_addresses(self.hide(text))


def hidden_in(value: Any, hide: Callable[[str], str], *, names: bool = False) -> Any:
    """Return plain data with each text in it as `hide` returns it; with `names`, those of fields too."""
    match value:
        case str():
            return hide(value)
        case Mapping():
            return {
                hide(str(name)) if names else name: hidden_in(each, hide, names=names)
                for name, each in value.items()
            }
        case list() | tuple():
            return [hidden_in(each, hide, names=names) for each in value]
        case _:
            return value
