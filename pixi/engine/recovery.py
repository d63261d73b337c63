"""Lays down what the last process left unfinished, as honestly as the journal knows it."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pixi.core.deltas import Usage
from pixi.core.lines import AssistantLine, Line, UserLine
from pixi.core.message import Message
from pixi.core.written import SILENCE, written
from pixi.store.store import Effect, SavedConversation, Store, UnfinishedTurn

Stamp = Callable[[Sequence[Message]], UserLine]


async def recovered(
    store: Store,
    conversation: str,
    *,
    names: Mapping[str, Iterable[str]],
    stamp: Stamp,
) -> SavedConversation:
    """What is known of a conversation, once its unfinished turns were ended.

    A turn that did something, or may have, is laid down with what is known to be delivered. One that did
    nothing leaves its messages to the next turn.
    """
    saved = await store.load(conversation)
    if not saved.unfinished:
        return saved
    for turn in saved.unfinished:
        for effect in turn.effects:
            if effect.outcome is None:
                await store.settle(turn.id, effect.sequence, "unknown")
        await store.end_turn(turn.id, _lines_of(turn, names, stamp), "cancelled", 0, Usage())
    return await store.load(conversation)


def _lines_of(turn: UnfinishedTurn, names: Mapping[str, Iterable[str]], stamp: Stamp) -> tuple[Line, ...]:
    if not turn.effects or not turn.messages:
        return ()
    done = [_written(effect, names) for effect in turn.effects if effect.outcome == "done"]
    return (stamp(turn.messages), AssistantLine("\n".join(done) or SILENCE))


def _written(effect: Effect, names: Mapping[str, Iterable[str]]) -> str:
    return written(effect.kind, effect.payload, names)
