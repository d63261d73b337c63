"""Finds the emoji or sticker that a persona means: itself, a name, words, or one of a server's own."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rapidfuzz import fuzz, process

from pixi.channels.discord.formatting import LEFT_ALONE
from pixi.channels.discord.outgoing.content import MessageContent
from pixi.channels.discord.places import guild_in, own_member
from pixi.core.errors import ChannelError
from pixi.core.untrusted import prompt_name

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_LONGEST_EMOJI = 200  # characters that are looked at
_ALMOST_EMOJI = 88.0  # of 100: how alike names are of which one is a slip of the other
_IN_TEXT = re.compile(rf"{LEFT_ALONE}|:(?P<name>\w{{2,32}}):", re.DOTALL)
_TOKEN = re.compile(r"<a?:(?P<own>\w+):(?P<id>\d+)>|:(?P<name>[^\s:<>]+):")
_TONE = re.compile(r"(?:_tone|::?skin[-_]tone[-_])([1-6])$")
_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_LETTER_A = 0x1F1E6  # 🇦; two such letters are a flag
_COUNTRY = re.compile(r"flag_([a-z]{2})")
_ASIDE = frozenset(("a", "the", "with", "of", "face", "sign", "button", "symbol", "mark", "gesture"))
"""Words of names that nobody says who means the emoji."""

_DISCORD = {
    "call_me": "🤙", "clown": "🤡", "cowboy": "🤠", "face_palm": "🤦", "face_with_symbols_over_mouth": "🤬",
    "fingers_crossed": "🤞", "frowning2": "☹️", "hand_splayed": "🖐️", "head_bandage": "🤕",
    "hugging": "🤗", "levitate": "🕴️", "map": "🗺️", "money_mouth": "🤑", "nerd": "🤓", "newspaper2": "🗞️",
    "rolling_eyes": "🙄", "slight_frown": "🙁", "slight_smile": "🙂", "smiling_face_with_3_hearts": "🥰",
    "spy": "🕵️", "thermometer_face": "🤒", "upside_down": "🙃", "vulcan": "🖖", "zipper_mouth": "🤐",
}  # fmt: skip
"""Shortcodes of Discord's that no list of Unicode has."""

_WORDS = {
    "happy": "😊", "haha": "😂", "hug": "🤗", "laugh": "😂", "lol": "😂", "love": "❤️", "sad": "😢",
    "thumb": "👍", "yay": "🎉",
}  # fmt: skip
"""Words for which models reach, and which no shortcode is."""

MOST_NAMES = 25
"""Stickers of a server that a persona is told of at most."""

_LONGEST_STICKER = 100  # characters that are looked at
_ALMOST_STICKER = 80.0  # of 100: how alike names are of which one is a slip of the other
_SHOWN = (".png", ".gif")
"""Endings of links that Discord shows. Of some stickers there is only a drawing that moves by a script."""

_MEANING = re.compile(r"[\[\]【】［］`\\<>|*_~,#:\s]+")
"""Letters that the command language, a prompt or a list would take for something else."""


class OwnEmoji(Struct, frozen=True):
    """An emoji that a server made; its name has letters, digits and underscores."""

    id: int
    name: str
    animated: bool = False


def own_emoji(channel: "MessageableChannel") -> Sequence[OwnEmoji]:
    """Return the server's emoji that the bot can use there."""
    guild = guild_in(channel)
    if guild is None:
        return ()
    me = own_member(guild)  # without it nobody knows which roles the bot has
    return [
        OwnEmoji(emoji.id, emoji.name, emoji.animated)
        for emoji in guild.emojis
        if emoji.available and (not emoji.roles or (me is not None and emoji.is_usable()))
    ]


def with_own_emoji(text: str, own: Sequence[OwnEmoji]) -> str:
    """Put a server's emoji in place of their names between colons; code stays as it is."""
    if ":" not in text or not own:
        return text
    exactly = {each.name: each for each in own}
    loosely = {each.name.casefold(): each for each in own}

    def put(match: re.Match[str]) -> str:
        name = match["name"]
        found = (exactly.get(name) or loosely.get(name.casefold())) if name else None
        return emoji_markup(found) if found else match[0]

    return _IN_TEXT.sub(put, text)


def emoji_markup(own: OwnEmoji) -> str:
    """Write a server's emoji as it stands in a message."""
    return f"<{'a' if own.animated else ''}:{own.name}:{own.id}>"


