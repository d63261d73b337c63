"""The pages of the web that a reply has what it says from: strangers' addresses and titles, made harmless."""

import re
from collections.abc import Iterable, Sequence

from pixi.core.llm import Cited
from pixi.core.untrusted import prompt_name

MOST_SOURCES = 8
"""Of one turn: who looks further looks for themselves."""

_TRACE = "From the web: "
_LONGEST_ADDRESS = 500  # one that is cut leads nowhere
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\|\[\]{}();]+", re.IGNORECASE)
_ENTRY = re.compile(rf"(?:(?P<title>[^;()]*) )?\(?(?P<url>{_ADDRESS.pattern})\)?(?:; |$)")
_ODD = re.compile(r"[^\w%/:?#@!$&*+,=~.-]+|[^\x00-\x7f]+")
_PAGE = re.compile(r"https?://[\w%][^/?#@]*([/?#].*)?", re.IGNORECASE)  # nobody needs a password to be shown
_MARKS = re.compile(r"[\[\]【】［］(){}<>`\\|;]")  # what commands, links and markup are made of


class Sources:
    """Those of one turn, each once, in the order in which they were cited."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, Cited] = {}

    def take(self, cited: Cited) -> Cited | None:
        """One more; gives it as it may be shown, None for one that is known, too much, or no page's."""
        url = _address(cited.url)
        if url is None or url in self._known or len(self._known) >= MOST_SOURCES:
            return None
        self._known[url] = Cited(url, _title(cited.title))
        return self._known[url]

    @property
    def all(self) -> tuple[Cited, ...]:
        """All of them."""
        return tuple(self._known.values())


def traced(sources: Iterable[Cited]) -> str:
    """The note by which the persona knows later where it had something from."""
    return _TRACE + "; ".join(f"{each.title} ({each.url})" if each.title else each.url for each in sources)


def is_trace(note: str) -> bool:
    """Whether a note is such a one. What a model writes so itself is not kept."""
    return note.startswith(_TRACE)


def sources_in(notes: Iterable[str]) -> Sequence[Cited]:
    """The sources that stand in the notes of a turn."""
    return [
        Cited(entry["url"], entry["title"] or "")
        for note in notes
        if is_trace(note)
        for entry in _ENTRY.finditer(note.removeprefix(_TRACE))
    ]


def _title(title: str) -> str:
    return prompt_name(_MARKS.sub(" ", title).replace("@", "＠"))


def _address(url: str) -> str | None:
    """The address, with nothing in it that a command, a link or a list could stumble over; None: none."""
    try:
        url = _ODD.sub(lambda odd: "".join(f"%{byte:02X}" for byte in odd[0].encode()), url.strip())
    except UnicodeEncodeError:  # half a surrogate pair
        return None
    return url if _PAGE.fullmatch(url) and len(url) <= _LONGEST_ADDRESS else None
