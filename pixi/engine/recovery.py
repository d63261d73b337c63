"""Finishes or lays down what the last process left half-done, as honestly as the journal knows it."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pixi.channels.channel import Channel
from pixi.core.deltas import Usage
from pixi.core.errors import ChannelError, ChannelLost
from pixi.core.events import Pictured, Reacted, Sent
from pixi.core.lines import AssistantLine, Line, ToolCall, ToolLine, UserLine
from pixi.core.message import Message
from pixi.core.picture import Picture, from_record
from pixi.core.written import SILENCE, read_again, written
from pixi.engine.acts import nonce_of
from pixi.store.kept import (
    AuditRecord,
    Effect,
    Outcome,
    SavedConversation,
    UnfinishedTurn,
)
from pixi.store.store import Store
from pixi.toolbox.foreign import ForeignError, foreign

_log = logging.getLogger("pixi.engine")

Stamp = Callable[[Sequence[Message]], UserLine]

_ACT_SECONDS = 30.0  # how long one act may take
_EXCUSE = 65_535  # its number among the acts of a turn: none that the turn itself can have used
_DONE = "This was done; then the program ended before you could say so."
_NOBODY_KNOWS = "The program ended in the midst of this: nobody knows whether it was done."


@dataclass(frozen=True, slots=True)
class Recovery:
    """Ends the unfinished turns of a conversation.

    An act of which only the intent is on record is looked for in the channel. One that is not there is
    performed now, under the nonce that it had, so that no process performs it twice.

    Args:
        store: where they are on record.
        conversation: its address.
        names: the commands, with their aliases.
        stamp: makes the user line of messages.
        channel: where to look and to act; None: it is gone, and nothing is done.
        context_tokens: what the model can hold for which the conversation is read.
        since: acts for messages that were sent before (seconds since the epoch) are not performed any more.
        is_left_over: whether a turn is to be ended, by its id; another may be under way in another process.
        sorry: what the persona says where something was changed for somebody who was told nothing of it.
    """

    store: Store
    conversation: str
    names: Mapping[str, Iterable[str]]
    stamp: Stamp
    context_tokens: int
    channel: Channel | None
    since: float
    is_left_over: Callable[[int], bool]
    sorry: str = ""

    async def run(self) -> SavedConversation:
        """End them; gives what then is known of the conversation.

        A turn that did something, or may have, is laid down with what is known to be delivered. One that
        did nothing leaves its messages to the next turn.

        Raises:
            StoreError: it could not be read or recorded.
        """
        saved = await self.store.load(self.conversation, self.context_tokens)
        left_over = [turn for turn in saved.unfinished if self.is_left_over(turn.id)]
        if not left_over:
            return saved
        for turn in left_over:
            effects: list[Effect] = []
            for effect in turn.effects:
                effects.append(await self._settled(effect, turn, effects))
            if self._owes_a_word(turn):
                await self.store.intend(turn.id, _EXCUSE, "send", self.sorry)
                effects.append(await self._settled(Effect(turn.id, _EXCUSE, "send", self.sorry), turn, ()))
            await self.store.end_turn(turn.id, self._lines(turn, effects), "cancelled", 0, Usage())
        return await self.store.load(self.conversation, self.context_tokens)

    def _owes_a_word(self, turn: UnfinishedTurn) -> bool:
        """Whether somebody waits in vain: it will not be answered again, since a tool changed something."""
        said = turn.effects or not turn.deeds or not turn.messages
        return bool(self.sorry) and not said and self.channel is not None and not self._is_late(turn.messages)

    def _is_late(self, messages: Sequence[Message]) -> bool:
        return all(message.sent_at < self.since for message in messages if message.addressed)

    async def _settled(self, effect: Effect, turn: UnfinishedTurn, before: Sequence[Effect]) -> Effect:
        """The act with its outcome, which is on record; `before` are the turn's earlier ones."""
        if effect.outcome is not None:
            return effect
        outcome, platform_id = await self._outcome(effect, turn, before)
        await self.store.settle(turn.id, effect.sequence, outcome, platform_id)
        return Effect(
            effect.turn, effect.sequence, effect.kind, effect.payload, outcome, platform_id, effect.target
        )

    async def _outcome(
        self, effect: Effect, turn: UnfinishedTurn, before: Sequence[Effect]
    ) -> tuple[Outcome, str | None]:
        answered = next((message for message in reversed(turn.messages) if message.addressed), None)
        if self.channel is None or answered is None:
            return "unknown", None
        posted = [each.platform_id for each in before if each.platform_id]
        after = posted[-1] if posted else answered.id
        try:
            async with asyncio.timeout(_ACT_SECONDS):
                with foreign(f"finishing to {effect.kind}"):
                    return await self._act(effect, answered, self.channel, after)
        except ChannelLost as error:
            _log.info("an act of conversation %s could not be finished: %s", self.conversation, error)
        except ChannelError:
            return "refused", None
        except (ForeignError, TimeoutError):
            pass  # the first is in the log already
        return "unknown", None

    async def _act(
        self, effect: Effect, answered: Message, channel: Channel, after: str
    ) -> tuple[Outcome, str | None]:
        nonce = nonce_of(effect.turn, effect.sequence, answered)
        text, late = effect.payload, answered.sent_at < self.since
        target = await self.store.message_id(self.conversation, effect.target) if effect.target else None
        match effect.kind:
            case "send":
                found = await channel.sent_before(text, nonce=nonce, after=after)
                if found is not None:
                    return "done", found
                if not late:
                    found = await channel.send(text, nonce=nonce, answers=answered.id, reply_to=target)
                    channel.show(Sent(text))
                    return "done", found
            case "picture":
                return await self._show_picture(effect, answered, channel, after)
            case "sticker":
                found = await channel.sent_before("", nonce=nonce, after=after)
                if found is not None:
                    return "done", found
                if not late:
                    return "done", await channel.sticker(text, nonce=nonce, answers=answered.id)
            case "react" if not late and (target or not effect.target):
                await channel.react(target or answered.id, text, nonce=nonce)
                channel.show(Reacted(text))
                return "done", None
        return "unknown", None

    async def _show_picture(
        self, effect: Effect, answered: Message, channel: Channel, after: str
    ) -> tuple[Outcome, str | None]:
        """One with a link is shown again by it; of others the file is nowhere any more."""
        nonce = nonce_of(effect.turn, effect.sequence, answered)
        link, said = from_record(effect.payload)
        found = await channel.sent_before(link, nonce=nonce, after=after)
        if found is not None:
            return "done", found
        if not link or answered.sent_at < self.since:
            return "unknown", None
        acts = read_again(said, self.names)
        picture = Picture(acts[0].argument if acts else said, link)
        found = await channel.picture(picture, nonce=nonce, answers=answered.id)
        channel.show(Pictured(picture))
        return "done", found

    def _lines(self, turn: UnfinishedTurn, effects: Sequence[Effect]) -> tuple[Line, ...]:
        if not (effects or turn.deeds) or not turn.messages:
            return ()
        calls = tuple(
            ToolCall(f"{turn.id:x}-{deed.id:x}", deed.deed.tool, _arguments(deed)) for deed in turn.deeds
        )
        told = [
            ToolLine(call.id, call.name, _DONE if deed.outcome == "done" else _NOBODY_KNOWS)
            for call, deed in zip(calls, turn.deeds, strict=True)
        ]
        rounds: tuple[Line, ...] = (AssistantLine("", calls), *told) if calls else ()
        done = [text for effect in effects if effect.outcome == "done" and (text := self._written(effect))]
        return (self.stamp(turn.messages), *rounds, AssistantLine("\n".join(done) or SILENCE))

    def _written(self, effect: Effect) -> str:
        match effect.kind:
            case "card":  # no command of the persona's; what it knows of it is its own affair
                title = effect.payload.partition("\n")[0]
                return self._noted(f"I showed them a card: {title}")
            case "picture":
                _, said = from_record(effect.payload)
                known = bool(read_again(said, self.names))
                return said if known else self._noted(f"I showed them a picture: {said}")
        return written(effect.kind, effect.payload, self.names, effect.target)

    def _noted(self, thought: str) -> str:
        return written("note", thought, self.names, 0) if "note" in self.names else ""


def _arguments(record: AuditRecord) -> str:
    """What a tool was given; nothing where that was too long to be kept whole: servers read it as JSON."""
    try:
        json.loads(record.deed.arguments)
    except ValueError:
        return "{}"
    return record.deed.arguments
