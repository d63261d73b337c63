"""The bodies of requests and answers below `/api`, and what may stand behind `?`."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pixi.channels.http.feed import Protocol

MOST_LETTERS = 32_000
"""Characters of a message at most."""

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
        persona: who is to answer, by the name of its file or its own; without one, the default persona.
        userId: the user of an application for whom this is sent; needs a key with `chat:on-behalf`.
        userName: what that user is called.
        attachments: files that go with it.
        replaces: the id of a message of the same person in that conversation: this is said in its place, and
            what came after it is set aside. Without words it is said once more as it was.
    """

    message: Annotated[str, Meta(max_length=MOST_LETTERS)]
    conversation: Name | None = None
    persona: Name | None = None
    userId: Name | None = None
    userName: Name | None = None
    attachments: Annotated[list[Attachment], Meta(max_length=8)] = []
    replaces: Name | None = None


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
        messages, cards, pictures, reactions: what it did, in order; cards and pictures as in the events of
            those names.
        sources: what it read for that, as in the event of that name.
        conversation: the name of the talk, to go on with it.
        turn: the number of the turn; 0 where there was none.
        finish: how it ended, as in the event `turn_end`; `approval`: it waits for the answer to a question.
        usage: tokens.
        error: what went wrong, for people; left out where nothing did.
        approvals: the questions that wait, as in the event `approval`; left out where none does.
    """

    response: str
    text: str
    richContent: RichContent | None
    messages: list[ShownMessage]
    cards: list[dict[str, Any]]
    pictures: list[dict[str, Any]]
    reactions: list[ShownReaction]
    sources: list[dict[str, Any]]
    conversation: str
    turn: int
    finish: str
    usage: dict[str, int]
    error: str | UnsetType = UNSET
    approvals: list[dict[str, Any]] | UnsetType = UNSET


class SaidAnswer(Struct):
    """Something was said, and is answered while the client follows the talk.

    Attributes:
        conversation: the name of the talk.
        message: the id of what was said.
        place: from where to follow the talk to have all that comes of it.
    """

    conversation: str
    message: str
    place: str


class StopRequest(Struct, forbid_unknown_fields=True):
    """Stop a reply. `turn`: only if it is this turn that is under way."""

    turn: int | None = None


class StopAnswer(Struct):
    """The end of a reply: `stopped` is false where none was under way."""

    stopped: bool


class ApprovalRequest(Struct, forbid_unknown_fields=True):
    """The answer to a question whether a tool may do something."""

    approved: bool


class ChatQuery(Struct):
    """The protocol of an answer, and the form of its cards."""

    protocol: Protocol | UnsetType = UNSET
    cards: Literal["adaptive"] | UnsetType = UNSET


class PersonaQuery(Struct):
    """The persona that is to answer."""

    persona: Name | UnsetType = UNSET


class UserQuery(Struct):
    """The user of an application for whom this is asked; needs a key with `chat:on-behalf`."""

    userId: Name | UnsetType = UNSET


class TalkQuery(UserQuery):
    """The talk that a path means: its persona, where one name has talks with several."""

    persona: Name | UnsetType = UNSET


class StreamQuery(TalkQuery):
    """The talk, the protocol of its stream, and the form of its cards.

    Attributes:
        follow: the turn under way; or the whole talk, over many turns, with what people say in other windows.
        after: of a whole talk: the place from which on it is followed, where there is no `Last-Event-ID`.
    """

    protocol: Protocol | UnsetType = UNSET
    cards: Literal["adaptive"] | UnsetType = UNSET
    follow: Literal["turn", "talk"] = "turn"
    after: Annotated[str, Meta(max_length=64)] = ""


class MessagesQuery(TalkQuery):
    """The messages of a talk that are wanted.

    Attributes:
        limit: turns that are told of.
        before: only those before this turn.
        cards: in which form its cards come.
    """

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before: Annotated[int, Meta(ge=1, le=2**53)] | UnsetType = UNSET
    cards: Literal["adaptive"] | UnsetType = UNSET


class Done(Struct):
    """It was done."""

    done: bool = True


class PersonaShown(Struct):
    """A persona that the caller may talk to.

    Attributes:
        id: the name of its file.
        avatar: where its picture is, on this server; "" for none.
        language: that it speaks by itself, a BCP 47 tag.
        direction: in which that is written.
        starters: things that one may say to it first.
        sees: pictures can be shown to it.
    """

    id: str
    name: str
    about: str
    avatar: str = ""
    language: str = "en"
    direction: Literal["ltr", "rtl"] = "ltr"
    starters: list[str] = []
    sees: bool = False


class Abled(Struct):
    """The abilities of the caller.

    Attributes:
        files: send files that are kept.
        approvals: say yes or no where a persona asks before it acts.
        characters: that a message may have.
        attachments: files that a message may have.
        fileBytes: that one of them may have.
    """

    files: bool
    approvals: bool
    characters: int
    attachments: int
    fileBytes: int


class PersonasAnswer(Struct):
    """The personas that the caller may talk to, and what the caller can do."""

    personas: list[PersonaShown]
    default: str
    can: Abled


class CarriedFile(Struct):
    """A file that went with a message. `url`: where it is shown, on this server; "" where it is not."""

    name: str
    picture: bool
    url: str = ""


class ShownPicture(Struct):
    """A picture that the persona showed, as in the event `picture`."""

    text: str
    link: str
    service: str


class TalkMessage(Struct):
    """A message of a talk. `role` is `user` or `assistant`; cards and pictures stand in the place of a text.

    Attributes:
        at: of an answer, when its turn began.
        attachments: of a person's.
        pictures: of a card or a picture: addresses that stand in it, each with one of this server.
        siblings: the turns in which something else stands in its place, itself included: of a person's
            message other words, of an answer other answers to the same words. Empty: there is no other.
    """

    id: str
    role: str
    text: str
    turn: int
    at: float | None = None
    cards: list[dict[str, Any]] = []
    picture: ShownPicture | UnsetType = UNSET
    pictures: dict[str, str] = {}
    reactions: list[ShownReaction] = []
    attachments: list[CarriedFile] = []
    siblings: list[int] = []


class CitedPage(Struct):
    """A page that a reply rests on."""

    title: str
    url: str


class ToldTurn(Struct):
    """A turn of a talk.

    Attributes:
        at: when it began, in seconds since the epoch.
        finish: as in the event `turn_end`; "" while it is under way.
        sources: pages that its answer rests on.
        siblings: the turns with other answers to the same words, itself included; empty: there is no other.
    """

    turn: int
    at: float
    finish: str
    sources: list[CitedPage] = []
    siblings: list[int] = []


class MessagesAnswer(Struct):
    """The messages of a talk, oldest first.

    Attributes:
        more: there is something before it.
        turns: those of these messages.
        reactions: to messages that came before all of these.
        underWay: the number of the turn under way; 0: none is.
        waiting: something is answered, or about to be.
        place: from where to follow the talk to miss nothing. What is told here already may come again, under
            the same ids.
    """

    conversation: str
    persona: str
    messages: list[TalkMessage]
    more: bool
    turns: list[ToldTurn]
    reactions: list[ShownReaction]
    underWay: int
    waiting: bool
    place: str


class OwnTalksQuery(UserQuery):
    """The talks that are wanted. `persona`: with whom; with anybody, where it is left out."""

    persona: Name | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class OwnTalk(Struct):
    """A talk: its name, with whom, when it began and went on last, and the person's last words in it."""

    conversation: str
    persona: str
    began: float
    last: float
    text: str


