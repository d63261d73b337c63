"""Messages, and what goes with them: pictures, cards, files, and the place where they are said."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from pixi.core.untrusted import clipped


class Author(Struct, frozen=True):
    """Author of a message. `id` is the platform's, `name` is what others see; both are strangers' words."""

    id: str
    name: str
    is_bot: bool = False


class Image(Struct, frozen=True):
    """A picture for models that see: `data` is the encoded file, `media_type` is e.g. `image/png`."""

    media_type: str
    data: bytes


class Quoted(Struct, frozen=True):
    """An earlier message that a new one rests on: what it replies to, or what its thread began with.

    Attributes:
        id: the platform's.
        author: who wrote it; None: the persona itself.
        text: what was written, a stranger's words.
        number: its number in the conversation where the persona was shown it already; 0: it was not.
    """

    id: str
    author: Author | None
    text: str
    number: int = 0


class Message(Struct, frozen=True):
    """A message, as a channel hands it to the engine.

    Attributes:
        id: unique within the platform; the same id is never answered twice.
        conversation: address of the channel, thread or DM, e.g. `terminal:pixi:mo`. Never a whole guild.
        text: what was written, a stranger's words.
        addressed: the persona is meant (DM, mention, reply, summon word). Others are only overheard.
        sent_at: seconds since the epoch, UTC.
        reply_to: id of the message that this one replies to.
        images: pictures, already checked and scaled by the channel.
        group: others can write here too (a channel rather than a DM), so it must be told who speaks.
        quoted: what it rests on, oldest first; the one that it replies to is the last.
        number: by which the persona can name it, counted from 1 in each conversation. The store gives it;
            0: none yet.
        again: it comes due once more: the history holds it already, and the turn that was to answer it was
            cut. A fact of the turn to come, and no part of what the store keeps of a message.
        instructions: what an application that is trusted adds to the persona's prompt, to answer this one.
    """

    id: str
    conversation: str
    author: Author
    text: str
    sent_at: float
    addressed: bool = True
    reply_to: str | None = None
    images: tuple[Image, ...] = ()
    group: bool = False
    quoted: tuple[Quoted, ...] = ()
    number: int = 0
    again: bool = False
    instructions: str = ""


Audience = Literal["one", "some", "all"]


class Venue(Struct, frozen=True):
    """The place of a conversation, as far as it decides what may be said there.

    Attributes:
        guild: the community that it belongs to, unique over all platforms, e.g. `discord:123`; "" for none.
        audience: who reads it: `one` person (a DM, a terminal), `some` members of the guild (a private
            channel or a group DM), or `all` of them.
        channel: unique over all platforms, e.g. `discord:456`; a thread counts to the one it hangs on.
            "": each conversation is a place by itself.
    """

    guild: str = ""
    audience: Audience = "one"
    channel: str = ""


class Rights(Struct, frozen=True):
    """Rights of a person in a place, by the platform and the settings at this moment.

    Attributes:
        manager: manages the guild (Discord: Manage Server), or is an operator.
        operator: governs the bot everywhere: an admin of the settings, or whoever sits at the terminal.
    """

    manager: bool = False
    operator: bool = False


Need = Literal["stickers", "archive"]
"""Need of a command or a tool that a place must meet."""


class Picture(Struct, frozen=True):
    """A picture that was found for somebody's words. It has a link, or a file, or both.

    Attributes:
        words: what is to be seen, for whoever cannot see it.
        link: of its page at a service, which asks to be shown by it; "" for a file of one's own.
        service: whose it is, as that wants to be named; "" for nobody's.
        address: where it itself is, for a place that fetches it; "" where that is not known.
        file: it itself, as it came: what moves in it is still there. None: it was not fetched.
    """

    words: str
    link: str = ""
    service: str = ""
    file: Image | None = None
    address: str = ""

    @property
    def plain(self) -> str:
        """Return the picture as one line, for places that draw nothing."""
        return " · ".join(part for part in (self.words, self.credit, self.link) if part)

    @property
    def credit(self) -> str:
        """Return what its service wants to be read beside it; "" for none."""
        return f"Powered by {self.service}" if self.service else ""


class Abilities(Struct, frozen=True):
    """Abilities of a place besides showing words, reactions and cards.

    Attributes:
        draws: pictures are drawn there from their files; elsewhere the link of one is enough.
        stickers: names of its own, as they can stand in a prompt.
        archive: what was written round it before can be looked up.
        changes: tools that change something may be used.
        asks: people there can say yes or no where a tool asks them.
    """

    draws: bool = False
    stickers: tuple[str, ...] = ()
    archive: bool = False
    changes: bool = True
    asks: bool = True

    def of(self, need: Need) -> Sequence[str]:
        """Return what the place has of a need; empty where the need is not met."""
        match need:
            case "stickers":
                return self.stickers
            case "archive":
                return ("archive",) if self.archive else ()


_SHOWING = re.compile(r"\[[A-Z][A-Z0-9_ ]*: (.+)\]", re.DOTALL)  # a command that shows a picture


def picture_on_record(picture: Picture, said: str) -> str:
    """Write what is kept of an act that shows a picture: where it is, its service, and the command.

    Words that are not those of the command stand behind the service, after a tab.
    """
    place = f"{picture.link} {picture.address} {' '.join(picture.service.split())}".rstrip()
    words = " ".join(picture.words.split())
    return f"{place}\n{said}" if words == _words_in(said) else f"{place}\t{words}\n{said}"


def picture_from_record(kept: str) -> tuple[Picture, str]:
    """Return the picture, without its file, and the command that `picture_on_record` wrote."""
    first, _, said = kept.partition("\n")
    place, has_words, words = first.partition("\t")
    link, address, service = (*place.split(" ", 2), "", "")[:3]
    return Picture(words if has_words else _words_in(said), link, service, address=address), said


def _words_in(said: str) -> str:
    command = _SHOWING.fullmatch(said)
    return command[1] if command else said


_LONGEST_TITLE, _LONGEST_TEXT = 256, 4_000
_MOST_FIELDS, _LONGEST_NAME, _LONGEST_VALUE = 25, 256, 1_000
_LONGEST_DATA = 16_000  # bytes, as JSON
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_ADDRESS = re.compile(r"https?://[^\s<>\"\x00-\x20]{1,2000}", re.IGNORECASE)


Data = Mapping[str, Any] | Sequence[Any]
"""Data of a card: a JSON object or a JSON list."""


class Field(Struct, frozen=True):
    """A named value on a card."""

    name: str
    value: str


class Card(Struct, frozen=True):
    """A card that a tool may return besides text: an embed on Discord, drawn in the terminal.

    Everything in it may be a stranger's words: whoever draws it sees that nothing in it acts.

    Attributes:
        title: one line.
        text: a paragraph or two, plain.
        fields: named values.
        picture: an https address, or a picture itself; None: none.
        link: an http or https address that the title leads to; "": none.
        type: what it is, for programs that draw this kind in a way of their own, e.g. `spot_card`. All
            others draw the fields above.
        version: of that type.
        data: what those programs draw, as a JSON object or list of at most 16,000 bytes.
    """

    title: str
    text: str = ""
    fields: tuple[Field, ...] = ()
    picture: str | Image | None = None
    link: str = ""
    type: str = "card"
    version: int = 1
    data: Data = field(default_factory=dict)

    @property
    def plain(self) -> str:
        """The card as text, for models, logs and places that draw nothing."""
        parts = [self.title, self.text, *(f"{field.name}: {field.value}" for field in self.fields), self.link]
        return "\n".join(part for part in parts if part)

    def fitted(self) -> "Card":
        """Return the card as every place can draw it: what is too long is cut, what is no address left out.

        Where `type` is no name, `version` no number from 1 on, or `data` not such data, it is a plain card.
        """
        picture = self.picture
        if isinstance(picture, str) and not (
            _ADDRESS.fullmatch(picture) and picture.lower().startswith("https")
        ):
            picture = None
        fields = [
            Field(clipped(_joined(field.name), _LONGEST_NAME), clipped(field.value.strip(), _LONGEST_VALUE))
            for field in self.fields[:_MOST_FIELDS]
        ]
        data = _as_plain_json(self.data)
        is_typed = bool(_TYPE.fullmatch(self.type)) and type(self.version) is int and self.version >= 1
        return replace(
            self,
            title=clipped(_joined(self.title), _LONGEST_TITLE),
            text=clipped(self.text.strip(), _LONGEST_TEXT),
            fields=tuple(field for field in fields if field.name or field.value),
            picture=picture,
            link=self.link if _ADDRESS.fullmatch(self.link) else "",
            type=self.type if is_typed and data is not None else "card",
            version=self.version if is_typed and data is not None else 1,
            data=data if is_typed and data is not None else {},
        )


def card_json(card: Card) -> dict[str, Any]:
    """Return a card's JSON form, and under `fallback` what can be drawn without knowing its type."""
    fallback = {
        "title": card.title,
        "text": card.text,
        "fields": [{"name": field.name, "value": field.value} for field in card.fields],
        "picture": card.picture if isinstance(card.picture, str) else None,
        "link": card.link,
    }
    return {"type": card.type, "version": card.version, "data": card.data, "fallback": fallback}


