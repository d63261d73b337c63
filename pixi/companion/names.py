"""Finds what somebody means: names of tricks and spots, by words that people write.

Mistakes are forgiven, and nothing they write is a pattern. Words are compared, not texts. Each word of a
query is looked for among all words that the things have; one that is nearly the same counts by how near it
is (Indel similarity, see `rapidfuzz.fuzz.ratio`) and by where it stands: in a name more than in a
description. What somebody writes apart and somebody else together ("kick flip", "kickflip") is found by
comparing the names without their blanks, too.
"""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace
from rapidfuzz import fuzz, process

from pixi.companion.data import Spot, SpotSearch

_SURE, _NEAR = 84.0, 60.0
"""Similarity of two names that are meant to be the same, and of two that are a little alike; 100: equal."""
_WORD_CUTOFF, _SHORT_CUTOFF = 76.0, 100.0
_SHORT = 4  # letters of a word of which another letter makes another word
_KEPT = 0.55  # of the best score, that something else must have to be shown beside it
_MOST_WORDS = 20  # of a query, that are looked for
_SIGNS = {code: " " for code in range(128) if not chr(code).isalnum()}
_WEIGHTS_OF_SPOT = (1.0, 0.9, 0.9, 0.9, 0.5, 0.4)
"""Weights of the name, the three of the place, the kind, and the description."""
_RADIUS_KM = 6_371.0088


def plain(text: str) -> str:
    """Return text as it is compared: in lower case, without accents and signs."""
    if text.isascii():
        return " ".join(text.lower().translate(_SIGNS).split())
    spread = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c if c.isalnum() else " " for c in spread if not unicodedata.combining(c))
    return " ".join(kept.split())


def best(query: str, things: Mapping[str, Sequence[str]], weights: Sequence[float]) -> list[str]:
    """Return the keys of the things that fit a query, the best first; [] where none does.

    Those that are called as the query says come first, then those whose name has all its words, then what is
    nearly so.

    Args:
        query: words, maybe misspelt.
        things: of each its texts; the first is its name.
        weights: how much a word counts in the first text, in the second, and so on.
    """
    words = [word for word in plain(query).split() if len(word) > 1 or word.isdigit()][:_MOST_WORDS]
    if not words:
        return []
    whole, wanted = "".join(words), set(words)
    forms = {text: plain(text) for text in {text for texts in things.values() for text in texts}}
    scores = _scores(words, forms, things, weights)
    least = _KEPT * max(scores.values(), default=0.0)
    names = {key: forms[texts[0]] for key, texts in things.items()}
    called: dict[str, list[str]] = defaultdict(list)
    for key, name in names.items():
        called[name.replace(" ", "")].append(key)
    near = process.extract(
        whole, list(called), scorer=fuzz.ratio, processor=None, score_cutoff=_SURE, limit=None
    )
    alike = {key: likeness for name, likeness, _ in near for key in called[name]}

    def place(key: str) -> tuple[int, float, float]:
        """Return what things are ordered by, the least first."""
        if alike.get(key) == 100.0:
            group = 0
        elif wanted <= set(names[key].split()):
            group = 1
        else:
            group = 2
        return group, -alike.get(key, 0.0), -scores.get(key, 0.0)

    found = (key for key in things if key in alike or (key in scores and scores[key] >= least))
    return sorted(found, key=place)


def _scores(
    words: Sequence[str],
    forms: Mapping[str, str],
    things: Mapping[str, Sequence[str]],
    weights: Sequence[float],
) -> Mapping[str, float]:
    """Return how much the words of a query say for each thing; of those for which any does.

    Each word is compared once with each word that there is, however many things have it. Nothing is made for
    each word of each text: collecting so much garbage would hold up the whole program.
    """
    known, spaced = set[str](), dict[str, str]()
    for text, form in forms.items():
        known.update(form.split())
        spaced[text] = f" {form} "
    choices, scores = list(known), defaultdict[str, float](float)
    for word in words:
        cutoff = _SHORT_CUTOFF if len(word) < _SHORT else _WORD_CUTOFF
        near = process.extract(
            word, choices, scorer=fuzz.ratio, processor=None, score_cutoff=cutoff, limit=None
        )
        having: dict[str, float] = {}
        for known_word, likeness, _ in reversed(near):  # the likest last, so that it stands
            looked_for = f" {known_word} "
            having.update((text, likeness / 100) for text, form in spaced.items() if looked_for in form)
        best_of: dict[str, float] = {}
        for key, texts in things.items():
            score = max(having.get(text, 0.0) * weight for text, weight in zip(texts, weights, strict=True))
            if score:
                best_of[key] = score
        for key, score in best_of.items():
            # A word that nearly all have tells them apart no better than it does for people.
            scores[key] += score * (0.2 + math.log(1 + len(things) / len(best_of)))
    return scores


def fitting_spots(spots: Sequence[Spot], search: SpotSearch) -> tuple[Spot, ...]:
    """Return the spots that a search finds, in its order; their kind is not looked at."""
    if search.latitude is not None and search.longitude is not None:
        middle = (search.latitude, search.longitude)
        near = ((spot, _distance(spot, middle)) for spot in spots)
        within = [replace(spot, distance_km=km) for spot, km in near if km <= search.within_km]
        spots = sorted(within, key=lambda spot: spot.distance_km or 0.0)
    if search.words.strip():
        texts = {
            spot.id: (spot.name, spot.city, spot.state, spot.country, spot.kind, spot.description)
            for spot in spots
        }
        by_id = {spot.id: spot for spot in spots}
        fitting = [by_id[spot_id] for spot_id in best(search.words, texts, _WEIGHTS_OF_SPOT)]
        spots = sorted(fitting, key=lambda spot: spot.distance_km or 0.0)
    return tuple(spots[: search.limit])


def _distance(spot: Spot, middle: tuple[float, float]) -> float:
    """Return kilometres to a spot; more than any where nobody knows where it is."""
    if spot.latitude is None or spot.longitude is None:
        return math.inf
    return round(distance_km(middle, (spot.latitude, spot.longitude)), 2)


class NameFinder:
    """Names among which the one is found that somebody means.

    Args:
        names: where two are the same but for capitals, accents and blanks, the first counts.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_form: dict[str, str] = {}
        for each in names:
            self._by_form.setdefault(plain(each).replace(" ", ""), each)

    def meant(self, name: str) -> tuple[str | None, tuple[str, ...]]:
        """Return which of the names is meant, if that is sure; and up to three that are a little like it.

        Sure is one that is the same but for capitals, accents and blanks, or nearly the same while no other
        is as near. `kick flip` is `kickflip`, which `heelflip` is not.
        """
        asked = plain(name).replace(" ", "")
        if asked in self._by_form:
            return self._by_form[asked], ()
        found = process.extract(
            asked, list(self._by_form), scorer=fuzz.ratio, processor=None, score_cutoff=_NEAR, limit=4
        )
        near = tuple(self._by_form[form] for form, *_ in found[:3])
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
