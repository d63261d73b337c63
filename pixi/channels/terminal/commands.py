"""The terminal's own commands, `/…`: how Tab completes them, what they tell, and how some change the talk."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from pixi.channels.engine import ChannelEngine
from pixi.channels.terminal.lines import TerminalUser, call_in_words
from pixi.channels.terminal.screen import Screen
from pixi.channels.terminal.transcript import Transcript
from pixi.core.conversation import notes_in
from pixi.core.language import SEND
from pixi.core.llm import AssistantLine, ToolCall, UserLine
from pixi.core.message import Message
from pixi.core.persona import shortcomings
from pixi.core.spending import dollars, how_many, of_searches, of_the_month, summed_up
from pixi.core.stamps import STILL_WAITS, LinePart, parts_of, without_additions
from pixi.core.untrusted import printable_line, without_middle
from pixi.store.kept import LookedBack, TurnRecord

COMMANDS: Mapping[str, str] = {
    "persona": "list the personas; /persona NAME talks to another",
    "model": "show which model answers, and what it cannot do; /model NAME takes another",
    "brain": "choose another model, as at the first start",
    "why": "show the reasons for the last reply: model, tools, memories, passages, limits",
    "notes": "show or hide the private notes",
    "retry": "answer your last message once more",
    "edit": "change your last message, and answer it anew",
    "undo": "take your last message out of the talk, with its answer",
    "branches": "list what was taken out or answered anew, and go back to it",
    "reset": "forget this conversation",
    "usage": "show the use of today and this month",
    "forget me": "delete all that Pixi keeps of you",
    "export me": "get all that Pixi keeps of you, as a file",
    "quit": "leave",
}
"""Help by the words that are typed."""
_KEYS = """\
Enter sends, Alt-Enter breaks the line, Tab completes, the arrow keys bring back what you wrote.
Ctrl-C stops the reply that is being written; Ctrl-D leaves."""
_WIDE = max(map(len, COMMANDS)) + 2
HELP = "\n".join(
    (
        _KEYS,
        *(f"/{name:<{_WIDE}}{does}" for name, does in COMMANDS.items()),
        f"{'//text':<{_WIDE + 1}}send a message that begins with a slash",
    )
)
ASK_FORGET = (
    "This deletes everything that you ever said here, and what is remembered of you. "
    "Write /forget me yes to do it."
)
UNPRICED = "? stands for what no price is known of: tell the model's under [prices] in pixi.toml."
LAST_TURNS = 2
"""Turns of an earlier talk that are shown when it goes on."""
_LONGEST = 200  # characters of a message, fact or thought that are shown of it
_MOST = 6  # of each
_TITLE_COLUMNS = 10  # columns of what stands at the left


class TalkChange(Struct, frozen=True):
    """A wish to talk to another persona, to another model, or to a model yet to be chosen."""

    of: Literal["persona", "model", "brain"]
    name: str = ""


class Choices(Struct, frozen=True):
    """The choices in a talk.

    Attributes:
        personas: gives one line about each, by the names of their files.
        models: names of models that the settings have.
    """

    personas: Callable[[], Mapping[str, str]] = dict
    models: Sequence[str] = ()

    def persona(self, name: str) -> str:
        """Return the name of a persona as it is spelt; "" where there is none."""
        for each in self.personas():
            if each.casefold() == name.casefold():
                return each
        return ""


class CommandCompleter(Completer):
    """Completes commands, and the names that two of them take."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what the line may become."""
        typed = document.text_before_cursor
        if not typed.startswith("/") or "\n" in document.text:
            return
        command, space, name = typed[1:].partition(" ")
        known: Iterable[str] = () if space else COMMANDS
        if space and command == "persona":
            known = self._choices.personas()
        elif space and command == "model":
            known = self._choices.models
        word = name.lstrip() if space else command
        for each in known:
            if each.casefold().startswith(word.casefold()):
                yield Completion(each, start_position=-len(word))


class InputHistory(FileHistory):
    """The person's earlier input, in a file."""

    def forget(self) -> None:
        """Keep nothing of it, in memory or in the file."""
        self._loaded_strings = []
        os.truncate(self.filename, 0)


def history_in(folder: Path) -> History:
    """Open what the person wrote before, kept in `folder`; in memory where that cannot be written."""
    file = folder / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.open("a").close()
    except OSError:
        return InMemoryHistory()
    return InputHistory(file)


