"""What is kept of whoever sits at the terminal: the lines typed before, and all else that is their own."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from pixi.channels.shortening import shortened
from pixi.channels.terminal_commands import Choices
from pixi.channels.terminal_text import one_line
from pixi.core.language import SEND
from pixi.core.lines import UserLine
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.shortcomings import shortcomings
from pixi.core.stamps import STILL_WAITS, without_additions
from pixi.models.model import Model
from pixi.store.kept import TurnRecord

ASK_FORGET = (
    "Everything that you ever said here would go, and what is remembered of you. "
    "Write /forget me yes to do it."
)


LAST_TURNS = 2
"""How many turns of an earlier talk are shown when it goes on."""

_LONGEST = 200  # characters of a message that are shown of it


class PersonRecords(Protocol):
    """What keeps something of people: the engine."""

    async def forget(self, person: str) -> int:
        """Forget a person everywhere; gives how many conversations changed."""
        ...

    async def export(self, person: str) -> dict[str, Any]:
        """All that is kept of a person, as plain data."""
        ...


class InputHistory(FileHistory):
    """What the person typed before, in a file."""

    def forget(self) -> None:
        """Keep nothing of it, in memory or in the file."""
        self._loaded_strings = []
        os.truncate(self.filename, 0)


def history_in(folder: Path) -> History:
    """What the person wrote before, kept in `folder`; only for this time where that cannot be written."""
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
    """What was said last in the talk that goes on, and when, in some lines; "" where nothing is known of it.

    Args:
        turns: the last ones, oldest first.
        waiting: messages that wait for an answer, oldest first.
        who: the name of who sits here.
        persona: the name of who answered.
        now: the time, as told here.
    """
    new = [message for message in waiting if not message.again]  # the others stand in a turn
    said = [line for turn in turns for line in said_in(turn, who, persona)]
    said += [f"{one_line(who)} › {_short(message.text)}" for message in new]
    if not said:
        return ""
    last = turns[-1].began if turns else new[-1].sent_at
    # The zone's own offset at that time: the clocks may have been changed since.
    when = told_time(datetime.fromtimestamp(last).astimezone(), now)
    return "\n".join((f"Your talk goes on; this was {when} (/reset begins anew):", *said))


def said_in(turn: TurnRecord, who: str, persona: str) -> Iterator[str]:
    """What the person and the persona said in a turn, each message as a short line."""
    for line in turn.lines:
        if isinstance(line, UserLine) and (words := _words(line.text)):
            yield f"{one_line(who)} › {words}"
    for effect in turn.effects:
        if effect.kind == SEND and effect.outcome in ("done", "unknown") and turn.lines:
            unknown = " (nobody knows whether you saw this)" if effect.outcome == "unknown" else ""
            yield f"{one_line(persona)} › {_short(effect.payload)}{unknown}"


def _words(line: str) -> str:
    """What the person wrote last, of a line as a model is shown it: its own words stand behind `> `.

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
    return shortened(one_line(text), _LONGEST, gap=" … ")[0]


def told_time(then: datetime, now: datetime) -> str:
    """A time as people tell it: `yesterday, 21:40`."""
    days = (now.date() - then.date()).days
    day = {0: "today", 1: "yesterday"}.get(days, f"on {then:%A}" if 0 < days < 7 else f"on {then:%Y-%m-%d}")
    return f"{day}, {then:%H:%M}"


def told_personas(choices: Choices, present: str) -> str:
    """Tell who answers, and who else could."""
    personas = choices.personas()
    wide = max(map(len, personas), default=0)
    rows = [f"{name:<{wide}}  {one_line(about)}".rstrip() for name, about in personas.items()]
    return "\n".join((f"You talk to {one_line(present)}. /persona NAME talks to another:", *rows))


def told_model(model: Model, persona: Persona, others: Sequence[str] = ()) -> str:
    """Tell which model answers, what it does without, and how to choose another, such as one of `others`."""
    traits = model.traits
    without = shortcomings(persona, small=traits.small)
    if not without and not traits.tools:
        quotes = f"; it is shown what {', '.join(persona.databases)} say" if persona.databases else ""
        without = f"it is offered no tools{quotes}"
    named = f": {', '.join(map(one_line, others))}" if others else ""
    kind = without or "a model that is offered tools and told the whole persona"
    return (
        f"{one_line(model.name)}: {one_line(kind)}. It holds {traits.context_tokens:,} tokens.\n"
        f"/brain shows what else there is; /model NAME takes one by its name{named}. For good it is `name`\n"
        "in the section [model] of pixi.toml. `pixi-persona models` fetches more."
    )


async def forgotten(keeping: PersonRecords, person: str, history: History) -> str:
    """Forget a person; tells them so.

    Raises:
        StoreError: it could not be forgotten.
    """
    count = await keeping.forget(person)
    if isinstance(history, InputHistory):
        try:
            history.forget()
        except OSError as error:
            return (
                f"You are forgotten, but for the lines in {history.filename!r}: {error.strerror}. Delete it."
            )
    return f"You are forgotten. Conversations that changed: {count}"


async def exported(keeping: PersonRecords, person: str) -> str:
    """Write what is kept of a person to a file that nobody else may read; tells them where.

    Raises:
        StoreError: it could not be read.
    """
    return await asyncio.to_thread(_written, json.dumps(await keeping.export(person), indent=2))


def _written(text: str) -> str:
    path = Path(f"pixi-export-{datetime.now():%Y%m%d-%H%M%S}.json").absolute()
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return f"Everything that is kept of you is in {path}, which nobody else may read."
