"""Finishes turns that were left half-done, as honestly as the journal knows them.

A turn is left half-done when its process dies, when it is told to end, or when the channel goes away in the
midst of an act. What is on record of it then falls into three parts, and each is gone on with by itself:

1. Acts of which only the intent is on record. Nobody knows whether they happened, but the place may: they are
   looked for there. One that is not there is performed now, under the nonce that it had, so that no two
   processes perform it twice. Where the place cannot be asked just now, the turn stays as it is and is tried
   again; where it never can be, or not for too long, the fate is unknown: it is told in the history, and the
   act is not repeated. Until that is settled nothing else is posted, or people would see what comes later
   first.
2. Commands that had closed and were not performed. They are performed now, by the same code as in a turn; of
   a message half of whose parts are out, the other half. Of a command that was begun, and that is not one of
   ours, nobody knows what it did: its fate is told, too.
3. What the model had not written yet. That is gone for good. The messages that are unanswered so come due
   again, once, and the persona is asked to go on: its history shows how far it came.

All of that only while the messages are young enough; never after a stop, or for a message that was taken
back. What is not gone on with is told to people, or to the operator where people cannot be told.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from pixi.core import language
from pixi.core.channel import Channel
from pixi.core.errors import ChannelError, ChannelForgot, ChannelLost
from pixi.core.events import Failed, Pictured, Reacted, Sent, TalkChanged
from pixi.core.language import NOTE, SEND
from pixi.core.life import Life, LifeEvent, LifeState, unanswered
from pixi.core.llm import AssistantLine, Line, ToolCall, ToolLine, Usage
from pixi.core.message import Author, Message, picture_from_record
from pixi.core.reading import SILENCE, commands_in, written
from pixi.engine.command_executor import CommandExecutor
from pixi.engine.context import PersonaSession, TurnContext
from pixi.engine.inbox import DELETED
from pixi.engine.turn_actions import TurnActions, nonce_of
from pixi.store.kept import AuditRecord, Effect, Outcome, PlannedCommand, UnfinishedTurn, id_of_act
from pixi.toolbox.foreign import ForeignError, foreign

_log = logging.getLogger("pixi.engine")

_ACT_SECONDS = 30.0  # how long one act may take
_EXCUSE = 65_535  # its number among the acts of a turn: none that the turn itself can have used
_DONE = "This was done; then the program ended before you could say so."
_NOBODY_KNOWS = "The program ended in the midst of this: nobody knows whether it was done."
_CUT_OFF = "A reply was cut off, and is not gone on with. Please ask again."


async def finish_turns(
    turns: Iterable[UnfinishedTurn],
    conversation: str,
    session: PersonaSession,
    channel: Channel | None,
    *,
    lease: int,
    since: dict[int, float],
) -> None:
    """End turns that were left half-done, oldest first; without a channel they are laid down as they are.

    Args:
        turns: of a conversation that this process owns.
        conversation: its address.
        session: of the conversation.
        channel: where it is.
        lease: the number under which it is owned.
        since: when turns were first tried, on the monotonic clock.

    Raises:
        ChannelLost: the channel is away, and it is not known how far a turn came: it is still open.
        StoreError: it could not be recorded.
    """
    for turn in turns:
        tried = time.monotonic() - since.setdefault(turn.id, time.monotonic())
        await _LeftTurn(turn, conversation, session, channel, lease=lease, tried=tried).finish()
        del since[turn.id]


class _LeftTurn:
    """One turn that was left half-done.

    Args:
        lease: the number of the lease that it is finished under.
        tried: for how many seconds that was tried in vain.
    """

    def __init__(
        self,
        turn: UnfinishedTurn,
        conversation: str,
        session: PersonaSession,
        channel: Channel | None,
        *,
        lease: int,
        tried: float,
    ) -> None:
        self._turn = turn  # as it is on record; read again where that may have changed
        self._lease = lease
        self._conversation = conversation
        self._session = session
        self._store = session.shared.store
        self._channel = channel
        self._names: Mapping[str, Iterable[str]] = session.capabilities.names
        finish_seconds = session.shared.settings.finish_seconds
        self._young_since = session.shared.clock().timestamp() - finish_seconds
        self._patient = tried < finish_seconds

    async def finish(self) -> None:
        """Settle the turn's acts, perform its commands, and end it.

        Raises:
            ChannelLost: nobody knows yet how far it came.
            StoreError: it could not be recorded.
        """
        await self._settle_acts()
        await self._perform_commands()
        cut = self._cut
        again = tuple(message.id for message in cut if self._comes_again(message))
        given_up = len(again) < len(cut) and bool(self._lines())
        excused = given_up and await self._excuse()
        lines = self._lines()
        await self._store.end_turn(
            self._turn.id, lines, "cancelled", 0, Usage(), again=again if lines else (), lease=self._lease
        )
        if self._channel is not None:  # whoever looks on may not have seen what its process did last
            self._channel.show(TalkChanged(self._turn.id))
        if given_up and not excused:
            self._tell()

    @property
    def _addressed(self) -> list[Message]:
        return [message for message in self._turn.messages if message.addressed]

    @property
    def _answered(self) -> Message | None:
        """The message that it answers; None: it was deleted, be it while the turn is finished."""
        return next((message for message in self._addressed if message.id == self._turn.answered), None)

    @property
    def _is_late(self) -> bool:
        """True if nobody waits for the turn any more: its acts are neither done nor looked for."""
        too_old = self._answered is not None and self._answered.sent_at < self._young_since
        return too_old or not self._patient

    @property
    def _goes_on(self) -> bool:
        """True if the turn is gone on with."""
        wanted = self._answered is not None and self._turn.mark != "stopped"
        return wanted and self._channel is not None and not self._is_late

    # Acts of which only the intent is on record.

    async def _settle_acts(self) -> None:
        if all(effect.outcome is not None for effect in self._turn.effects):
            return
        posted: list[str] = []
        for effect in self._turn.effects:
            found = effect.platform_id
            if effect.outcome is None:
                outcome, found = await self._outcome(effect, posted)
                await self._store.settle(self._turn.id, effect.sequence, outcome, found)
            posted += [found] if found else []
        await self._look_again()

    async def _look_again(self) -> None:
        """Read the turn from the store again."""
        unfinished = await self._store.unfinished(self._conversation)
        self._turn = next((turn for turn in unfinished if turn.id == self._turn.id), self._turn)

    async def _outcome(self, effect: Effect, posted: Sequence[str]) -> tuple[Outcome, str | None]:
        """Return the outcome of an act, done now if it was not; `posted`: ids of the acts before it."""
        channel = self._channel
        if channel is None or not self._turn.answered:
            return "unknown", None
        after = posted[-1] if posted else self._turn.answered
        try:
            async with asyncio.timeout(_ACT_SECONDS):
                with foreign(f"finishing to {effect.kind}"):
                    return await self._act(effect, channel, after)
        except ChannelForgot:
            return "unknown", None
        except (ChannelLost, TimeoutError) as error:
            _log.info("an act of conversation %s could not be finished: %s", self._conversation, error)
            if self._is_late:
                return "unknown", None
            raise ChannelLost(f"Nobody knows yet what became of an act in {self._conversation}.") from error
        except ChannelError:
            return "refused", None
        except ForeignError:
            return "unknown", None  # it is in the log already

    async def _act(self, effect: Effect, channel: Channel, after: str) -> tuple[Outcome, str | None]:
        answers = self._turn.answered
        nonce = nonce_of(effect.turn, effect.sequence, answers)
        text, shown = effect.payload, _shown(effect)
        target = await self._store.message_id(self._conversation, effect.target) if effect.target else None
        if shown is not None:
            found = await channel.sent_before(shown, nonce=nonce, after=after)
            if found is not None:
                return "done", found
        await self._look_again()  # the message may have been deleted meanwhile
        if not self._goes_on:
            return "unknown", None
        match effect.kind:
            case language.SEND:
                found = await channel.send(text, nonce=nonce, answers=answers, reply_to=target)
                channel.show(Sent(text, self._id_of(effect)))
                return "done", found
            case "picture" if shown:  # of one without a link the file is nowhere any more
                picture, _ = picture_from_record(text)
                found = await channel.picture(picture, nonce=nonce, answers=answers)
                channel.show(Pictured(picture, self._id_of(effect)))
                return "done", found
            case "sticker":
                return "done", await channel.sticker(text, nonce=nonce, answers=answers)
            case language.REACT if target or not effect.target:
                await channel.react(target or answers, text, nonce=nonce)
                channel.show(Reacted(text, self._id_of(effect), target or answers))
                return "done", None
        return "unknown", None

    # Commands that had closed.

    async def _perform_commands(self) -> None:
        """Perform the planned commands that were not performed.

        Raises:
            ChannelLost: nobody knows what became of one.
            StoreError: it could not be recorded.
        """
        registered = self._session.shared.commands
        planned = [command for command in self._turn.commands if command.outcome is None]
        seen = self._turn.effects or self._turn.deeds or self._turn.mark
        private = all((known := registered.get(one.name)) and known.private for one in planned)
        if not planned or not self._goes_on or (private and not seen):
            return  # thoughts alone: it is as if it had not been
        answered, channel = self._answered, self._channel
        assert answered is not None  # else it would not go on
        assert channel is not None
        life = Life()
        for event in (LifeEvent.BEGUN, LifeEvent.ACTED, LifeEvent.WRITTEN):
            life.on(event)
        turn = TurnContext(
            self._turn.id, self._session, self._turn.messages, answered, channel, life, self._lease
        )
        last = max((effect.sequence for effect in self._turn.effects), default=0)
        actions = TurnActions(turn, answers=False, sequence=last)
        actions.hurry()  # people have waited long enough
        executor = CommandExecutor(actions, delivered=lambda _: None)  # it is read from the record
        try:
            for command in planned:
                await self._look_again()
                if not self._goes_on:
                    break
                parts = self._acts_of(command)
                whole = all(part.outcome == "done" for part in parts)
                if parts and not (whole and self._makes_message(command)):
                    # The rest of a message would stand behind a hole; of another command nobody knows the
                    # rest. What was done of it is told act by act.
                    await self._store.command_ended(
                        self._turn.id, command.number, "failed", lease=self._lease
                    )
                    continue
                actions.parts_out = len(parts)
                await executor.perform(command)
                if life.state is LifeState.HOLDING:
                    raise ChannelLost(f"Nobody knows yet what became of an act in {self._conversation}.")
        finally:
            await executor.finish()
            actions.usage.close()
        if executor.trouble is not None:
            raise executor.trouble
        await self._look_again()

    def _makes_message(self, command: PlannedCommand) -> bool:
        known = self._session.shared.commands.get(command.name)
        return known is not None and known.makes == "message"

    def _id_of(self, effect: Effect) -> str:
        return id_of_act(effect, self._turn.effects)

    def _acts_of(self, command: PlannedCommand) -> list[Effect]:
        return [effect for effect in self._turn.effects if effect.command == command.number]

    # How it ends.

    @property
    def _cut(self) -> list[Message]:
        """The messages that are unanswered since the reply was cut before it was written."""
        if self._turn.mark is not None:
            return []
        asked = [replace(message, again=False) for message in self._addressed]
        acted = [effect.target for effect in self._turn.effects if effect.outcome == "done"]
        left = {message.id for message in unanswered(asked, acted, cut=True)}
        return [message for message in self._addressed if message.id in left]

    def _comes_again(self, message: Message) -> bool:
        """Return True if the persona is asked to go on with a message: once, while it is young."""
        is_wanted = not message.again and message.sent_at >= self._young_since
        return is_wanted and self._channel is not None and self._patient

    async def _excuse(self) -> bool:
        """Say a word in character to those who wait for the rest; False where there is none."""
        persona, turn = self._session.role.persona, self._turn
        said = next((effect for effect in turn.effects if effect.sequence == _EXCUSE), None)
        if said is not None:  # by a process that ended then
            return said.outcome == "done"
        sorry = next(iter(persona.when_broken), "")
        if not (sorry and self._goes_on):
            return False
        await self._store.intend(turn.id, _EXCUSE, SEND, sorry, lease=self._lease)
        outcome, found = await self._outcome(Effect(turn.id, _EXCUSE, SEND, sorry), ())
        await self._store.settle(turn.id, _EXCUSE, outcome, found)
        await self._look_again()
        return outcome == "done"

    def _tell(self) -> None:
        """Tell people, or the operator, that no more of the reply comes."""
        if self._channel is not None:
            self._channel.show(Failed(_CUT_OFF))
        else:
            _log.warning("a reply in %s was cut off and is not gone on with", self._conversation)

    def _lines(self) -> tuple[Line, ...]:
        """Return the lines for the history; none if the turn is to be as if it had not been."""
        turn = self._turn
        begun = any(command.outcome == "begun" for command in turn.commands)
        if not turn.answered or not (turn.effects or turn.deeds or turn.mark or begun):
            return ()
        calls = tuple(
            ToolCall(f"{turn.id:x}-{deed.id:x}", deed.deed.tool, _arguments(deed)) for deed in turn.deeds
        )
        told = [
            ToolLine(call.id, call.name, _DONE if deed.outcome == "done" else _NOBODY_KNOWS)
            for call, deed in zip(calls, turn.deeds, strict=True)
        ]
        rounds: tuple[Line, ...] = (AssistantLine("", calls), *told) if calls else ()
        said = "\n".join(filter(None, self._said()))
        messages = turn.messages or (self._deleted,)
        return (self._session.stamp(messages), *rounds, AssistantLine(said or SILENCE))

    @property
    def _deleted(self) -> Message:
        """A message in the place of the answered one, which was deleted."""
        return Message(self._turn.answered, self._conversation, Author("", ""), DELETED, 0.0)

    def _said(self) -> Iterator[str]:
        """Yield the acts that were done, in order, as the history holds them, and those that may be."""
        others = [effect for effect in self._turn.effects if effect.command is None]
        for command in self._turn.commands:
            acts = self._acts_of(command)
            while acts and others and others[0].sequence < acts[0].sequence:
                yield self._of_act(others.pop(0))
            yield self._of_command(command, acts)
        yield from (self._of_act(act) for act in others)

    def _of_command(self, command: PlannedCommand, acts: Sequence[Effect]) -> str:
        text = written(command.name, command.argument, self._names, command.target)
        if command.outcome == "done":
            return text
        done = [act for act in acts if act.outcome == "done"]
        if acts and self._makes_message(command):  # as much of it as stands there
            whole = "".join(act.payload for act in done)
            half = written(command.name, whole, self._names, command.target) if whole else ""
            return "\n".join(filter(None, (half, *(self._of_act(act) for act in acts if act not in done))))
        if acts:
            return "\n".join(filter(None, map(self._of_act, acts)))
        return self._unknown(text) if command.outcome == "begun" else ""

    def _of_act(self, effect: Effect) -> str:
        title, _, _ = effect.payload.partition("\n")
        match effect.outcome, effect.kind:
            case "done", "card":  # no command of the persona's; what it knows of it is its own affair
                return self._noted(f"I showed them a card: {title}")
            case "done", "picture":
                _, said = picture_from_record(effect.payload)
                known = bool(commands_in(said, self._names))
                return said if known else self._noted(f"I showed them a picture: {said}")
            case "done", kind:
                return written(kind, effect.payload, self._names, effect.target)
            case "unknown", "card":
                return self._unknown(f"A card: {title}")
            case "unknown", "picture":
                return self._unknown(picture_from_record(effect.payload)[1])
            case "unknown", kind:
                return self._unknown(written(kind, effect.payload, self._names, effect.target))
            case _:
                return ""

    def _unknown(self, text: str) -> str:
        return self._noted(f"{text} may or may not have been seen.")

    def _noted(self, thought: str) -> str:
        return written(NOTE, thought, self._names, 0) if NOTE in self._names else ""


def _shown(effect: Effect) -> str | None:
    """Return the text by which an act can be found in the place; None: the place cannot be asked for it."""
    match effect.kind:
        case language.SEND:
            return effect.payload
        case "picture":
            picture, _ = picture_from_record(effect.payload)
            return picture.link
        case "sticker":
            return ""
    return None


def _arguments(record: AuditRecord) -> str:
    """Return a tool's arguments; `{}` if they were too long to be kept whole, since servers read JSON."""
    try:
        json.loads(record.deed.arguments)
    except ValueError:
        return "{}"
    return record.deed.arguments
