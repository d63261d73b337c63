"""Memory of people: facts, where they may be told again, and how a person is forgotten."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from pixi.core.message import Audience, Venue
from pixi.core.untrusted import clipped

LONGEST_FACT = 300
"""Characters of one fact."""
_WIDTH = {"one": 0, "some": 1, "all": 2}
_MORE = 2  # words that the fuller of two facts may have, and still be the same
_NEAR = 75  # of a hundred: what is less alike at a glance is not looked at closely
_SLIPS = 3  # words in which a typing mistake may stand
_JOINERS = "\u200c\u200d"  # unseen, and part of how Persian, Hindi and emoji are written
# Words of letters and digits; where a script parts no words, each of its characters.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]+")
_TELLING = re.compile(r"\w{6,}|(?=\w*\d)\w{3,}")  # long words, and those with a number in them
_SHORTEST = 3  # characters of such a word


class Memory(Struct, frozen=True):
    """A fact that a persona was told by a person about themselves.

    Attributes:
        id: its number, unique in a store; 0: not kept yet.
        persona: the name of who remembers.
        person: the id of the author who told it.
        guild: where it was told, see `Venue`.
        conversation: the address of the talk in which it was told.
        audience: who could read that talk then.
        text: one line, a stranger's words.
        told: when, in seconds since the epoch.
    """

    id: int
    persona: str
    person: str
    guild: str
    conversation: str
    audience: Audience
    text: str
    told: float

    @property
    def where(self) -> tuple[str, str, str]:
        """The circle that it was told to: what is equal here may be heard in the same places."""
        return self.audience, self.guild, self.conversation if self.audience == "some" else ""


def may_be_told(memory: Memory, venue: Venue, conversation: str, present: Collection[str]) -> bool:
    """Return True if a memory may be told in a place.

    A DM with the person hears all. What was told to a whole guild is told again anywhere in that guild;
    what was told to some, in that same talk while it is no more public than it was; nothing else is.

    Args:
        conversation: the address of the talk in that place.
        present: ids of those whose messages are answered or overheard there.
    """
    if venue.audience == "one":
        return set(present) == {memory.person}
    if not _WIDTH[venue.audience] <= _WIDTH[memory.audience] or venue.guild != memory.guild:
        return False
    if memory.audience == "all" and venue.guild:
        return True
    return memory.conversation == conversation


def one_fact(text: str) -> str:
    """Return a fact as it is kept: one line, without what cannot be seen, cut where it is long."""
    line = " ".join("".join(c if c.isprintable() or c in _JOINERS else " " for c in text).split())
    return clipped(line, LONGEST_FACT)


def same_facts(fact: str, others: Sequence[str]) -> list[int]:
    """Return the indices of those facts that say the same as this one, see `is_same_fact`."""
    from rapidfuzz import fuzz, process

    near = process.extract_iter(
        fact, others, scorer=fuzz.token_set_ratio, processor=_plain, score_cutoff=_NEAR
    )
    return [place for _, _, place in near if is_same_fact(fact, others[place])]


def is_same_fact(one: str, other: str) -> bool:
    """Return True if two facts differ only in order, typing mistakes, and a word or two more in one of them.

    A word that is another one makes another fact, and so does another number.
    """
    ours, theirs = Counter(_words(one)), Counter(_words(other))
    common = (ours & theirs).total()
    left, right = list((ours - theirs).elements()), list((theirs - ours).elements())
    if min(len(left), len(right)) > _SLIPS:
        return False
    for word in list(left):
        for other_word in right:
            if _is_a_slip(word, other_word):
                left.remove(word)
                right.remove(other_word)
                common += 1
                break
    more = left or right
    return not (left and right) and len(more) <= _MORE and common >= 2 * len(more)


def _words(text: str) -> list[str]:
    return _WORD.findall(_plain(text))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _is_a_slip(word: str, other: str) -> bool:
    """Return True if one word is the other with a typing mistake."""
    shorter = min(len(word), len(other))
    if shorter < 5 or any(c.isdigit() for c in word + other):
        return False
    most = 1 if shorter < 8 else 2
    from rapidfuzz.distance import OSA

    return OSA.distance(word, other, score_cutoff=most) <= most


def mentions_person(text: str, names: Iterable[str], words: Iterable[str], *, besides: str) -> bool:
    """Return True if a text names a person, or repeats a telling word of theirs.

    Args:
        text: what somebody else said in answer.
        names: the person's.
        words: what they wrote.
        besides: what others wrote, which may be repeated.
    """
    besides = besides.casefold()
    words = [word for word in distinctive_words(words) if word not in besides]
    return PersonMatcher(names, words).is_in(text)


def distinctive_words(words: Iterable[str], besides: Iterable[str] = ()) -> set[str]:
    """Return the words of a person by which they can be known again, but for those that others used too."""
    own = {word for said in words for word in _TELLING.findall(said.casefold())}
    return own.difference(word for said in besides for word in _TELLING.findall(said.casefold()))


class PersonMatcher:
    """Finds texts that name a person, or repeat one of the words by which they can be known again.

    Thousands of words cost a text little more than a few: only those are looked for that begin as some place
    of the text does.
    """

    def __init__(self, names: Iterable[str], telling: Iterable[str]) -> None:
        self._names = [name.casefold() for name in names if name.strip()]
        self._telling: dict[str, list[str]] = {}
        for word in telling:
            self._telling.setdefault(word[:_SHORTEST], []).append(word)

    def is_in(self, text: str) -> bool:
        """Return True if the text names the person or repeats such a word."""
        text = text.casefold()
        if any(_is_named(name, text) for name in self._names):
            return True
        for at in range(len(text)):
            words = self._telling.get(text[at : at + _SHORTEST], ())
            if any(text.startswith(word, at) for word in words):
                return True
        return False


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.strip())}(?!\w)", text) is not None
