"""Brings text to one form, so that what people take for the same is the same."""

import re
import unicodedata
from functools import cache

_ARABIC_FOLDS = {
    # Letters that keyboards and habits mix, to the form that both Arabic and Persian can share.
    "أ": "ا",
    "إ": "ا",
    "آ": "ا",
    "ٱ": "ا",
    "ى": "ي",
    "ی": "ي",
    "ې": "ي",
    "ۍ": "ي",
    "ێ": "ي",
    "ے": "ي",
    "ک": "ك",
    "ڪ": "ك",
    "ۀ": "ه",
    "ة": "ه",
    "ہ": "ه",
    "ھ": "ه",
    "ۂ": "ه",
    "ۃ": "ه",
    "ە": "ه",
    "ؤ": "و",
    "ئ": "ي",
}
_ARABIC_MARKS = (*range(0x0610, 0x061B), 0x0640, *range(0x064B, 0x0660), 0x0670, *range(0x06D6, 0x06EE))
_OTHER_FOLDS = {
    "\u200c": " ",  # ZWNJ parts words in Persian
    "\u0307": None,  # left over where a dotted capital I was made small
    "ё": "е",
    "ş": "ș",  # cedilla and comma below are one letter to Romanians, and to half of the keyboards
    "ţ": "ț",
    "ς": "σ",
    "‘": "'",
    "’": "'",
    "ʼ": "'",
}
_INVISIBLE = (
    0x00AD,
    0x200B,
    0x200D,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    0x2060,
    *range(0x2066, 0x206A),
    0xFEFF,
)

_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


@cache
def _folds() -> dict[int, str | None]:
    table: dict[int, str | None] = {ord(letter): fold for letter, fold in _ARABIC_FOLDS.items()}
    table |= {ord(letter): fold for letter, fold in _OTHER_FOLDS.items()}
    table |= dict.fromkeys((*_ARABIC_MARKS, *_INVISIBLE))
    table[0] = " "
    for zero in (0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50):  # Arabic, Persian, Devanagari, Bengali, Thai
        table |= {zero + value: str(value) for value in range(10)}
    return table


@cache
def _simplified() -> dict[int, str]:
    """Return the simplified form of each traditional character, by its commonest reading."""
    from importlib.resources import files

    lines = (
        files("opencc").joinpath("dictionary", "TSCharacters.txt").read_text(encoding="utf-8").splitlines()
    )
    pairs = (line.split("\t") for line in lines if "\t" in line)
    return {ord(pair[0]): pair[1].split()[0] for pair in pairs if len(pair[0]) == 1}


def clean(text: str) -> str:
    """Return the text without lone surrogates, which no file and no index can hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def normalise(text: str) -> str:
    """Return the text with compatibility forms, case, Arabic letters, digits and Chinese characters made one.

    The result may be longer or shorter than the text, and holds no lone surrogates.
    """
    if text.isascii():
        return text.lower().replace("\0", " ")
    text = unicodedata.normalize("NFKC", clean(text)).casefold().translate(_folds())
    if _HAN.search(text):
        text = text.translate(_simplified())
    return unicodedata.normalize("NFC", text)
