"""Finding things by words that people write: mistakes are forgiven, and nothing they write is a pattern.

Words are compared, not texts. Each word of a query is looked for among all words that the things have; one
that is nearly the same counts by how near it is (Indel similarity, see `rapidfuzz.fuzz.ratio`) and by where
it stands: in a name more than in a description. What somebody writes apart and somebody else together ("kick
flip", "kickflip") is found by comparing the names without their blanks, too.
"""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rapidfuzz import fuzz, process

Texts = Sequence[tuple[str, float]]
"""Of a thing: each of its texts, and how much it counts."""

_SURE, _NEAR = 84.0, 60.0
"""Similarity of two names that are meant to be the same, and of two that are a little alike; 100: equal."""
_WORD_CUTOFF, _SHORT_CUTOFF = 76.0, 100.0
_SHORT = 4  # letters of a word of which another letter makes another word
_KEPT = 0.55  # of the best score, that something else must have to be shown beside it
_RADIUS_KM = 6_371.0088


def plain(text: str) -> str:
    """Text as it is compared: in lower case, without accents and signs."""
    spread = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c if c.isalnum() else " " for c in spread if not unicodedata.combining(c))
    return " ".join(kept.split())


def best(query: str, things: Mapping[str, Texts]) -> list[str]:
    """Return the keys of the things that fit a query, the best first; [] where none does."""
    words = [word for word in plain(query).split() if len(word) > 1 or word.isdigit()][:20]
    places: dict[str, dict[str, float]] = defaultdict(
        dict
    )  # of each word, what things have it, and its weight
    joined: dict[str, list[str]] = defaultdict(list)
    for key, texts in things.items():
        for number, (text, weight) in enumerate(texts):
            found = plain(text)
            if number == 0:
                joined[found.replace(" ", "")].append(key)
            for word in found.split():
                places[word][key] = max(weight, places[word].get(key, 0.0))
    scores: dict[str, float] = defaultdict(float)
    known = list(places)
    for word in words:
        cutoff = _SHORT_CUTOFF if len(word) < _SHORT else _WORD_CUTOFF
        best_of: dict[str, float] = {}
        for near, likeness, _ in process.extract(
            word, known, scorer=fuzz.ratio, processor=None, score_cutoff=cutoff, limit=None
        ):
            for key, weight in places[near].items():
                best_of[key] = max(best_of.get(key, 0.0), likeness / 100 * weight)
        for key, score in best_of.items():
            # A word that nearly all have tells them apart no better than it does for people.
            scores[key] += score * (0.2 + math.log(1 + len(things) / len(best_of)))
    whole = "".join(words)
    for name, likeness, _ in process.extract(
        whole, list(joined), scorer=fuzz.ratio, processor=None, score_cutoff=_SURE, limit=None
    ):
        for key in joined[name]:
            scores[key] += likeness / 100 * (2 + math.log(1 + len(things))) * max(1, len(words))
    least = _KEPT * max(scores.values(), default=0.0)
    return sorted((key for key in scores if scores[key] >= least), key=lambda key: -scores[key])


def meant(name: str, names: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return which of the names is meant, if that is sure; and up to three that are a little like it.

    Sure is one that is the same but for capitals, accents and blanks, or nearly the same while no other is as
    near. `kick flip` is `kickflip`, which `heelflip` is not.
    """
    asked = plain(name).replace(" ", "")
    by_form: dict[str, str] = {}
    for each in names:
        by_form.setdefault(plain(each).replace(" ", ""), each)
    if asked in by_form:
        return by_form[asked], ()
    found = process.extract(
        asked, list(by_form), scorer=fuzz.ratio, processor=None, score_cutoff=_NEAR, limit=4
    )
    near = tuple(by_form[form] for form, *_ in found[:3])
    if not found or found[0][1] < _SURE or (len(found) > 1 and found[1][1] == found[0][1]):
        return None, near
    return near[0], ()


def distance_km(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Return the way between two places over the globe, given as latitude and longitude in degrees."""
    (lat1, lng1), (lat2, lng2) = (tuple(map(math.radians, place)) for place in (first, second))
    half = math.sin((lat2 - lat1) / 2) ** 2
    half += math.cos(lat1) * math.cos(lat2) * math.sin((lng2 - lng1) / 2) ** 2
    return 2 * _RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))


def latitudes_within(latitude: float, km: float) -> tuple[float, float]:
    """Return the latitudes between which all places lie that are within a distance."""
    degrees = math.degrees(km / _RADIUS_KM)
    return max(-90.0, latitude - degrees), min(90.0, latitude + degrees)