class EmojiNames:
    """The emoji of Unicode by their names: English, shortcodes, and other languages.

    Making one takes some hundredths of a second; it can be done in a thread.

    Args:
        languages: BCP 47 tags of those to be read at once; others are read when they are asked for.
    """

    __slots__ = ("_by_language", "_by_name", "_plain")

    def __init__(self, languages: Iterable[str] = ()) -> None:
        from emoji import EMOJI_DATA, STATUS

        self._by_name: dict[str, str] = {}
        self._by_language: dict[str, Mapping[str, str]] = {}
        self._plain: dict[str, str] = {}  # without variation selectors: as it should be
        whole = STATUS["fully_qualified"]
        aliases: list[tuple[str, str]] = []
        for emoji, about in EMOJI_DATA.items():
            if about["status"] == whole:
                self._plain[emoji.replace("\ufe0f", "")] = emoji
                self._by_name.setdefault(_key(about["en"]), emoji)
                aliases.extend((alias, emoji) for alias in about.get("alias", ()))
        for alias, emoji in aliases:
            self._by_name.setdefault(_key(alias), emoji)
        self._by_name |= _DISCORD
        for word, emoji in _WORDS.items():
            self._by_name.setdefault(word, emoji)
        for language in languages:
            self._of(language)

    def named(self, name: str, language: str = "en") -> str | None:
        """Return the emoji of exactly this name, which may ask for a tone of skin."""
        key = _key(name)
        tone = _TONE.search(key)
        if tone is not None and (base := self.named(key[: tone.start()], language)) is not None:
            shade = int(tone[1]) - (2 if "skin" in tone[0] else 1)
            return self._plain.get(base.replace("\ufe0f", "") + _TONES[max(0, min(shade, 4))], base)
        if country := _COUNTRY.fullmatch(key):
            letters = "".join(chr(_LETTER_A + ord(letter) - ord("a")) for letter in country[1])
            return self._plain.get(letters)
        return self._by_name.get(key) or self._of(language).get(key)

    def like(self, words: str, language: str = "en") -> str | None:
        """The emoji whose name these words nearly are: another number, a slip, or the words that matter."""
        key = _key(words)
        if len(key) < 3:
            return None
        for form in _forms(key):
            if (found := self.named(form, language)) is not None:
                return found
        tables = (self._by_name, self._of(language))
        wanted = frozenset(key.split("_")) - _ASIDE
        if wanted:
            matching = [
                name for table in tables for name in table if _says(wanted, frozenset(name.split("_")))
            ]
            if matching:
                return self.named(min(matching, key=lambda name: _beside(wanted, name)), language)
        if len(key) < 5:
            return None
        for table in tables:
            best = process.extractOne(key, table.keys(), scorer=fuzz.ratio, score_cutoff=_ALMOST_EMOJI)
            if best is not None:
                return table[best[0]]
        return None

    def within(self, text: str) -> Iterator[tuple[int, str]]:
        """Return the emoji that stand in a text as themselves, with their places."""
        from emoji import emoji_list

        for found in emoji_list(text):
            whole = self._plain.get(found["emoji"].replace("\ufe0f", ""))
            if whole is not None:
                yield found["match_start"], whole

    def _of(self, language: str) -> Mapping[str, str]:
        """Return the names in a language that is not English; none where nobody wrote them down."""
        tag = language.partition("-")[0].lower()
        if tag not in self._by_language:
            self._by_language[tag] = _names_in(tag)
        return self._by_language[tag]


def find_emoji(
    text: str, names: EmojiNames, own: Sequence[OwnEmoji] = (), language: str = "en"
) -> str | OwnEmoji | None:
    """Return the emoji that is meant; the first where there are several; None where it cannot be told.

    Args:
        text: what stands where an emoji should.
        names: the emoji of Unicode.
        own: the emoji of the server, which win over others of the same name.
        language: BCP 47 tag of the language in which it may be named besides English.
    """
    text = unicodedata.normalize("NFC", text[:_LONGEST_EMOJI]).strip()
    for name in (text, *re.split(r"[,;，、；]", text)[:1]):
        if (found := _own_named(name, own) or names.named(name, language)) is not None:
            return found
    spots: list[tuple[int, str | OwnEmoji]] = [*names.within(text)]
    for match in _TOKEN.finditer(text):
        meant = _by_id(match["id"], own) or _own_named(match["own"] or match["name"], own)
        if (found := meant or names.named(match["own"] or match["name"], language)) is not None:
            spots.append((match.start(), found))
    if spots:
        return min(spots, key=lambda spot: spot[0])[1]
    token = _TOKEN.search(text)
    words = (token["own"] or token["name"]) if token else text
    return _own_like(words, own) or names.like(words, language)


def _key(name: str) -> str:
    """Return what is compared of a name. Thumbs that point nowhere without their sign keep it."""
    name = name.strip().strip(":").casefold()
    if name in ("+1", "-1", "_1"):
        return name
    return re.sub(r"[\s_-]+", "_", re.sub(r"[’'.,!()“”\"*`]", "", name)).strip("_")


