"""What happens in a turn, as plain data with one JSON form that every face shows."""

from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from pixi.core.card import Card
from pixi.core.deltas import Cited, PromptProgress, Usage
from pixi.core.picture import Picture

Finish = Literal["stop", "length", "cancelled", "error", "limit"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A command's name is certain; its argument is still being written. `name` is canonical."""

    name: str


@dataclass(frozen=True, slots=True)
class Grew:
    """A piece of the open command's argument."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A private thought was written down."""

    text: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A message was delivered."""

    text: str


@dataclass(frozen=True, slots=True)
class Reacted:
    """A reaction was put on the message being answered."""

    emoji: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A card was delivered."""

    card: Card


@dataclass(frozen=True, slots=True)
class Pictured:
    """A picture was delivered."""

    picture: Picture


@dataclass(frozen=True, slots=True)
class Performed:
    """Any other command was performed."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The model asked for a tool. `arguments` is {} where they were not a JSON object."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far a tool or a command is, in a short line for people. What comes next takes its place."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """The tool's result, or with `ok` false the text that told the model what went wrong."""

    id: str
    name: str
    ok: bool
    result: Any


@dataclass(frozen=True, slots=True)
class Sourced:
    """Where the turn has from what it says: pages of the web. Strangers' words, made harmless."""

    sources: tuple[Cited, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong that a person should know. One line."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over. `steps` counts requests to the model."""

    finish: Finish
    steps: int
    usage: Usage = field(default_factory=Usage)


TurnEvent = (
    PromptProgress
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
    | Sourced
    | Failed
    | TurnEnded
)


def to_json(event: TurnEvent) -> dict[str, Any]:
    """The one JSON form of an event, without its time."""
    match event:
        case PromptProgress(done, total, seconds):
            left = None if seconds is None else round(seconds, 1)
            return {"event": "reading", "done": done, "total": total, "seconds": left}
        case Opened(name):
            return {"event": "started", "name": name}
        case Grew(name, text):
            return {"event": "text", "name": name, "text": text}
        case Noted(text):
            return {"event": "note", "text": text}
        case Sent(text):
            return {"event": "send", "text": text}
        case Reacted(emoji):
            return {"event": "react", "emoji": emoji}
        case Shown(card):
            return {
                "event": "card",
                "title": card.title,
                "text": card.text,
                "fields": [{"name": field.name, "value": field.value} for field in card.fields],
                "link": card.link,
                "picture": card.picture if isinstance(card.picture, str) else None,
            }
        case Pictured(picture):
            return {
                "event": "picture",
                "text": picture.words,
                "link": picture.link,
                "service": picture.service,
            }
        case Performed(name, argument):
            return {"event": "command", "name": name, "argument": argument}
        case ToolCalled(id, name, arguments):
            return {"event": "tool_call", "id": id, "name": name, "arguments": arguments}
        case Progressed(text):
            return {"event": "progress", "text": text}
        case ToolAnswered(id, name, ok, result):
            return {"event": "tool_result", "id": id, "name": name, "ok": ok, "result": result}
        case Sourced(sources):
            pages = [{"title": each.title, "url": each.url} for each in sources]
            return {"event": "sources", "sources": pages}
        case Failed(text):
            return {"event": "error", "text": text}
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