class OwnTalksAnswer(Struct):
    """Talks of the caller, the one spoken in last first."""

    talks: list[OwnTalk]


class ToldBranch(Struct):
    """A branch that was set aside: its first turn, when that began, and the first words there."""

    turn: int
    at: float
    text: str


class BranchesAnswer(Struct):
    """The branches of a talk that were set aside, oldest first."""

    branches: list[ToldBranch]


class BranchRequest(Struct, forbid_unknown_fields=True):
    """Go back to what was set aside. `turn`: its first."""

    turn: int


class UndoAnswer(Struct):
    """The last words of the person, which were taken out of the talk."""

    messages: list[str]


class DayShare(Struct):
    """The used part of a day's allowance. `scope`: by whom; `kind`: of what."""

    scope: str
    kind: str
    used: int
    limit: int


class Sum(Struct):
    """A sum of use. `dollars` counts models with a price."""

    messages: int
    tokens: int
    dollars: float


class UsageAnswer(Struct):
    """The use of today, of that which is limited for the caller.

    Attributes:
        today, month: of everybody; for operators, and at this machine.
        monthDollars: that a month may cost; null: any.
        model: who writes; for the same.
    """

    shares: list[DayShare]
    today: Sum | UnsetType = UNSET
    month: Sum | UnsetType = UNSET
    monthDollars: float | UnsetType | None = UNSET
    model: str | UnsetType = UNSET


class ForgetMeRequest(Struct, forbid_unknown_fields=True):
    """Forget all that was ever kept of the caller. `really` must be true."""

    really: Annotated[bool, Meta(extra_json_schema={"const": True})]


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