def last_said(
    turns: Sequence[TurnRecord], waiting: Sequence[Message], who: str, persona: str, now: datetime
) -> str:
    """Quote what was said last in the talk that goes on, and when, in some lines; "" where nothing is known.

    Args:
        turns: the last ones, oldest first.
        waiting: messages that wait for an answer, oldest first.
        who: the name of who sits here.
        persona: the name of who answered.
        now: the time, as told here.
    """
    new = [message for message in waiting if not message.again]  # the others stand in a turn
    said = [line for turn in turns for line in said_in(turn, who, persona)]
    said += [f"{printable_line(who)} › {_short(message.text)}" for message in new]
    if not said:
        return ""
    last = turns[-1].began if turns else new[-1].sent_at
    # The zone's own offset at that time: the clocks may have been changed since.
    when = told_time(datetime.fromtimestamp(last).astimezone(), now)
    return "\n".join((f"Your talk goes on; this was {when} (/reset begins anew):", *said))


def said_in(turn: TurnRecord, who: str, persona: str) -> Iterator[str]:
    """Yield what the person and the persona said in a turn, each message as a short line."""
    for line in turn.lines:
        if isinstance(line, UserLine) and (words := _words(line.text)):
            yield f"{printable_line(who)} › {words}"
    for effect in turn.effects:
        if effect.kind == SEND and effect.outcome in ("done", "unknown") and turn.lines:
            unknown = " (nobody knows whether you saw this)" if effect.outcome == "unknown" else ""
            yield f"{printable_line(persona)} › {_short(effect.payload)}{unknown}"


def _words(line: str) -> str:
    """Return what the person wrote last, of a line as a model is shown it: its own words stand behind `> `.

    "" where nothing in it is new: a reply only went on.
    """
    rows = line.split("\n")
    last: list[str] = []
    while rows and rows[-1].startswith("> "):
        last.insert(0, rows.pop()[2:])
    if last and rows and STILL_WAITS in rows[-1]:
        return ""
    return _short("\n".join(last) or without_additions(line))


def _short(text: str) -> str:
    return without_middle(printable_line(text), _LONGEST, " … ")


def told_time(then: datetime, now: datetime) -> str:
    """Return a time as people tell it: `yesterday, 21:40`."""
    days = (now.date() - then.date()).days
    day = {0: "today", 1: "yesterday"}.get(days, f"on {then:%A}" if 0 < days < 7 else f"on {then:%Y-%m-%d}")
    return f"{day}, {then:%H:%M}"


def told_personas(choices: Choices, present: str) -> str:
    """Tell who answers, and who else could."""
    personas = choices.personas()
    wide = max(map(len, personas), default=0)
    rows = [f"{name:<{wide}}  {printable_line(about)}".rstrip() for name, about in personas.items()]
    return "\n".join((f"You talk to {printable_line(present)}. /persona NAME talks to another:", *rows))


async def about_model(engine: ChannelEngine, others: Sequence[str]) -> str:
    """Tell which model answers, what it does without, and how to choose another, such as one of `others`."""
    model, persona = engine.model, engine.persona
    traits = model.traits
    without = shortcomings(persona, small=traits.small)
    if not without and not traits.tools:
        quotes = f"; it is shown what {', '.join(persona.databases)} say" if persona.databases else ""
        without = f"it is offered no tools{quotes}"
    named = f": {', '.join(map(printable_line, others))}" if others else ""
    kind = without or "a model that is offered tools and told the whole persona"
    return (
        f"{printable_line(model.name)}: {printable_line(kind)}. It holds {traits.context_tokens:,} tokens.\n"
        f"/brain lists other models; /model NAME takes one by its name{named}. To keep it, set `name` "
        "under [model] in pixi.toml. `pixi-persona models` lists models to download."
    )


async def reset(engine: ChannelEngine, conversation: str) -> str:
    """Forget the conversation; tells so.

    Raises:
        StoreError: it could not be forgotten.
    """
    await engine.reset(conversation)
    return "The conversation is forgotten."


async def usage(engine: ChannelEngine) -> str:
    """Tell the use of today and of this month.

    Raises:
        StoreError: it could not be read.
    """
    bill = await engine.bill()
    told = (
        summed_up("Today", bill.today),
        of_the_month(bill.month, bill.month_dollars),
        of_searches(bill.searches),
        UNPRICED if bill.today.unpriced or bill.month.unpriced else "",
    )
    return "\n".join(line for line in told if line)