def _forms(key: str) -> Iterator[str]:
    """Give other forms of a word: one pancake, a thinking face."""
    yield from (f"{key}s", f"{key}es", f"{key}_face", f"{key}ing", f"{key}ing_face")
    if key.endswith("s"):
        yield key[:-1]
    if key.endswith("y"):
        yield f"{key[:-1]}ies"
    if key.endswith("_emoji"):
        yield key.removesuffix("_emoji")


def _says(wanted: frozenset[str], name: frozenset[str]) -> bool:
    """Return whether a name has all these words; where it is one word, no other of importance."""
    return wanted <= name and (len(wanted) > 1 or name - wanted <= _ASIDE)


def _beside(wanted: frozenset[str], name: str) -> tuple[int, int, str]:
    """Return how much a name says that was not asked for."""
    return len(frozenset(name.split("_")) - wanted - _ASIDE), len(name), name


def _names_in(language: str) -> Mapping[str, str]:
    from emoji import EMOJI_DATA, LANGUAGES, STATUS, config

    if language not in LANGUAGES or language == "en":
        return {}
    config.load_language(language)
    whole = STATUS["fully_qualified"]
    named: dict[str, str] = {}
    for emoji, about in EMOJI_DATA.items():
        if about["status"] == whole and (name := about.get(language)):
            named.setdefault(_key(name), emoji)
    return named


def _by_id(digits: str | None, own: Iterable[OwnEmoji]) -> OwnEmoji | None:
    for each in own:
        if str(each.id) == digits:
            return each
    return None


def _own_named(name: str, own: Sequence[OwnEmoji]) -> OwnEmoji | None:
    """Return the server's emoji of this name: written exactly so, else alike but for case, else for signs."""
    bare = name.strip().strip(":")
    for form in (str, str.casefold, _key):
        for each in own:
            if form(each.name) == form(bare):
                return each
    return None


def _own_like(words: str, own: Sequence[OwnEmoji]) -> OwnEmoji | None:
    key = _key(words)
    if len(key) < 4:
        return None
    keys = [_key(each.name) for each in own]
    best = process.extractOne(key, keys, scorer=fuzz.ratio, score_cutoff=_ALMOST_EMOJI)
    return own[best[2]] if best is not None else None


class OwnSticker(Struct, frozen=True):
    """A sticker that a server made. Name, description and tag are strangers' words.

    Attributes:
        tag: the name of an emoji that goes with it.
        url: where its picture is.
    """

    id: int
    name: str
    description: str = ""
    tag: str = ""
    url: str = ""


def own_stickers(channel: "MessageableChannel") -> Sequence[OwnSticker]:
    """Return the server's stickers that can be sent there; none in a DM."""
    guild = guild_in(channel)
    return [
        OwnSticker(each.id, each.name, each.description, each.emoji, each.url)
        for each in (guild.stickers if guild is not None else ())
        if each.available
    ]


def names_of(stickers: Sequence[OwnSticker]) -> tuple[str, ...]:
    """Return their names as a persona is told them: harmless, in the order of the alphabet, not too many.

    Discord tells of stickers in no order of its own, and what a persona is told should stay as it is.
    """
    told = {_plain(each.name) for each in stickers}
    return tuple(sorted(name for name in told if name)[:MOST_NAMES])


def find_sticker(words: str, stickers: Sequence[OwnSticker]) -> OwnSticker | None:
    """The sticker that is meant: by its name in any case, nearly its name, or what it is described by."""
    wanted = _sticker_key(words[:_LONGEST_STICKER])
    if not wanted:
        return None
    names = [_sticker_key(each.name) for each in stickers]
    if wanted in names:
        return stickers[names.index(wanted)]
    nearly = process.extractOne(wanted, names, scorer=fuzz.ratio, score_cutoff=_ALMOST_STICKER)
    if nearly is not None:
        return stickers[nearly[2]]
    said = [_sticker_key(f"{each.name} {each.description} {each.tag}") for each in stickers]
    told = process.extractOne(wanted, said, scorer=fuzz.token_set_ratio, score_cutoff=_ALMOST_STICKER)
    return stickers[told[2]] if told is not None else None


def sticker_content(name: str, stickers: Sequence[OwnSticker], *, as_link: bool) -> MessageContent:
    """Return the message that shows a sticker.

    Args:
        name: what it nearly is called.
        stickers: what there is.
        as_link: its picture is shown by a link, where it has one: a webhook cannot send stickers.

    Raises:
        ChannelError: there is none like it.
    """
    found = find_sticker(name, stickers)
    if found is None:
        raise ChannelError(f"There is no sticker {prompt_name(name)!r}.")
    if as_link and found.url.partition("?")[0].endswith(_SHOWN):
        return MessageContent(found.url)
    return MessageContent(sticker=found.id)


def _plain(name: str) -> str:
    return " ".join(_MEANING.sub(" ", prompt_name(name)).split()).strip("'=")


def _sticker_key(text: str) -> str:
    return " ".join(_MEANING.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split())
