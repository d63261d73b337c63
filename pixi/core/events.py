"""Events of a turn, as plain data with one JSON form that every face shows.

What stands in the chat has an id: the same while a message is being written and once it is delivered, and
the same when it is read again from the record, see `act_id`. `Numbering` adds the turn, and counts the events
of each turn. The id is no part of what happened: two events are equal that tell of the same."""

from collections.abc import Mapping
from typing import Any, Literal, assert_never

from msgspec import Struct

from pixi.core.llm import Cited, PromptProgress, Usage
from pixi.core.message import Card, Picture, card_json

Finish = Literal["stop", "length", "cancelled", "error", "limit"]
Verdict = Literal["yes", "no", "nobody"]
"""Answer of a person to a question; `nobody`: none came in time, or nobody can be asked here."""
Makes = Literal["message", "note", "reaction"]
"""Result of a command that has an event of its own: `Sent`, `Noted` or `Reacted`."""


def act_id(turn: int, sequence: int, command: int | None = None, *, first: bool = True) -> str:
    """Return the id of something that stands in the chat.

    Args:
        turn: that it belongs to.
        sequence: the number of its act on record.
        command: the number of the command that acts; None: a tool does.
        first: it is the first act of that command, whose id was given when the command opened.
    """
    if command is None:
        return f"{turn}.t{sequence}"
    return f"{turn}.{command}" if first else f"{turn}.{command}.{sequence}"


class TurnStarted(Struct, frozen=True):
    """A turn was begun, and is on record. One of which nobody saw anything may be begun anew.

    Attributes:
        turn: its number in the store.
        conversation: the address.
        persona: the name of the persona that answers.
        answers: ids of the messages that are answered.
    """

    turn: int
    conversation: str
    persona: str
    answers: tuple[str, ...]


class _Act(Struct, frozen=True, eq=False):
    """An event with the id of its act, which is left out where two are compared."""

    def _told(self) -> tuple[object, ...]:
        return type(self), *(getattr(self, name) for name in self.__struct_fields__ if name != "id")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Act) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told())


class Opened(_Act, frozen=True, eq=False):
    """A command's name is certain; its argument is still being written. `name` is canonical."""

    name: str
    makes: Makes | None = None
    id: str = ""


class Grew(_Act, frozen=True, eq=False):
    """A piece of the open command's argument."""

    name: str
    text: str
    id: str = ""


class Noted(_Act, frozen=True, eq=False):
    """A private thought was written down."""

    text: str
    id: str = ""


class Sent(_Act, frozen=True, eq=False):
    """A message was delivered."""

    text: str
    id: str = ""


class Reacted(_Act, frozen=True, eq=False):
    """A reaction was put on a message: the one being answered, or an earlier one. `message` is its id."""

    emoji: str
    id: str = ""
    message: str = ""


class Shown(_Act, frozen=True, eq=False):
    """A card was delivered."""

    card: Card
    id: str = ""


class Pictured(_Act, frozen=True, eq=False):
    """A picture was delivered."""

    picture: Picture
    id: str = ""


class Performed(_Act, frozen=True, eq=False):
    """Any other command was performed."""

    name: str
    argument: str
    id: str = ""


class ToolCalled(Struct, frozen=True):
    """The model asked for a tool. `arguments` is {} where they were not a JSON object."""

    id: str
    name: str
    arguments: dict[str, Any]


class Progressed(Struct, frozen=True):
    """Progress of a tool or a command, in a short line for people. The next takes its place."""

    text: str


class ToolAnswered(Struct, frozen=True):
    """The tool's result, or with `ok` false the text that told the model what went wrong."""

    id: str
    name: str
    ok: bool
    result: Any


class Asked(Struct, frozen=True):
    """A person is asked whether a tool may do something; the turn waits.

    Attributes:
        id: of the question.
        tool: what would run.
        does: what it would do, in one line.
        arguments: what it would be given, as readable lines; strangers' words.
        expires: when the answer no longer counts, in seconds since the epoch.
    """

    id: str
    tool: str
    does: str
    arguments: str
    expires: float


class Answered(Struct, frozen=True):
    """The verdict on a question to a person."""

    id: str
    verdict: Verdict


class Sourced(Struct, frozen=True):
    """Sources of the turn: pages of the web. Strangers' words, made harmless."""

    sources: tuple[Cited, ...]


class Failed(Struct, frozen=True):
    """Something went wrong that a person should know. One line."""

    text: str


class PersonSaid(Struct, frozen=True):
    """A person said something in the talk. For whoever follows the talk as a whole, in another window.

    Attributes:
        id: of the message.
        text: their words.
        at: when, in seconds since the epoch.
        attachments: names of the files that came with it.
    """

    id: str
    text: str
    at: float
    attachments: tuple[str, ...] = ()


class TalkChanged(Struct, frozen=True):
    """The past of the talk changed: turns were set aside, put back, forgotten, or ended late.

    Attributes:
        ended: the turn that another process left, and that has ended now; 0: none.
    """

    ended: int = 0


class TurnEnded(Struct, frozen=True):
    """The turn is over. `steps` counts requests to the model."""

    finish: Finish
    steps: int
    usage: Usage = Usage()


