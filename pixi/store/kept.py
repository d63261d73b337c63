"""Values that the store keeps: turns and their acts, conversations, deeds, and what people chose."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from pixi.core.conversation import Bounds, PastTurn
from pixi.core.events import Finish, act_id
from pixi.core.language import Planned
from pixi.core.llm import Line, Usage
from pixi.core.message import Author, Message
from pixi.store.framing import Framing

Outcome = Literal["done", "refused", "unknown"]
AuditOutcome = Literal["done", "failed", "denied", "unknown"]
"""The outcome of a deed; `denied`: a person did not agree, `unknown`: it may have happened."""


CommandOutcome = Literal["begun", "done", "dropped", "failed"]
"""The outcome of a planned command; `begun`: it may have happened, in part or as a whole."""
Mark = Literal["written", "stopped"]
"""How a turn under way will end, as far as that is known. `written`: its reply is whole, and all its commands
are on record. `stopped`: somebody stopped it, and what it planned is dropped."""


MOST_ENDED = 16
"""Turns of one conversation that `Store.ended_after` tells of."""


class Begun(Struct, frozen=True):
    """A turn that was put on record, and the ids of the messages that it answers, as they were asked for."""

    turn: int
    taken: tuple[str, ...]


class PlannedCommand(Planned, frozen=True, gc=False):
    """A command on record. `outcome` is None while it was not begun."""

    outcome: CommandOutcome | None = None


class Effect(Struct, frozen=True):
    """An outward act under its key (turn, sequence). `kind` is e.g. `send`; `payload` what was to be done.

    `outcome` is None while only the intent is recorded: whether it happened is not known. `target` is the
    number of the earlier message that it is about; 0: none was named. `command` is the number of the planned
    command that acts; None: none does, as where a tool posts.
    """

    turn: int
    sequence: int
    kind: str
    payload: str
    outcome: Outcome | None = None
    platform_id: str | None = None
    target: int = 0
    command: int | None = None


def id_of_act(effect: Effect, effects: Iterable[Effect]) -> str:
    """Return the id of an act, which its event had; `effects`: all of its turn, also what came to nothing."""
    first = all(each.sequence >= effect.sequence for each in effects if each.command == effect.command)
    return act_id(effect.turn, effect.sequence, effect.command, first=first)


class UnfinishedTurn(Struct, frozen=True):
    """A turn that was not ended: the messages it answers, and what is on record of it.

    Attributes:
        effects: its acts.
        deeds: what its tools changed, or may have.
        commands: those that closed, by their numbers.
        lease: the number of the lease that it began under.
        mark: what is known of its end; None: nothing yet.
        answered: the id of the last message to the persona, also where that was withdrawn since.
    """

    id: int
    messages: tuple[Message, ...]
    effects: tuple[Effect, ...]
    deeds: "tuple[AuditRecord, ...]" = ()
    commands: tuple[PlannedCommand, ...] = ()
    lease: int = 0
    mark: Mark | None = None
    answered: str = ""


@dataclass(frozen=True, slots=True)
class SavedConversation:
    """A conversation as it is on record.

    Attributes:
        generation: counts resets; writes of an older generation are dropped.
        turns: the history, or what of it was asked for, oldest first, frozen to the byte.
        waiting: messages received and not yet part of a turn, and those that come due again, oldest first
            (overheard ones too).
        unfinished: turns begun and not ended, oldest first. One that `reset` or `forget` overtook has
            neither messages nor acts here: nothing is left of it but to end it.
        bounds: where the window stands.
        summary: what is remembered of the turns before; "" for nothing.
        revision: counts how often words were taken out of what the store holds, see `Store.begin_turn`.
    """

    generation: int
    turns: tuple[PastTurn, ...]
    waiting: tuple[Message, ...]
    unfinished: tuple[UnfinishedTurn, ...]
    bounds: Bounds = field(default=Bounds(0))
    summary: str = ""
    revision: int = field(default=0, compare=False)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Return the lines of its turns."""
        return tuple(line for turn in self.turns for line in turn.lines)


class Fold(Struct, frozen=True):
    """Turns that are to be folded into a summary.

    Attributes:
        generation: that of the conversation.
        version: that of what is remembered.
        summary: what is remembered until now.
        turns: what was said since, oldest first, the pictures without what they show.
    """

    generation: int
    version: int
    summary: str
    turns: tuple[PastTurn, ...]


