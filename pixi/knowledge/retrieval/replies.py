"""Reads what a helper model answered: whether there is an answer, and in which numbered sentences.

The form asked for is `{"answerable": true, "sentences": [33, 34]}`. It is so plain that it is scanned for
and not parsed: a flag, then a list of numbers. So prose round it, a fence, other quotation marks, a comma too
many and a missing end all do no harm. Of a reply in no such form, each line is taken for a quotation.

A helper may count as it likes: `"33"`, `"[33]"`, `"33-35"`, `[[33, 34]]`, `{"number": 33}`. Numbers in words
are not read. Whatever else stands in quotation marks is taken for a quotation of a sentence; `quoted` finds
the sentence.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rapidfuzz import fuzz, process, utils

LONGEST_REPLY = 64_000
"""Characters of a reply that are read."""

ALIKE = 90.0
"""How alike a quotation must be to a sentence to stand for it, of 100. What comes back is the sentence."""

_MOST_ITEMS = 100
_LONGEST_RANGE = 50  # sentences
_SHORT = 24  # characters of a quotation: the words of a shorter one may stand in any sentence
_UNPARTED = re.compile("[\u0e00-\u0eff\u2e80-\u9fff\uf900-\ufaff]")
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)  # the prompt began them
_FLAG = re.compile(r"answerable[\"'”`]?\s*[:=]\s*[\"'“`]?(true|false|yes|no)\b", re.IGNORECASE)
_SENTENCES = re.compile(r"sentences?[\"'”`]?\s*[:=]", re.IGNORECASE)
_BARE = re.compile(r"(?:```\w*)?\s*[\[{][\[{\s\d\"']")
_TOKEN = re.compile(
    r"(?P<open>[\[{])|(?P<close>[\]}])"
    r"|(?P<key>\"\w+\"|'\w+'|“\w+”|\w+)\s*:"
    r"|\"(?P<double>(?:[^\"\\]|\\.)*)\"|“(?P<curly>[^”]*)”|'(?P<single>.*?)'(?=\s*(?:[,\]}]|$))"
    r"|(?P<first>\d+)\s*(?:-|–|—|\.\.+|to)\s*(?P<last>\d+)|(?<![\d.])(?P<number>-?\d+)(?:\.0+)?(?!\d|\.\d)",
    re.DOTALL,
)
_COUNTING = re.compile(r"(?:sentences?|lines?|numbers?|nos?|and|to|[\W\d_])+", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*\[\d+\]\s*")
_BULLET = re.compile(r"^\s*(?:[-*•>]+|\d{1,3}[.)]|\[\d+\])\s*")
_QUOTES = "\"'“”‘’«»「」`* \t"


@dataclass(frozen=True, slots=True)
class HelperReply:
    """What a helper answered.

    Attributes:
        answerable: the documents hold an answer; None: the reply is in no form that says so.
        items: numbers of sentences as the helper counts them, and quotations, each once, in its order.
    """

    answerable: bool | None
    items: tuple[int | str, ...]


def read_reply(reply: str) -> HelperReply:
    """Read a helper's reply, whatever form it has."""
    reply = _END_OF_THOUGHTS.split(_THOUGHTS.sub("", reply[:LONGEST_REPLY]))[-1].strip()
    flags = list(_FLAG.finditer(reply))
    named = list(_SENTENCES.finditer(reply))
    # Who thinks aloud says the form before filling it in: the last one counts.
    begins = named[-1].end() if named else flags[-1].end() if flags else 0
    listed, whole = _listed(reply[begins:])
    items = tuple(dict.fromkeys(listed))
    if flags:
        return HelperReply(flags[-1][1].lower() in ("true", "yes"), items)
    if named:
        return HelperReply(bool(items) if items or whole else None, items)
    if _BARE.match(reply) and any(isinstance(item, int) for item in items):
        return HelperReply(True, items)
    lines = (_BULLET.sub("", line).strip(_QUOTES) for line in reply.splitlines()[:_MOST_ITEMS])
    return HelperReply(None, tuple(dict.fromkeys(line for line in lines if line)))


def runs_on(reply: str) -> bool:
    """Return True if the list in a reply is longer than anybody reads: small models may go on without end."""
    begins = reply.rfind("sentences")
    return begins >= 0 and len(_listed(reply[begins:].partition("[")[2])[0]) >= _MOST_ITEMS


def _listed(text: str) -> tuple[list[int | str], bool]:
    """Return what the list holds with which a text begins, and whether it came to its end."""
    items: list[int | str] = []
    depth, whole = 0, False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup or ""
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
            if depth <= 0:
                whole = True
                break
        elif kind == "number" and depth and token.end() == len(text):
            break  # cut off: it may have gone on
        elif kind != "key":
            items += _meant(token, kind)
        if len(items) >= _MOST_ITEMS:
            break
    return items[:_MOST_ITEMS], whole


def _meant(token: re.Match[str], kind: str) -> list[int | str]:
    if kind == "number":
        return [_number(token["number"])]
    if kind == "last":
        first, last = _number(token["first"]), _number(token["last"])
        return [*range(first, min(last, first + _LONGEST_RANGE) + 1)] if first <= last else [first, last]
    quotation = _unescaped(token[kind]).strip()
    if not _COUNTING.fullmatch(quotation):
        return [quotation] if quotation else []
    return [each for inner in _TOKEN.finditer(quotation) for each in _inner(inner)]


def _inner(token: re.Match[str]) -> list[int | str]:
    return _meant(token, token.lastgroup) if token.lastgroup in ("number", "last") else []


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 10 else 0  # small models write numbers without end


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def quoted(quotation: str, sentences: Mapping[int, str]) -> int | None:
    """Return the number of the sentence that a quotation is of; None: of none.

    It is the nearest one, if that is at least `ALIKE`, be it that words stand in another order or are left
    out. Where scripts part no words, characters are taken for words.
    """
    sought = _comparable(_NUMBERED.sub("", quotation))
    if not sought:
        return None
    # A short sentence may have all its words in a long quotation of something else.
    there = {n: text for n, each in sentences.items() if len(text := _comparable(each)) * 2 >= len(sought)}
    for scorer in (fuzz.ratio, fuzz.token_set_ratio) if len(sought) >= _SHORT else (fuzz.ratio,):
        best = process.extractOne(sought, there, scorer=scorer, score_cutoff=ALIKE)
        if best is not None:
            return best[2]
    return None


def _comparable(text: str) -> str:
    return str(utils.default_process(_UNPARTED.sub(r" \g<0> ", text)))
