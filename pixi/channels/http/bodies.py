"""The bodies of requests and answers below `/api`, and what may stand behind `?`."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pixi.channels.http.feed import Protocol

MOST_LETTERS = 32_000
"""Of a message."""

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Attachment(Struct, forbid_unknown_fields=True):
    """A file that goes with a message.

    Attributes:
        id: of a file that was sent to `/api/files`.
        url: in its place: the address of such a file, or a `data:` URL with all of it.
        name: of one in a `data:` URL, as the persona is told it.
        mediaType: counts for nothing: what it is, is told by what is in it.
    """

    id: Name | None = None
    url: Annotated[str, Meta(min_length=1)] | None = None
    name: Annotated[str, Meta(max_length=10_000)] | None = None
    mediaType: str | None = None


class ChatRequest(Struct, forbid_unknown_fields=True):
    """Something is said to a persona.

    Attributes:
        message: what is said; may be empty where there are attachments.
        conversation: the name of the talk, of the caller's choosing; without one, a new talk begins.
        persona: who is to answer, by the name of its file; without one, the default persona.
        userId: the user of an application for whom this is sent; needs a key with `chat:on-behalf`.
        userName: what that user is called.
        attachments: files that go with it.
    """

    message: Annotated[str, Meta(max_length=MOST_LETTERS)]
    conversation: Name | None = None
    persona: Name | None = None
    userId: Name | None = None
    userName: Name | None = None
    attachments: Annotated[list[Attachment], Meta(max_length=8)] = []


class ShownMessage(Struct):
    """A message of the persona."""

    id: str
    text: str


class ShownReaction(Struct):
    """A reaction of the persona to a message."""

    id: str
    emoji: str
    message: str


class RichContent(Struct):
    """The last card, as programs want it that draw one: its type and what it shows."""

    type: str
    data: Any


class ChatAnswer(Struct):
    """All that a persona did in answer to a message.

    Attributes:
        response, text: its messages, parted by blank lines; both hold the same.
        richContent: its last card.
        messages, cards, reactions: what it did, in order; a card as in the event of that name.
        conversation: the name of the talk, to go on with it.
        turn: the number of the turn; 0 where there was none.
        finish: how it ended, as in the event `turn_end`.
        usage: tokens.
        error: what went wrong, for people; left out where nothing did.
    """

    response: str
    text: str
    richContent: RichContent | None
    messages: list[ShownMessage]
    cards: list[dict[str, Any]]
    reactions: list[ShownReaction]
    conversation: str
    turn: int
    finish: str
    usage: dict[str, int]
    error: str | UnsetType = UNSET


class StopRequest(Struct, forbid_unknown_fields=True):
    """Stop a reply. `turn`: only if it is this turn that is under way."""

    turn: int | None = None


class StopAnswer(Struct):
    """Whether a reply was stopped; false where none was under way."""

    stopped: bool


class ApprovalRequest(Struct, forbid_unknown_fields=True):
    """The answer to a question whether a tool may do something."""

    approved: bool


class ProtocolQuery(Struct):
    """In which protocol a stream comes."""

    protocol: Protocol | UnsetType = UNSET


class ChatQuery(ProtocolQuery):
    """How an answer comes: in which protocol, and in which form its cards."""

    cards: Literal["adaptive"] | UnsetType = UNSET


class PersonaQuery(Struct):
    """Who is to answer."""

    persona: Name | UnsetType = UNSET


class UserQuery(Struct):
    """For which user of an application this is asked; needs a key with `chat:on-behalf`."""

    userId: Name | UnsetType = UNSET


class TalkQuery(UserQuery):
    """Which talk of that name a path means: with whom, where one name has talks with several."""

    persona: Name | UnsetType = UNSET


class StreamQuery(TalkQuery):
    """Which talk, in which protocol its stream comes, and in which form its cards."""

    protocol: Protocol | UnsetType = UNSET
    cards: Literal["adaptive"] | UnsetType = UNSET


class MessagesQuery(TalkQuery):
    """Which messages of it.

    Attributes:
        limit: turns that are told of.
        before: only those before this turn.
    """

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before: Annotated[int, Meta(ge=1, le=2**53)] | UnsetType = UNSET


class Done(Struct):
    """It was done."""

    done: bool = True


class PersonaShown(Struct):
    """A persona that the caller may talk to. `id` is the name of its file."""

    id: str
    name: str
    about: str


class PersonasAnswer(Struct):
    """The personas that the caller may talk to."""

    personas: list[PersonaShown]
    default: str


class TalkMessage(Struct):
    """A message of a talk. `role` is `user` or `assistant`; a card stands in the place of a text."""

    id: str
    role: str
    text: str
    turn: int
    at: float | None = None
    cards: list[dict[str, Any]] = []
    reactions: list[ShownReaction] = []


class MessagesAnswer(Struct):
    """What was said, oldest first. `more` is true where there is something before it."""

    conversation: str
    messages: list[TalkMessage]
    more: bool


class FileAnswer(Struct):
    """A file that was kept.

    Attributes:
        url: where it is, on this server.
        mediaType: what it is by what is in it.
        size: bytes; a picture was drawn anew.
        name: as it is shown.
    """

    id: str
    url: str
    mediaType: str
    size: int
    name: str


class VisitorRequest(Struct, forbid_unknown_fields=True):
    """A page wants a visitor's token. `token`: the one that it had, to stay the same visitor."""

    token: Annotated[str, Meta(max_length=2_000)] = ""


class VisitorAnswer(Struct):
    """A visitor who was let in.

    Attributes:
        token: for the header Authorization, with Bearer before it.
        expires: when it ends, in seconds since the epoch. Some time before, the page asks for another.
        visitor: whom the operator forgets or exports by this.
        known: it is the visitor whose token the page had.
        personas: those that they may talk to.
        default: who answers where nobody is named.
    """

    token: str
    expires: int
    visitor: str
    known: bool
    personas: list[PersonaShown]
    default: str


class Health(Struct):
    """The server answers."""

    ok: bool = True


class SessionRequest(Struct, forbid_unknown_fields=True):
    """An operator comes with a browser.

    Attributes:
        link: the token of the link that `pixi-persona serve` printed.
        key: in its place: a secret key with the scope `operate`.
    """

    link: Annotated[str, Meta(max_length=200)] = ""
    key: Annotated[str, Meta(max_length=200)] = ""


class SessionAnswer(Struct):
    """An operator who was let in.

    Attributes:
        name: who it is.
        csrf: for the header `X-Pixi-CSRF` of each request that changes something.
    """

    name: str
    csrf: str
