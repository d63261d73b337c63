"""The terminal when somebody sits at it: messages grow while they are written, and one may type meanwhile."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime

from msgspec.structs import replace
from prompt_toolkit.history import History

from pixi.channels.engine import ChannelEngine
from pixi.channels.terminal.asking import QuestionQueue
from pixi.channels.terminal.commands import (
    ASK_FORGET,
    HELP,
    LAST_TURNS,
    Choices,
    CommandCompleter,
    Step,
    TalkChange,
    UndoCommands,
    about_model,
    exported,
    forgotten,
    last_said,
    reset,
    told_personas,
    usage,
    why,
)
from pixi.channels.terminal.lines import TAKEN, TerminalUser
from pixi.channels.terminal.rows import Line, drawn
from pixi.channels.terminal.screen import Screen
from pixi.channels.terminal.transcript import TICK_SECONDS, ReplyStatus, Transcript
from pixi.core.channel import TAKEN_OVER, Channel, Question
from pixi.core.errors import ChannelElsewhere, LeaseHeld, Reporter, StoreError
from pixi.core.events import Sent, TurnEnded, TurnEvent, Verdict
from pixi.core.message import Abilities, Card, Image, Message, Picture, Rights
from pixi.core.persona import shortcomings
from pixi.core.untrusted import printable_line
from pixi.models.pictures import PictureError
from pixi.store.kept import TurnRecord

_LOOK_SECONDS = 1.0  # between looks whether another window has the talk
_RESUME_SECONDS = 900.0  # age up to which a message is answered, or answered to its end, after a start

OpenAnswering = Callable[[Reporter, Reporter, Reporter], AbstractAsyncContextManager[ChannelEngine]]
"""Opens what answers. It is given three functions: to say what it is busy with ("" when with nothing any
more), what went wrong, and what is only worth a remark."""


class LiveTerminal(Channel):
    """A talk on a terminal. It is its own channel.

    Args:
        seat: who sits here.
        persona: the name of who answers.
        greeting: a line to begin with.
        history: what the arrow keys bring back.
        notes: whether notes are shown from the start.
        first_words: what the persona says by itself before a talk begins; "" for nothing.
        choices: who and what else could answer.

    Attributes:
        wants: what the person left for: somebody or something else to talk to; None: they just left.
    """

    growing = True

    def __init__(
        self,
        seat: TerminalUser,
        persona: str,
        greeting: str,
        history: History,
        *,
        notes: bool,
        first_words: str = "",
        choices: Choices | None = None,
    ) -> None:
        self.wants: TalkChange | None = None
        self._choices = choices or Choices()
        self._seat = seat
        self._history = history
        self._greeting = printable_line(greeting)
        self._first_words = printable_line(first_words)
        self._transcript = Transcript(persona, notes=notes)
        completer = CommandCompleter(self._choices)
        self._screen = Screen(self._transcript, f"{seat.author.name} ›", history, self, completer)
        self._asking = QuestionQueue(self._transcript, self._screen, persona)
        self._taking_back = UndoCommands(seat, self._transcript, self._screen)
        self._inbox: deque[Message | Step] = deque()  # entered and not handed on
        self._news = asyncio.Event()  # something was entered, or all is answered
        self._answering: ChannelEngine | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._status = ReplyStatus(self._transcript.persona)
        self._leaving = False  # Ctrl-C was pressed where nothing was to be stopped: once more, and they leave
        self._shown_until = 0.0  # when the last turn ended that was seen here, in seconds since the epoch
        self._held: list[TurnEvent] | None = None  # events that wait while the past is looked at

    async def run(self, open_answering: OpenAnswering) -> None:
        """Talk until the person leaves. The prompt is shown first; what answers is opened behind it.

        Raises:
            PixiError: what answers could not be opened, or failed for good.
        """

        def begin() -> None:
            self._spawn(self._serve(open_answering))
            self._spawn(self._tick())

        self._transcript.tell(self._greeting)
        self._transcript.tell("")
        self._screen.print_rest()
        try:
            await self._screen.run(begin)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._screen.print_rest()

    # As a channel.

    @property
    def abilities(self) -> Abilities:
        """Pictures are drawn, where the terminal has the colours."""
        return Abilities(draws=self._screen.colours)

    async def rights(self, person: str) -> Rights:
        """Grant all: who sits here governs the program."""
        here = person == self._seat.author.id
        return Rights(manager=here, operator=here)

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Ask whoever sits here; about others nobody knows anything."""
        if question.person != self._seat.author.id:
            return "nobody"
        return await self._asking.ask(question, seconds)

    async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
        """Show the card in a frame; its picture too, where it is one and the terminal has the colours."""
        picture: list[Line] = []
        if isinstance(card.picture, Image) and self._screen.colours:
            with suppress(PictureError):
                picture = await asyncio.to_thread(drawn, card.picture.data)
        self._transcript.put(card, picture)
        self._screen.changed()
        return None

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Show the picture in a frame, with its words; what moves in it stands still."""
        card = Card(picture.words, picture.credit, picture=picture.file, link=picture.link)
        return await self.card(card, nonce=nonce, answers=answers)

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Do nothing: the event shows it."""
        return None

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Show the reaction on the line of its message."""
        self._transcript.react(message_id, emoji)
        self._screen.changed()

    def show(self, event: TurnEvent) -> None:
        """Show what happened."""
        if self._held is not None:
            self._held.append(event)
            return
        self._status.happened(event)
        if isinstance(event, TurnEnded):
            self._shown_until = time.time()
        if event != TAKEN:  # who has the talk now is asked with the next look
            self._transcript.happened(event)
        self._screen.changed()

    # The engine.

    async def _serve(self, open_answering: OpenAnswering) -> None:
        async with open_answering(self._progress, self._report, self._remark) as answering:
            self._answering = answering
            if without := shortcomings(answering.persona, small=answering.model.traits.small):
                self._remark(f"On {without}. /model shows how to take a better one.\n")
            where = "This talk is open in another window."
            while await self._take_up(answering, where):
                await self._hand_over(answering)
                where = TAKEN_OVER
        self._screen.leave()

    async def _take_up(self, answering: ChannelEngine, where: str) -> bool:
        """Have the talk here: at once, or when the person takes it over. False: they leave.

        Args:
            where: where it is, for the case that it is elsewhere.
        """
        talk = self._seat.conversation
        while True:
            verdict: Verdict = "nobody"
            try:
                if await answering.owned_elsewhere(talk):
                    verdict = await self._asked_to_take_over(answering, where)
                if verdict == "no":
                    return False
                await (answering.take_over(talk) if verdict == "yes" else answering.own(talk))
            except LeaseHeld:
                continue  # another window was quicker
            except StoreError as error:  # the first message has the talk, or says it again
                self._report(str(error))
            await self._recall(answering)
            return True

    async def _asked_to_take_over(self, answering: ChannelEngine, where: str) -> Verdict:
        """Ask the person for it; "nobody" where the talk ends there meanwhile."""
        asked = asyncio.ensure_future(self._asking.ask_to_take_over(where))
        try:
            while not asked.done():
                await asyncio.wait((asked,), timeout=_LOOK_SECONDS)
                with suppress(StoreError):
                    if not await answering.owned_elsewhere(self._seat.conversation):
                        self._asking.give("nobody")
            return asked.result()
        finally:
            asked.cancel()
            await asyncio.wait((asked,))

    async def _recall(self, answering: ChannelEngine) -> None:
        """Finish what was left half-done, and show the end of the talk, unless this one has begun meanwhile.

        What is done only now is shown below that.
        """
        held = self._held = list[TurnEvent]()
        await self._resume(answering, math.inf)
        turns: Sequence[TurnRecord] = ()
        waiting: Sequence[Message] = ()
        try:
            waiting = await answering.waiting(self._seat.conversation)
            turns = await answering.turns(self._seat.conversation, LAST_TURNS)
        except StoreError as error:
            self._report(str(error))
        self._held = None
        done_now = {event.text for event in held if isinstance(event, Sent)}
        before = [
            replace(turn, effects=tuple(each for each in turn.effects if each.payload not in done_now))
            for turn in turns
            if turn.began > self._shown_until
        ]
        who, persona = self._seat.author.name, self._transcript.persona
        said = last_said(before, waiting, who, persona, datetime.now().astimezone())
        if not said and not self._shown_until and self._first_words:
            said = f"{persona} › {self._first_words}"
        if said and not self._inbox:
            self._transcript.tell(f"{said}\n")
            self._screen.changed()
        for event in held:
            self.show(event)

    async def _hand_over(self, answering: ChannelEngine) -> None:
        """Give each message on at once, and notice when all are answered; return once another has the talk.

        First goes on what was not answered to its end: by an earlier process, or by who had the talk before.
        """
        talk = self._seat.conversation
        resumed = asyncio.ensure_future(self._resume(answering, time.time() - _RESUME_SECONDS))
        settled = self._settled(answering, resumed)
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._news.wait()
                with suppress(StoreError):
                    if await answering.owned_elsewhere(talk):
                        await answering.stop(talk)
                        break
                self._news.clear()
                while self._inbox:
                    await self._give(answering, self._inbox.popleft())
                    settled.cancel()
                    settled = self._settled(answering, resumed)
                if settled.done():
                    settled.result()
                    self._rest()
        finally:
            resumed.cancel()
            settled.cancel()
        self._rest()

    def _settled(self, answering: ChannelEngine, resumed: asyncio.Task[None]) -> asyncio.Task[None]:
        """Wait beside for the end of all that is to be answered; that it has come is news."""

        async def wait() -> None:
            await asyncio.wait((resumed,))
            resumed.result()
            await answering.settled(self._seat.conversation)

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                self._news.set()

        task = asyncio.ensure_future(wait())
        task.add_done_callback(ended)
        return task

    async def _give(self, answering: ChannelEngine, entered: Message | Step) -> None:
        if isinstance(entered, Message):
            self._status.expect()
            await answering.receive(entered, self)
        else:
            await self._step(answering, entered)

    def _rest(self) -> None:
        """Show that no reply is to come."""
        if self._status.busy:
            self._status.rest()
            self._screen.changed()

    async def _resume(self, answering: ChannelEngine, since: float) -> None:
        """Finish what was left half-done, and answer what waits and was sent since then."""
        try:
            await answering.resume(self._seat.conversation, since, self._opened)
        except StoreError as error:
            self._report(str(error))

    async def _opened(self, address: str) -> Channel:
        """Give this terminal as the channel of its own talk. Raises `ChannelElsewhere` for another's."""
        if address != self._seat.conversation:
            raise ChannelElsewhere("That is the talk of somebody else.")
        return self

    def _progress(self, doing: str) -> None:
        self._status.loading = printable_line(doing)
        self._screen.redraw()

    def _report(self, problem: str) -> None:
        self._transcript.tell(problem, "error")
        self._screen.changed()

    def _remark(self, line: str) -> None:
        self._transcript.tell(printable_line(line))
        self._screen.changed()

    async def _tick(self) -> None:
        """Keep the spinner turning while there is something to wait for."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self._status.turns:
                self._screen.redraw()

    def _spawn(self, work: Coroutine[None, None, object]) -> None:
        """Do it beside the prompt. If it fails, the talk ends with that error."""

        def ended(task: asyncio.Task[object]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()):
                self._screen.leave(error)

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    # The person's acts.

    @property
    def busy(self) -> bool:
        """Return whether a reply is to come."""
        return self._status.busy

    def typed(self) -> None:
        """Note that the person typed, and so does not mean to leave."""
        self._leaving = False

    def entered(self, text: str) -> None:
        """A message, or one of the terminal's own commands."""
        if text.startswith("/") and not text.startswith("//"):
            self._command(*(text[1:].split() or ["help"]), line=text)
        else:
            self._hand_on(self._said(text.removeprefix("/")))
            self._status.expect()
        self._screen.changed()

    def _said(self, text: str) -> Message:
        """Return a message, shown as said just now."""
        message = self._seat.message(text)
        self._transcript.say(message.id, self._seat.author.name, message.text)
        return message

    def _hand_on(self, entered: Message | Step) -> None:
        self._inbox.append(entered)
        self._news.set()

    def answered(self, text: str) -> None:
        """The person wrote this where they were asked something."""
        self._asking.answered(text)
        self._screen.redraw()

    def interrupted(self) -> None:
        """Ctrl-C says no where something is asked, stops the reply, else empties the line, else says how to
        leave, then leaves."""
        if self._asking.open:
            self._asking.give("no")
        elif self._status.busy and self._answering:
            self._spawn(self._answering.stop(self._seat.conversation))
        elif self._screen.line:
            self._screen.empty_line()
        elif self._leaving:
            self._screen.leave()
        else:
            self._leaving = True
        self._screen.redraw()

    def _command(self, name: str, *words: str, line: str) -> None:
        match name:
            case "help":
                self._transcript.tell(HELP)
            case "notes":
                self._transcript.notes = not self._transcript.notes
                self._transcript.tell(f"Notes are {'shown' if self._transcript.notes else 'hidden'} now.")
            case "retry":
                self._hand_on(self._taking_back.retry)
            case "edit" if words:
                text = line.partition(name)[2].strip()
                self._hand_on(lambda it: self._taking_back.retry(it, text))
            case "edit":
                self._hand_on(self._taking_back.edit)
            case "undo":
                self._hand_on(self._taking_back.undo)
            case "branches":
                self._hand_on(lambda it: self._taking_back.branches(it, *words))
            case "reset":
                self._spawn(self._told(lambda it: reset(it, self._seat.conversation)))
            case "usage":
                self._spawn(self._told(usage))
            case "why":
                self._spawn(self._told(lambda it: why(it, self._seat.conversation)))
            case "persona" if not words:
                self._transcript.tell(told_personas(self._choices, self._transcript.persona))
            case "persona" if not self._choices.persona(" ".join(words)):
                self._transcript.tell(
                    f"There is no persona {printable_line(' '.join(words))}; /persona lists them.", "error"
                )
            case "persona":
                self._change(TalkChange("persona", self._choices.persona(" ".join(words))))
            case "model" if words:
                self._change(TalkChange("model", words[0]))
            case "model":
                self._spawn(self._told(lambda it: about_model(it, self._choices.models)))
            case "brain":
                self._change(TalkChange("brain"))
            case "forget" if words == ("me", "yes"):
                self._spawn(self._told(lambda it: forgotten(it, self._seat.author.id, self._history)))
            case "forget":
                self._transcript.tell(ASK_FORGET)
            case "export":
                self._spawn(self._told(lambda it: exported(it, self._seat.author.id)))
            case "quit" | "exit":
                self._screen.leave()
            case _:
                self._transcript.tell(
                    f"There is no /{printable_line(name)}; /help shows what there is.", "error"
                )

    def _change(self, wants: TalkChange) -> None:
        """Leave for somebody or something else to talk to."""
        self.wants = wants
        self._screen.leave()

    async def _step(self, answering: ChannelEngine, step: Step) -> None:
        try:
            again = await step(answering)
        except StoreError as error:
            self._report(str(error))
        else:
            if again:
                self._status.expect()  # so that reactions find their lines, which can still change
            self._inbox.extendleft([self._said(text) for text in again][::-1])
            self._screen.changed()

    async def _told(self, work: Callable[[ChannelEngine], Awaitable[str]]) -> None:
        """Do something, and tell what came of it."""
        if self._answering is None:
            self._transcript.tell("Wait until everything is loaded, then ask again.")
        else:
            try:
                self._transcript.tell(await work(self._answering))
            except StoreError as error:
                self._transcript.tell(str(error), "error")
        self._screen.changed()

    def status(self) -> str:
        """Return what is being waited for."""
        if self._asking.open:
            return self._asking.status()
        if self._leaving:
            return "Ctrl-C again, or Ctrl-D, leaves."
        return self._status.line(self._screen.columns)
