"""Facts made of sentences by rule: the same said otherwise, and what the sentence does not say."""

import random
import re
from collections.abc import Sequence

_AUXILIARY = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|will|would|should|may|must|did|does)\b(?! not\b)"
)
_DIGITS = re.compile(r"[0-9۰-۹]+")
_PERSIAN = {
    "است": "نیست", "بود": "نبود", "شد": "نشد", "کرد": "نکرد", "دارد": "ندارد", "شود": "نشود", "کند": "نکند",
    "هستند": "نیستند", "شدند": "نشدند", "کردند": "نکردند", "بودند": "نبودند", "دارند": "ندارند",
    "داشت": "نداشت", "داد": "نداد", "یافت": "نیافت", "گرفت": "نگرفت", "رفت": "نرفت", "رسید": "نرسید",
    "می‌شود": "نمی‌شود", "می‌کند": "نمی‌کند", "می‌شوند": "نمی‌شوند", "می‌کنند": "نمی‌کنند", "باشد": "نباشد",
}  # fmt: skip
_CHINESE = (
    "是",
    "有",
    "可以",
    "能够",
    "会",
    "被",
    "属于",
    "位于",
    "包括",
    "成为",
    "获得",
    "使用",
    "开始",
    "发现",
)
_PRONOUN = {
    "en": re.compile(r"^(It|He|She|They|This)\b"),
    "zh": re.compile(r"^(它|他|她|其|该\w)"),
    "fa": re.compile(r"^(او|آن|وی|این)\b"),
}


def moved(sentence: str, language: str) -> str:
    """The sentence with its last clause before the others; "" where there are no clauses to move."""
    comma = {"en": ", ", "zh": "，", "fa": "، "}[language]
    stop = sentence[-1] if sentence[-1] in ".。؟!" else ""
    clauses = sentence.removesuffix(stop).split(comma)
    if len(clauses) < 2 or min(map(len, clauses)) < (4 if language == "zh" else 12):
        return ""
    return comma.join([clauses[-1], *clauses[:-1]]) + stop


def named(sentence: str, title: str, language: str) -> str:
    """The sentence with the title for the pronoun with which it begins; "" where it begins with none."""
    if not title or len(title) > 40 or not _PRONOUN[language].search(sentence):
        return ""
    return _PRONOUN[language].sub(lambda _: title, sentence)


def renumbered(sentence: str, chance: random.Random) -> str:
    """The sentence with a number changed, or with two numbers in each other's place; "" without numbers."""
    numbers = list(_DIGITS.finditer(sentence))
    different = [n for n in numbers if n[0] != numbers[0][0]]
    if different and chance.random() < 0.5:
        one, other = numbers[0], different[0]
        return (
            sentence[: one.start()]
            + other[0]
            + sentence[one.end() : other.start()]
            + one[0]
            + sentence[other.end() :]
        )
    if not numbers:
        return ""
    number = chance.choice(numbers)
    zero = ord("۰") if number[0][0] >= "۰" else ord("0")
    there = {n[0] for n in numbers}
    while (changed := "".join(chr(zero + chance.randint(1, 9)) for _ in number[0])) in there:
        if len(there) > 8:
            return ""
    return sentence[: number.start()] + changed + sentence[number.end() :]


def negated(sentence: str, language: str, chance: random.Random) -> str:
    """The sentence with a verb denied, or with its denial taken away; "" where the rules find no verb."""
    if language == "en":
        if " not " in sentence:
            return sentence.replace(" not ", " ", 1)
        found = list(_AUXILIARY.finditer(sentence))
        if not found:
            return ""
        verb = chance.choice(found)
        return f"{sentence[: verb.end()]} not{sentence[verb.end() :]}"
    if language == "zh":
        if re.search("没有|不能|不会|不是", sentence):
            return re.sub("没(?=有)|不(?=能|会|是)", "", sentence, count=1)
        verbs = [verb for verb in _CHINESE if verb in sentence]
        if not verbs:
            return ""
        chosen = chance.choice(verbs)
        denied = {"有": "没有", "被": "没有被"}.get(chosen, f"不{chosen}")
        return sentence.replace(chosen, denied, 1)
    words = sentence.split(" ")
    changes = _PERSIAN | {denied: said for said, denied in _PERSIAN.items()}
    places = [i for i, word in enumerate(words) if word.rstrip(".،؛") in changes]
    if not places:
        return ""
    at = chance.choice(places)
    bare = words[at].rstrip(".،؛")
    words[at] = changes[bare] + words[at][len(bare) :]
    return " ".join(words)


def replaced(sentence: str, others: Sequence[str], language: str, chance: random.Random) -> str:
    """The sentence with one word, of some length, from another document; "" where there is none to take."""
    pattern = {
        "en": r"\b[^\W\d_]{6,}\b",
        "fa": r"[^\W\d_]{4,}(?![\w\u200c])",
        "zh": "[\u4e00-\u9fff]{2,4}(?=[是在，、的和与])",
    }
    here = list(re.finditer(pattern[language], sentence))
    found: list[str] = re.findall(pattern[language], chance.choice(others)) if others else []
    there = [w for w in found if w.lower() not in sentence.lower()]
    if not here or not there:
        return ""
    word = chance.choice(here)
    return sentence[: word.start()] + chance.choice(there) + sentence[word.end() :]