def card_on_record(card: Card) -> str:
    """Write what is kept of an act that shows a card: its words as read, and its JSON as the last line.

    What is searched for in the record, so that it can be forgotten, is found in the words.
    """
    return f"{card.plain}\n{json.dumps(card_json(card), ensure_ascii=False)}"


def card_from_record(kept: str) -> Card:
    """Return the card that was kept, without a picture that has no address; of older records the words."""
    try:
        form = json.loads(kept.rpartition("\n")[2])
        drawn = form["fallback"]
        fields = tuple(Field(each["name"], each["value"]) for each in drawn["fields"])
        card = Card(drawn["title"], drawn["text"], fields, drawn["picture"], drawn["link"])
        return replace(card, type=form["type"], version=form["version"], data=form["data"]).fitted()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        title, _, text = kept.partition("\n")
        return Card(title, text).fitted()


def _as_plain_json(data: Data) -> dict[str, Any] | list[Any] | None:
    """Return a copy of a card's data that nobody alters; None: it is no JSON, or too long."""
    if isinstance(data, str | bytes):
        return None
    try:
        plain = dict(data) if isinstance(data, Mapping) else list(data)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        copy: dict[str, Any] | list[Any] = json.loads(text)
        return copy if len(text.encode()) <= _LONGEST_DATA else None
    except (ValueError, TypeError, RecursionError):
        return None


