"""Secrets in text: what is known to be one, and what looks like a token, is masked."""

import re
from collections.abc import Iterable

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
    """Puts `***` in the place of secrets: those that it was told of, and what looks like a token.

    Attributes:
        longest: characters of the longest secret that it was told of.
    """

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.longest = 0

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these too, from now on; what was a secret once stays one."""
        self._known |= frozenset(secrets)
        longest_first = sorted(self._known, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self.longest = len(longest_first[0]) if longest_first else 0

    def hide(self, text: str) -> str:
        """The text without them."""
        if self._pattern is not None:
            text = self._pattern.sub("***", text)
        for token in _TOKENS:
            text = token.sub(lambda found: f"{found[1] or ''}***" if found.re.groups else "***", text)
        return text
