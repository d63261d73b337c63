"""Numbers as texts write them, in digits of any script and in words, brought to one value."""

import re
import unicodedata
from functools import cache

from pixi.knowledge.normalising import normalise

_UNITS = {
    "zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "first": 1, "third": 3, "fourth": 4, "fifth": 5,
    "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12, "twice": 2, "dozen": 12,
    "صفر": 0, "دو": 2, "سه": 3, "چهار": 4, "پنج": 5, "شش": 6, "هفت": 7, "هشت": 8, "ده": 10, "یازده": 11,
    "دوازده": 12, "سیزده": 13, "چهارده": 14, "پانزده": 15, "شانزده": 16, "هفده": 17, "هجده": 18,
    "نوزده": 19, "بیست": 20, "سی": 30, "چهل": 40, "پنجاه": 50, "شصت": 60, "هفتاد": 70, "هشتاد": 80,
    "نود": 90, "دویست": 200, "سیصد": 300, "چهارصد": 400, "پانصد": 500, "ششصد": 600, "هفتصد": 700,
    "هشتصد": 800, "نهصد": 900, "دوم": 2, "دومین": 2, "سوم": 3, "سومین": 3, "چهارم": 4, "چهارمین": 4,
    "پنجم": 5, "پنجمین": 5, "ششم": 6, "هفتم": 7, "هشتم": 8, "نهم": 9, "دهم": 10,
}  # fmt: skip
"""Without the words for one, which mostly count nothing, and Persian nine, which is also `no`."""

_MAGNITUDES = {
    "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "hundreds": 100, "thousands": 10**3, "millions": 10**6, "billions": 10**9,
    "صد": 100, "هزار": 10**3, "میلیون": 10**6, "میلیارد": 10**9, "تریلیون": 10**12,
    "百": 100, "千": 10**3, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8,
}  # fmt: skip

_CHINESE_DIGITS = {c: n % 10 for n, c in enumerate("〇一二三四五六七八九零")} | {"两": 2, "兩": 2}
_CHINESE = "".join((*_CHINESE_DIGITS, "十", "百千万亿萬億"))
_COUNTED = (
    "年月日个名位岁歲次人条座种届件只号公里米吨元块天周世小楼层级所家"
    "部本章回分秒度倍成点頭头匹棵张張艘架辆片枚支"
)
CHINESE_NUMBER = (
    rf"[{_CHINESE}]{{2,}}(?!分之)|(?<=第)[{_CHINESE}]+|[二三四五六七八九十百千两兩](?=[{_COUNTED}])"
)
"""A number in Chinese characters, as a pattern. A single one is a number only where something is counted."""


def value_of_digits(written: str) -> str:
    """The value of a number in digits, e.g. `1,000` or `۳٫۵`: the same for the same number."""
    plain = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in written)
    plain = plain.replace("٬", ",").replace("٫", ".")
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain) or plain.count(",") > 1:
        plain = plain.replace(",", "")
    elif plain.count(".") > 1:
        plain = plain.replace(".", "")
    whole, _, part = plain.replace(",", ".").partition(".")
    part = part.replace(".", "").rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{part}" if part else whole


def times(value: str, magnitude: int) -> str:
    """A value times a power of ten, in the same form and exactly."""
    whole, _, part = value.partition(".")
    zeros = len(str(magnitude)) - 1
    moved = part.ljust(zeros, "0")
    return value_of_digits(f"{whole}{moved[:zeros]}.{moved[zeros:]}".rstrip("."))


def value_of_word(word: str) -> int | None:
    """The value of a number word in normal form; None: it is none."""
    return _normal_units().get(word)


def magnitude_of(word: str) -> int | None:
    """What a word in normal form multiplies the number before it with; None: nothing."""
    return _normal_magnitudes().get(word)


@cache
def _normal_units() -> dict[str, int]:
    return {normalise(word): value for word, value in _UNITS.items()}


@cache
def _normal_magnitudes() -> dict[str, int]:
    return {normalise(word): value for word, value in _MAGNITUDES.items()}


def value_of_chinese(written: str) -> str:
    """The value of a number in Chinese characters: `三百二十`, `二〇〇八`, `十二`."""
    if all(c in _CHINESE_DIGITS for c in written):
        return value_of_digits("".join(str(_CHINESE_DIGITS[c]) for c in written))
    total = section = digit = 0
    for c in written:
        if c in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[c]
        elif c == "十":
            section += (digit or 1) * 10
            digit = 0
        elif _MAGNITUDES[c] < 10**4:
            section += (digit or 1) * _MAGNITUDES[c]
            digit = 0
        else:
            total = (total + section + digit or 1) * _MAGNITUDES[c]
            section = digit = 0
    return str(total + section + digit)
