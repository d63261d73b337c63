"""The events of a turn that is over, as the record tells them.

They are the same that a client saw while the turn went on, but for the pieces of its messages, its notes, its
tools, and commands that show nothing in the chat.
"""

from collections.abc import Mapping

from pixi.channels.http.faces.messages import BROKEN
from pixi.channels.http.feed import Form
from pixi.core import language
from pixi.core.events import (
    Failed,
    Numbering,
    Pictured,
    Reacted,
    Sent,
    Shown,
    Sourced,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from pixi.core.language import NOTE, REACT
from pixi.core.llm import AssistantLine, Cited, sources_in
from pixi.core.message import card_from_record, picture_from_record
from pixi.core.reading import commands_in
from pixi.store.kept import Effect, TurnRecord, id_of_act
from pixi.store.store import Store


def shown_of(record: TurnRecord) -> list[Effect]:
    """Return the acts of a turn that stand in the chat, in their order."""
    return [effect for effect in record.effects if effect.outcome == "done"]


async def recorded_events(store: Store, record: TurnRecord, message_id: str) -> list[Form]:
    """Return the events of a turn as the record tells them, numbered anew."""
    events: list[TurnEvent] = [
        TurnStarted(record.id, record.conversation, record.persona, (message_id,)),
        *acts_of(record, message_id, await messages_reacted_to(store, record)),
    ]
    if sources := sources_of(record):
        events.append(Sourced(sources))
    if record.finish == "error":
        events.append(Failed(BROKEN))  # what exactly went wrong is not on record
    events.append(TurnEnded(record.finish or "cancelled", record.steps, record.usage))
    numbering = Numbering()
    return [numbering.form(event) for event in events]


def sources_of(record: TurnRecord) -> tuple[Cited, ...]:
    """Return the pages that a reply rests on, as its notes tell."""
    notes = [
        command.argument
        for line in record.lines
        if isinstance(line, AssistantLine)
        for command in commands_in(line.text, {NOTE: ()})
        if command.name == NOTE
    ]
    return tuple(sources_in(notes))


async def messages_reacted_to(store: Store, record: TurnRecord) -> dict[int, str]:
    """Return the ids of the earlier messages that a turn's reactions name, by number; "" of one forgotten."""
    numbers = {effect.target for effect in shown_of(record) if effect.kind == REACT and effect.target}
    return {number: await store.message_id(record.conversation, number) or "" for number in sorted(numbers)}


def acts_of(record: TurnRecord, message_id: str, earlier: Mapping[int, str]) -> list[TurnEvent]:
    """Return the acts of a turn in the chat, as events with the ids that they had.

    Args:
        record: of the turn.
        message_id: of the message that it answers, the last of several.
        earlier: ids of the messages that its reactions name, by number.
    """
    events: list[TurnEvent] = []
    for effect in shown_of(record):
        act = id_of_act(effect, record.effects)
        match effect.kind:
            case language.SEND:
                events.append(Sent(effect.payload, act))
            case language.REACT:
                on = earlier.get(effect.target, "") if effect.target else message_id
                events.append(Reacted(effect.payload, act, on))
            case "card":
                events.append(Shown(card_from_record(effect.payload), act))
            case "picture":
                picture, _ = picture_from_record(effect.payload)
                events.append(Pictured(picture, act))
    return events