TurnEvent = (
    TurnStarted
    | PromptProgress
    | Opened
    | Grew
    | Noted
    | Sent
    | Reacted
    | Shown
    | Pictured
    | Performed
    | ToolCalled
    | Progressed
    | ToolAnswered
    | Asked
    | Answered
    | Sourced
    | Failed
    | PersonSaid
    | TalkChanged
    | TurnEnded
)


def to_json(event: TurnEvent) -> dict[str, Any]:
    """Return the one JSON form of an event, without its turn, its number and its time."""
    match event:
        case TurnStarted(_, conversation, persona, answers):
            start = {"conversation": conversation, "persona": persona, "answers": list(answers)}
            return {"event": "turn_start", **start}
        case PromptProgress(done, total, seconds):
            left = None if seconds is None else round(seconds, 1)
            return {"event": "reading", "done": done, "total": total, "seconds": left}
        case Opened(name, _, id):
            return {"event": "started", "id": id, "name": name}
        case Grew(name, text, id):
            return {"event": "text", "id": id, "name": name, "text": text}
        case Noted(text, id):
            return {"event": "note", "id": id, "text": text}
        case Sent(text, id):
            return {"event": "send", "id": id, "text": text}
        case Reacted(emoji, id, message):
            return {"event": "react", "id": id, "emoji": emoji, "message": message}
        case Shown(card, id):
            return {"event": "card", "id": id, **card_json(card)}
        case Pictured(picture, id):
            shown = {"text": picture.words, "link": picture.link, "service": picture.service}
            at = {"address": picture.address} if picture.address else {}
            return {"event": "picture", "id": id, **shown, **at}
        case Performed(name, argument, id):
            return {"event": "command", "id": id, "name": name, "argument": argument}
        case ToolCalled(id, name, arguments):
            return {"event": "tool_call", "id": id, "name": name, "arguments": arguments}
        case Progressed(text):
            return {"event": "progress", "text": text}
        case ToolAnswered(id, name, ok, result):
            return {"event": "tool_result", "id": id, "name": name, "ok": ok, "result": result}
        case Asked(id, tool, does, arguments, expires):
            asked = {"tool": tool, "does": does, "arguments": arguments, "expires": round(expires, 3)}
            return {"event": "approval", "id": id, **asked}
        case Answered(id, verdict):
            return {"event": "approved", "id": id, "verdict": verdict}
        case Sourced(sources):
            pages = [{"title": each.title, "url": each.url} for each in sources]
            return {"event": "sources", "sources": pages}
        case Failed(text):
            return {"event": "error", "text": text}
        case PersonSaid(id, text, at, attachments):
            said = {"text": text, "at": round(at, 3), "attachments": list(attachments)}
            return {"event": "said", "id": id, **said}
        case TalkChanged(ended):
            return {"event": "changed", "ended": ended} if ended else {"event": "changed"}
        case TurnEnded(finish, steps, usage):
            searched = {"searches": usage.searches} if usage.searches else {}
            return {
                "event": "turn_end",
                "finish": finish,
                "steps": steps,
                "usage": {
                    "prompt_tokens": usage.prompt_tokens,
                    "cached_tokens": usage.cached_tokens,
                    "completion_tokens": usage.completion_tokens,
                    **searched,
                },
            }
        case _:
            assert_never(event)


class Numbering:
    """Gives the events of one conversation, shown in their order, their turn and their number in it.

    What happens outside of every turn has turn 0, and is counted on through the whole talk. So (turn, number)
    names an event for good, and a reader who has lost the thread can say where it was.
    """

    __slots__ = ("_outside", "seq", "turn")

    def __init__(self) -> None:
        self.turn = 0  # the turn under way; 0: none is
        self.seq = 0  # the number of the next event
        self._outside = 0

    def form(self, event: TurnEvent) -> dict[str, Any]:
        """Return the JSON form of the next event, whole but for its time."""
        if isinstance(event, TurnStarted):
            self._leave()
            self.turn, self.seq = event.turn, 0
        body = to_json(event)
        numbered = {"event": body.pop("event"), "turn": self.turn, "seq": self.seq, **body}
        self.seq += 1
        if isinstance(event, TurnEnded):
            self._leave()
        return numbered

    def _leave(self) -> None:
        if self.turn == 0:
            self._outside = self.seq
        self.turn, self.seq = 0, self._outside


class TurnReport(Struct, frozen=True):
    """A turn that ended.

    Attributes:
        turn: its number in the store.
        person: id of the author of the message that it answered.
        model: the name of the model that wrote it.
        cost: in dollars; None where the model's price is not known.
        seconds: from the message to the turn's end.
        first_visible: seconds from the message to the first act that people could see; None: there was none.
        effects: how many acts of each kind were carried out, e.g. `{"send": 2, "react": 1}`.
    """

    turn: int
    conversation: str
    person: str
    persona: str
    model: str
    finish: Finish
    steps: int
    usage: Usage
    cost: float | None
    seconds: float
    first_visible: float | None
    effects: Mapping[str, int] = {}