class Forgotten(Struct, frozen=True):
    """The words that were taken out of the store since it was last asked.

    Attributes:
        revision: to be given the next time.
        conversations: addresses of those that lost words.
        turns: ids of turns under way that answer somebody who was forgotten, or tell of them.
    """

    revision: int
    conversations: tuple[str, ...] = ()
    turns: frozenset[int] = frozenset()


class Known(Struct, frozen=True):
    """A person of whom something is kept.

    Attributes:
        id: of the author.
        names: under which they wrote last; empty where none is known.
        messages: how many of theirs are kept.
        conversations: in how many they are.
        memories: how many facts about them.
        deeds: how often a tool changed something on their behalf.
        files: how many they sent over HTTP.
        last: when they wrote last, in seconds since the epoch; 0: no message of theirs is kept.
    """

    id: str
    names: tuple[str, ...] = ()
    messages: int = 0
    conversations: int = 0
    memories: int = 0
    deeds: int = 0
    files: int = 0
    last: float = 0.0


class TurnRecord(Struct, frozen=True):
    """A turn as it is told of later.

    Attributes:
        began: seconds since the epoch.
        finish: None while it is under way.
        cost: in dollars; None where it is not known.
        people: ids of the authors of the messages that it answered.
        lines: what it left in the history; empty where that was forgotten.
    """

    id: int
    conversation: str
    persona: str
    model: str
    began: float
    finish: Finish | None
    steps: int
    usage: Usage
    cost: float | None
    people: tuple[str, ...]
    lines: tuple[Line, ...]
    effects: tuple[Effect, ...]


class LookedBack(Struct, frozen=True):
    """A turn that is over, with what stands on record of how it was asked.

    Attributes:
        trunk: the conversation, also where the turn was taken out of it.
        messages: that it answered or overheard, oldest first, as far as they are kept.
        past: the turns before it, from where its window began.
        summary: what is remembered of those before them by now.
        framing: None where it was not put on record.
    """

    record: TurnRecord
    trunk: str
    messages: tuple[Message, ...]
    past: tuple[PastTurn, ...]
    summary: str
    framing: Framing | None


class ChannelConfig(Struct, frozen=True):
    """Choices of people for one channel of a platform.

    Attributes:
        personas: names of those who live there, the first speaks unless another is named; empty: the default.
        model: the name of the model that writes; empty: the default.
        home: whether every message there is meant for the first persona.
    """

    personas: tuple[str, ...] = ()
    model: str = ""
    home: bool = False


class Tally(Struct, frozen=True):
    """Sums of turns, those included that were begun again, which `turns` does not count.

    `cost` holds those whose price is known.
    """

    turns: int
    usage: Usage
    cost: float


class Quota(Struct, frozen=True):
    """A limit of what some tools may change for one person.

    Attributes:
        writes: calls that were carried out, or may have been.
        seconds: within any stretch of this length.
        tools: that are counted together.
        once: a deed of the same tool with the same arguments is the same one again, and is not counted.
    """

    writes: int
    seconds: float
    tools: tuple[str, ...]
    once: bool = False


class Deed(Struct, frozen=True):
    """A change that a tool is about to make in the world.

    Attributes:
        guild: the community that the conversation belongs to; "" for none.
        turn: in which it is done.
        persona: who does it.
        person: id of the author on whose behalf; "" where they were forgotten.
        arguments: as JSON.
        approved_by: id of the person who was asked and said yes; "" where nobody was.
    """

    conversation: str
    guild: str
    turn: int
    persona: str
    person: str
    tool: str
    arguments: str
    approved_by: str = ""


class AuditRecord(Struct, frozen=True):
    """A deed on record.

    Attributes:
        began: seconds since the epoch.
        seconds: how long it took; None where that is not known.
        outcome: None while it is under way, and for good where the process ended in its midst.
    """

    id: int
    began: float
    seconds: float | None
    outcome: AuditOutcome | None
    deed: Deed


class Talk(Struct, frozen=True):
    """A conversation that a person has over HTTP, under the name by which its client knows it.

    Attributes:
        address: of the conversation.
        person: id of the author whose talk it is.
        name: the client's own, or one that was made for it.
        began, last: seconds since the epoch; `last` is when a message came.
    """

    address: str
    person: str
    persona: str
    name: str
    began: float
    last: float


class KeyedRequest(Struct, frozen=True):
    """A request over HTTP with an idempotency key, which says something in a talk.

    Attributes:
        key: a digest of who sent the request, and of the key.
        digest: of the whole request.
        message: the id of what it says.
        name: the talk's, by which its client knows it; "": it is not on record yet.
        address: where the message stands: in the talk, or in a branch of it; "": it is not on record.
        sent_at: when the message was said, or is to have been said, in seconds since the epoch.
    """

    key: str
    digest: str
    message: str
    name: str = ""
    address: str = ""
    sent_at: float = 0.0


