"""Whom a message is meant for: a pure decision from what was said, where, and which personas are there."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Why = Literal["dm", "mention", "reply", "name", "home"]


@dataclass(frozen=True, slots=True)
class ChannelPersona:
    """A persona of a channel: the name of its file, and the words that it listens to."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddressingFacts:
    """What decides whom a message is meant for.

    Attributes:
        text: as it was written, with Discord's markup.
        direct: it is a direct message.
        mentions_bot: it mentions the bot's user, or the role that Discord made for the bot.
        replies_to: the persona whose message it replies to; "" where it is the bot's and nobody knows
            whose; None: it replies to no message of ours.
        to_others: it mentions somebody else, or replies to somebody else.
        by: the persona that wrote it; "" for everybody else.
    """

    text: str
    direct: bool = False
    mentions_bot: bool = False
    replies_to: str | None = None
    to_others: bool = False
    by: str = ""


def who_is_meant(facts: AddressingFacts, personas: Sequence[ChannelPersona], *, home: bool) -> dict[str, Why]:
    """Return the personas that are meant, in the order of the channel, each with the first reason.

    Whoever is named or replied to is meant. Where nobody is, a direct message, a mention of the bot, and
    in a `home` channel every message that is for nobody else, are meant for the first. No persona is
    meant by its own words, and at home personas speak to each other by name alone.
    """
    others = [persona for persona in personas if persona.name != facts.by]
    folded = _without_markup(facts.text)
    meant: dict[str, Why] = {}
    for persona in others:
        if persona.name == facts.replies_to:
            meant[persona.name] = "reply"
        elif any(stands_in(word, folded) for word in map(fold, persona.words) if word):
            meant[persona.name] = "name"
    if meant or not others:
        return meant
    first = others[0].name
    if facts.direct:
        return {first: "dm"}
    if facts.replies_to is not None and not (facts.by and facts.by == facts.replies_to):
        return {first: "reply"}
    if facts.mentions_bot:
        return {first: "mention"}
    return {first: "home"} if home and not facts.to_others and not facts.by else {}


def fold(text: str) -> str:
    """Fold a text: upper and lower case, and compatible forms of a letter (ｐｉｘｉ), become the same."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", text).translate(_INVISIBLE)


def stands_in(word: str, text: str) -> bool:
    """Return whether a text holds a word as a whole word; both are folded already.

    In scripts that are written without spaces it counts wherever its characters stand. Takes time in
    proportion to the text, whatever strangers write.
    """
    start = text.find(word)
    while start >= 0:
        if _opens(text, start) and _closes(text, start + len(word)):
            return True
        start = text.find(word, start + 1)
    return False


_MARKUP = re.compile(r"<(?:@[!&]?|\#|a?:\w{1,64}:|/[^<>\n:]{1,100}:)\d{1,20}>")

_INVISIBLE = dict.fromkeys(
    (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x200B, 0x2010), 0x2060, 0xFEFF)
)
"""Variation selectors, joiners and marks of direction: they do not make another word."""

_WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # signs that stand for ideographs
    (0x3040, 0x312F),  # Hiragana, Katakana, Bopomofo
    (0x31F0, 0x31FF),  # Katakana, more
    (0x3400, 0x4DBF),  # ideographs
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)

_KOREAN_ENDINGS = frozenset(
    (
        "아", "야", "이야", "여", "이여", "가", "이", "이가", "은", "는", "이는", "을", "를", "이를",
        "와", "과", "도", "이도", "만", "이만", "의", "이의", "에게", "한테", "께", "께서", "랑", "이랑",
        "하고", "양", "군", "씨", "씨가", "씨는", "씨도", "님", "님아", "님이", "님은", "님도", "쨩", "짱",
    )
)  # fmt: skip
"""What Korean writes to a name without a space between."""


def _without_markup(text: str) -> str:
    """Return the folded text without mentions, emoji and addresses of pages: names in these call nobody."""
    words = _MARKUP.sub(" ", text).split()
    return fold(" ".join(word for word in words if "://" not in word))


def _opens(text: str, start: int) -> bool:
    return start == 0 or not _binds(text[start]) or not _binds(text[start - 1])


def _closes(text: str, end: int) -> bool:
    if end == len(text):
        return True
    if unicodedata.category(text[end]).startswith("M"):
        return False  # a mark that makes another letter of the last one
    if not _binds(text[end - 1]) or not _binds(text[end]):
        return True
    return _is_hangul(text[end - 1]) and _korean_run(text, end) in _KOREAN_ENDINGS


def _binds(character: str) -> bool:
    """Whether a character makes one word with a letter beside it."""
    if not (character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")):
        return False
    code = ord(character)
    return code < 0x0E00 or not any(first <= code <= last for first, last in _WITHOUT_SPACES)


def _is_hangul(character: str) -> bool:
    return "가" <= character <= "힣"


def _korean_run(text: str, start: int) -> str:
    """Return what follows until the word ends; more than any ending is as good as all of it."""
    end = start
    while end < len(text) and end - start < 4 and _binds(text[end]):
        end += 1
    return text[start:end]
