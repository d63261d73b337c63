"""What a search of the web is: its results, and why there may be none."""

from dataclasses import dataclass
from typing import Protocol

from pixi.core.errors import PixiError
from pixi.core.untrusted import clipped

_LONGEST_TITLE = 200  # characters
_LONGEST_SNIPPET = 400
_LONGEST_ADDRESS = 2_000


class SearchError(PixiError):
    """The web could not be searched. The text says why, for a model and an operator alike."""


@dataclass(frozen=True, slots=True)
class Result:
    """A page that was found: strangers' words."""

    title: str
    url: str
    snippet: str


class SearchEngine(Protocol):
    """Whoever is asked."""

    @property
    def name(self) -> str:
        """Who it is."""
        ...

    async def search(self, query: str, limit: int, language: str) -> tuple[Result, ...]:
        """The pages that fit best, best first. `language`: a BCP 47 tag, of the one who asks.

        Raises:
            SearchError: it could not be asked.
        """
        ...


def result_from(title: object, url: object, snippet: object) -> Result | None:
    """A result on one line each, cut where it is long; None where it leads nowhere."""
    if not isinstance(url, str) or len(url) > _LONGEST_ADDRESS or not url.startswith(("http://", "https://")):
        return None
    words = [" ".join(each.split()) if isinstance(each, str) else "" for each in (title, snippet)]
    return Result(clipped(words[0], _LONGEST_TITLE) or url, url, clipped(words[1], _LONGEST_SNIPPET))
