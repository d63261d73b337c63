"""What arrives: a message that somebody wrote in a conversation, on whatever platform."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote a message. `id` is the platform's, `name` is what others see; both are strangers' words."""

    id: str
    name: str
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for models that see: `data` is the encoded file, `media_type` is e.g. `image/png`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Quoted:
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


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as a channel hands it to the engine.

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
