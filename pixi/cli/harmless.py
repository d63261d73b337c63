"""Makes text harmless for a log: no secret, and nothing by which a stranger could forge a line."""

import re
from collections.abc import Iterable

_STRUCTURE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # line breaks, the escape that terminals obey, and their like
    "\u2028\u2029"  # line breaks in other programs' eyes
    "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing
    "\ud800-\udfff\ufeff]"
)
_TOKENS = (
    # Three parts, as Discord's tokens have.
    re.compile(r"\b[\w-]{23,28}\.[\w-]{6,7}\.[\w-]{27,}"),
    # Of webhooks and interactions, in the addresses that belong to them.
    re.compile(r"(?<=/webhooks/)(\d+/)[\w-]{20,}"),
    re.compile(r"(?<=/interactions/)(\d+/)[\w-]{20,}"),
    re.compile(r"\bsk-[\w-]{16,}"),
    re.compile(r"(?i)(\b(?:bearer|bot) )[\w.~+/-]{20,}=*"),
)


class Mask:
    """Puts `***` in the place of secrets: those that it was told of, and what looks like a token."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these too, from now on; what was a secret once stays one."""
        self._known |= frozenset(secrets)
        longest_first = sorted(self._known, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def hide(self, text: str) -> str:
        """The text without them."""
        if self._pattern is not None:
            text = self._pattern.sub("***", text)
        for token in _TOKENS:
            text = token.sub(lambda found: f"{found[1] or ''}***" if found.re.groups else "***", text)
        return text


def on_one_line(text: str) -> str:
    """The text with its line breaks as blanks, and whatever else could forge a line written out."""
    return _STRUCTURE.sub(_written_out, " ".join(text.split("\n")))


def _written_out(found: re.Match[str]) -> str:
    return (
        found[0].encode("ascii", "backslashreplace").decode() if found[0] > "\x7f" else repr(found[0])[1:-1]
    )