class Circle(Struct, frozen=True):
    """The people who take part in a conversation, as far as that is on record.

    Attributes:
        group: others could write there too when the last message came of which the words are kept.
        person: whose talk over HTTP it is; "": it is none, or that was forgotten.
    """

    group: bool = False
    person: str = ""


class TalkFilter(Struct, frozen=True):
    """Conditions of a list of talks; what is "" or None lets all through.

    Attributes:
        prefix: with which their addresses begin, e.g. `discord:`.
        place: where they are: what an address, or the id of whose talk it is, begins with up to a colon.
        persona: the name of who answered last.
        person: who wrote there, by the id of the author.
        since, until: something was written there in this time, in seconds since the epoch.
    """

    prefix: str = ""
    place: str = ""
    persona: str = ""
    person: str = ""
    since: float | None = None
    until: float | None = None


class TurnSums(Struct, frozen=True):
    """Sums of several turns.

    Attributes:
        cost: of those whose price is known, in dollars.
        unpriced: turns whose price is not known.
    """

    turns: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float
    unpriced: int


class ListedTalk(Struct, frozen=True):
    """A conversation of any channel, as it is listed.

    Attributes:
        name: by which the client of a talk over HTTP knows it; "": it is none.
        persona, model: who answered last, by its name, and on what; "" where nobody did.
        people: who wrote there lately.
        said: what they wrote last; "": it is kept no more.
        first, last: when something was written, in seconds since the epoch.
        messages: those of people of which the words are kept.
    """

    address: str
    circle: Circle
    name: str
    persona: str
    model: str
    people: tuple[Author, ...]
    said: str
    first: float
    last: float
    messages: int
    sums: TurnSums


class FoundWords(Struct, frozen=True):
    """The result of looking for words in a portion of a talk.

    Attributes:
        turn: the turn whose message they stand in; 0: it waits; None: they stand in none.
        author: who wrote them; None: the persona.
        text: the whole message.
        left: before which turn nothing was looked at; None: all was.
    """

    turn: int | None
    author: Author | None
    text: str
    left: int | None


class SentFile(Struct, frozen=True):
    """A file that a person sent over HTTP, without what is in it.

    Attributes:
        person: id of the author whose file it is.
        name: what they call it, on one line.
        media_type: of what is in it, e.g. `image/png`.
        size: bytes.
        digest: SHA-256 of the file as it was sent, in hexadecimal.
        sent_at: seconds since the epoch.
    """

    id: str
    person: str
    name: str
    media_type: str
    size: int
    digest: str
    sent_at: float


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that opens the HTTP server, as it is kept: without its secret.

    Attributes:
        name: the operator's; of several under one name at most one is not revoked.
        digest: SHA-256 of the secret, in hexadecimal.
        scopes: what may be done with it.
        personas: whom it may talk to; empty: everybody.
        origins: the web pages that may use it, e.g. `https://example.org`. A key that has some is
            publishable: it stands in those pages, and only begins a visitor's talk.
        created, revoked: seconds since the epoch; `revoked` is None while it is good.
        signs: of a publishable key: what the tokens of its visitors are signed with, in hexadecimal. It
            leaves the server nowhere.
    """

    name: str
    digest: str
    scopes: tuple[str, ...] = ()
    personas: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    created: float = 0.0
    revoked: float | None = None
    signs: str = field(default="", repr=False)

    @property
    def is_publishable(self) -> bool:
        """Return True if everybody may read it, in the pages of its origins."""
        return bool(self.origins)


class Alternative(Struct, frozen=True):
    """Turns that were taken out of a conversation, and could stand in it again.

    Attributes:
        turn: the first of them.
        after: the turn behind which they stood; 0: they began the conversation.
        beside: where that turn is now: the address of the conversation, or of another branch of it.
        branch: the address where they are kept, for `Store.restore`.
        began: when the first of them was begun, in seconds since the epoch.
    """

    turn: int
    after: int
    beside: str
    branch: str
    began: float


class AnsweredMessage(Struct, frozen=True):
    """A message that came, and the turn that answers it.

    Attributes:
        text: as it is kept; None: it was forgotten or taken back.
        turn: None while it waits. Its `finish` is None while it is under way.
    """

    text: str | None
    turn: TurnRecord | None