async def forgotten(engine: ChannelEngine, person: str, history: History) -> str:
    """Forget a person; tells them so.

    Raises:
        StoreError: it could not be forgotten.
    """
    count = await engine.forget(person)
    if isinstance(history, InputHistory):
        try:
            history.forget()
        except OSError as error:
            return (
                f"You are forgotten, but for the lines in {history.filename!r}: {error.strerror}. Delete it."
            )
    return f"You are forgotten. Conversations that changed: {count}"


async def exported(engine: ChannelEngine, person: str) -> str:
    """Write what is kept of a person to a file that nobody else may read; tells them where.

    Raises:
        StoreError: it could not be read.
    """
    return await asyncio.to_thread(_written, json.dumps(await engine.export(person), indent=2))


def _written(text: str) -> str:
    path = Path(f"pixi-export-{datetime.now():%Y%m%d-%H%M%S}.json").absolute()
    try:
        with open(path, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
            file.write(f"{text}\n")
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return f"Everything that is kept of you is in {path}, which nobody else may read."


async def why(engine: ChannelEngine, conversation: str) -> str:
    """Tell why the last reply is as it is.

    Raises:
        StoreError: it could not be read.
    """
    turns = await engine.turns(conversation, 2)  # the last may be under way
    over = [turn.id for turn in turns if turn.finish is not None]
    looked_back = await engine.look_back(over[-1]) if over else None
    if looked_back is None:
        return "Nothing was answered here yet."
    return told_why(looked_back, datetime.now().astimezone())


def told_why(looked_back: LookedBack, now: datetime) -> str:
    """Tell of a turn that is over: the model, what it was offered and shown, what it thought and did.

    Args:
        looked_back: the turn.
        now: the time, as told here.
    """
    record = looked_back.record
    when = told_time(datetime.fromtimestamp(record.began).astimezone(), now)
    if not record.lines:
        return f"The reply of {when} was forgotten."
    parts = _shown(looked_back)
    rows = [
        f"Why the reply of {when} is as it is:",
        *_row("model", [f"{printable_line(record.model)}, {how_many(record.steps, 'request')}"]),
        *_row("tokens", [_tokens(record)]),
        *_row("offered", _offered(looked_back)),
        *_row("remembers", _facts(parts, "memory")),
        *_row("told", _facts(parts, "notice")),
        *_row("passages", _facts(parts, "document")),
        *_row("history", _history(looked_back)),
        *_row("thought", map(_short, notes_in(record.lines))),
        *_row("did", _calls(record)),
        *_row("ended", _end(looked_back)),
    ]
    return "\n".join(rows)


def _row(title: str, told: Iterable[str]) -> Iterator[str]:
    """Yield one line each, the first with a title; of many the first ones."""
    lines = list(told)
    shown = lines[:_MOST]
    if len(lines) > _MOST:
        shown.append(f"… and {len(lines) - _MOST} more")
    for number, line in enumerate(shown):
        yield f"{'' if number else title:<{_TITLE_COLUMNS}} {line}"


def _tokens(record: TurnRecord) -> str:
    usage = record.usage
    cost = "" if record.cost is None else f", {dollars(record.cost)}"
    if not usage.prompt_tokens:
        return f"the server did not count them{cost}"
    read = f"{usage.prompt_tokens:,} read ({usage.cached_tokens:,} of them were cached)"
    return f"{read}, {usage.completion_tokens:,} written{cost}"


def _offered(looked_back: LookedBack) -> Iterator[str]:
    framing = looked_back.framing
    if framing is not None:
        names = without_middle(", ".join(map(printable_line, framing.offered)), 2 * _LONGEST, " … ")
        yield f"{how_many(len(framing.offered), 'tool')}: {names}" if names else "no tools"


def _shown(looked_back: LookedBack) -> list[LinePart]:
    first = looked_back.record.lines[0]
    return parts_of(first) if isinstance(first, UserLine) else []


def _facts(parts: Iterable[LinePart], kind: str) -> Iterator[str]:
    for part in parts:
        if part.kind == kind:
            where = f"{printable_line(part.about)}: " if part.about and kind != "memory" else ""
            yield from (f"{where}{_short(fact)}" for fact in part.facts)


def _history(looked_back: LookedBack) -> Iterator[str]:
    summary = " and a summary of what was before" if looked_back.summary else ""
    if looked_back.past or summary:
        yield f"{how_many(len(looked_back.past), 'earlier turn')}{summary}"


def _calls(record: TurnRecord) -> Iterator[str]:
    for line in record.lines:
        if isinstance(line, AssistantLine):
            yield from map(_call, line.calls)


def _call(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = {}
    return call_in_words(call.name, arguments if isinstance(arguments, dict) else {})


def _end(looked_back: LookedBack) -> Iterator[str]:
    framing, finish = looked_back.framing, looked_back.record.finish
    if framing is not None and framing.limits:
        yield f"a limit was reached: {', '.join(framing.limits)} of [limits]"
    if finish not in ("stop", None):
        yield {
            "length": "the model wrote as long as it may (max_tokens)",
            "cancelled": "the reply was stopped",
            "error": "the model failed",
            "limit": "the reply was closed at a limit",
        }[finish]


_BRANCHES = 20  # that are told of, the latest
_BRANCH_TURNS = 200  # of a branch that are looked at
_BRANCH_WORDS = 160  # characters of what was said in one
_NOTHING = "There is no message of yours in this talk."

Step = Callable[[ChannelEngine], Awaitable[Sequence[str]]]
"""Changes what was said before, in its place among the messages; gives what is to be said once more."""


class UndoCommands:
    """Commands on the last messages of a talk. Each is a `Step`, which may raise `StoreError`.

    Args:
        seat: who sits here, and in which talk.
        transcript: where it is told.
        screen: where a message is changed.
    """

    def __init__(self, seat: TerminalUser, transcript: Transcript, screen: Screen) -> None:
        self._conversation, self._who = seat.conversation, seat.author.name
        self._transcript = transcript
        self._screen = screen

    async def retry(self, answering: ChannelEngine, text: str = "") -> Sequence[str]:
        """Set the last messages and their answer aside; they are said again, the last with another text."""
        messages = await answering.take_back(self._conversation)
        if not messages:
            return self._nothing()
        self._transcript.tell("· set aside; with another text:" if text else "· set aside; once more:")
        *first, last = (message.text for message in messages)
        return (*first, text or last)

    async def edit(self, answering: ChannelEngine) -> Sequence[str]:
        """Put the last message into the line, to be changed there."""
        messages = await answering.last_asked(self._conversation)
        if not messages:
            return self._nothing()
        self._screen.put_by(f"/edit {messages[-1].text}")
        return ()

    async def undo(self, answering: ChannelEngine) -> Sequence[str]:
        """Take the last messages and their answer out."""
        messages = await answering.take_back(self._conversation)
        if not messages:
            return self._nothing()
        whose = "its" if len(messages) == 1 else "their"
        said = " / ".join(printable_line(message.text) for message in messages)
        self._transcript.tell(f"· taken out with {whose} answer: {said}")
        return ()

    async def branches(self, answering: ChannelEngine, *words: str) -> Sequence[str]:
        """Tell what was taken out; or go back to what has this number, and tell where the talk stands."""
        persona = self._transcript.persona
        kept = {}
        for address in await answering.branches(self._conversation):
            turns = await answering.turns(address, _BRANCH_TURNS)
            said = [line for turn in turns for line in said_in(turn, self._who, persona)]
            if said:
                kept[str(turns[0].id)] = (address, turns[0].began, said)
        now = datetime.now().astimezone()
        if words and words[0] in kept:
            await answering.restore(self._conversation, kept[words[0]][0])
            turns = await answering.turns(self._conversation, LAST_TURNS)
            self._transcript.tell(last_said(turns, (), self._who, persona, now))
        elif words:
            self._transcript.tell(
                f"There is no branch {printable_line(words[0])}; /branches lists them.", "error"
            )
        elif kept:
            rows = [
                f"{number} · {told_time(datetime.fromtimestamp(began).astimezone(), now)}"
                f" · {without_middle(' · '.join(said), _BRANCH_WORDS, ' … ')}"
                for number, (_, began, said) in kept.items()
            ]
            self._transcript.tell(
                "\n".join(("/branches NUMBER goes back to one of these:", *rows[-_BRANCHES:]))
            )
        else:
            self._transcript.tell("Nothing was taken out of this talk.")
        return ()

    def _nothing(self) -> Sequence[str]:
        self._transcript.tell(_NOTHING, "error")
        return ()