def _joined(text: str) -> str:
    return " ".join(text.split())


_BLOCK = re.compile(r'(?:^|\n)\[(?:picture|file) "')
_NAMED = re.compile(r'(?:^|\n)\[(picture|file) "(.*?)"(:\]|[,;\]])')


class Attached(Struct, frozen=True):
    """The attachments of a message.

    Attributes:
        text: follows the message's own words; "" where there is nothing to be told. A stranger's words.
        images: ready for a model that sees.
    """

    text: str = ""
    images: tuple[Image, ...] = ()


def told_picture(name: str, described: str = "", why_not: str = "") -> str:
    """Name a picture in the text of a message; `why_not`: why it is not shown, in a few words."""
    described = f", described as: {described}" if described else ""
    return f'[picture "{name}"{described}{f"; {why_not}" if why_not else ""}]'


def told_text(name: str, text: str, characters: int) -> str:
    """Put a file into the text of a message: its name, and at most so many characters of its text."""
    return f'[file "{name}":]\n{read_part(text.strip(), characters)}\n[end of "{name}"]'


def told_size(size: int) -> str:
    """Write a number of bytes for people."""
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{max(size, 100) / 1_000:.1f} kB"


def why_not_shown(sees: bool) -> str:
    """Tell why a picture is only named; `sees`: the model could be shown it."""
    return "there are more than can be shown" if sees else "you cannot see pictures here"


def read_part(text: str, characters: int) -> str:
    """Return the text within so many characters; where something is missing, how much is told at its end."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}\n[… {len(text) - characters:,} more characters, not read]"


def words_of(text: str) -> str:
    """Return what the author wrote of a message's text, without the pictures and files that follow."""
    block = _BLOCK.search(text)
    return text if block is None else text[: block.start()]


def carried_by(text: str) -> list[tuple[str, bool]]:
    """Return the names of the pictures and files in a message's text, each with True for a picture."""
    found: list[tuple[str, bool]] = []
    block = _BLOCK.search(text)
    named = block and _NAMED.match(text, block.start())
    while named:
        found.append((named[2], named[1] == "picture"))
        at = named.end()
        if named[3] == ":]":  # its text may hold anything
            at = max(at, text.find(f'\n[end of "{named[2]}"]', at))
        named = _NAMED.search(text, at)
    return found
