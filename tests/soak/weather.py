"""The model server of the town: mostly kind, at times in all the bad moods that servers have."""

import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.servers.scripted_openai import (
    Close,
    Hang,
    Reply,
    Reset,
    Seen,
    Step,
    Wait,
    answer,
    call,
    error,
    event,
    finish,
    head,
    page,
    stream,
    usage,
)
from tests.soak.ledger import Ledger

_QUOTED = ("earlier, ", "you remember of ", "overheard")
_FILLER = "and then the fog came down over the griddle and nobody knew which pancake was whose any more"


@dataclass(frozen=True, slots=True)
class Weather:
    """How often the model server fails, for a while."""

    name: str
    faults: float


CALM = Weather("calm", 0.03)
SHOWERS = Weather("showers", 0.25)
STORM = Weather("storm", 0.7)

KIND = {
    "quick": 30,
    "slow": 14,
    "byte by byte": 4,
    "in two messages": 14,
    "long": 3,
    "plain prose": 5,
    "a reaction": 5,
    "silence": 2,
    "a tool first": 6,
}
"""How it answers when it is kind, and how often."""

UNKIND = {
    "stall": 3,
    "stall half-way": 3,
    "reset": 4,
    "reset half-way": 4,
    "closed half-way": 4,
    "broken in its first message": 3,
    "429 with a header": 3,
    "429": 3,
    "500": 4,
    "503": 4,
    "a web page": 3,
    "broken events": 3,
    "pings only": 2,
    "JSON of another kind": 2,
}
"""How it fails."""


class Model:
    """Chooses a reply for each request, and notes it in the ledger.

    Attributes:
        weather: how it is now.
        faults: how often it failed, by how.
        requests: how many came.
    """

    def __init__(self, ledger: Ledger, chance: random.Random) -> None:
        self.weather = CALM
        self.faults: Counter[str] = Counter()
        self.requests = 0
        self._ledger = ledger
        self._chance = chance

    def choose(self, seen: Seen) -> Reply:
        """What is answered to a request."""
        self.requests += 1
        if not seen.path.endswith("/chat/completions"):
            return answer(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        asked: dict[str, Any] = seen.json()
        lines = asked["messages"]
        user = max((at for at, line in enumerate(lines) if line["role"] == "user"), default=0)
        persona = _who(str(lines[0]["content"]))
        marks = questions_in(_text(lines[user]["content"]), persona[0]) if persona else ()
        if not marks:  # it is asked for something else: to sum up what fell out of the window
            return stream("They talked of pancakes.", finish(), usage(len(seen.body) // 4, 8))
        for line in lines[:user]:
            if line["role"] == "user":
                self._ledger.shown_again.update(questions_in(_text(line["content"]), persona[0]))
        used_tool = any(line["role"] == "tool" for line in lines[user:])
        prompt = len(seen.body) // 4
        if self._chance.random() < self.weather.faults:
            return self._unkind(persona, marks, prompt)
        wanted = dict(KIND)
        if used_tool or not asked.get("tools"):
            del wanted["a tool first"]
        return self._kind(_one_of(self._chance, wanted), persona, marks, prompt)

    # When it is kind.

    def _kind(self, kind: str, persona: str, marks: tuple[str, ...], prompt: int) -> Reply:
        number = self._ledger.next_number()
        if kind == "a tool first":
            self._ledger.write(number, persona, kind, marks)
            entry = call("ledger", json.dumps({"entry": marks[-1]}), index=0, call_id=f"c{number}")
            return stream(entry, finish("tool_calls"), usage(prompt, 12))
        texts = self._texts(kind, f"{' '.join(marks)} r{number}", number)
        quiet, reaction = kind == "silence", kind == "a reaction"
        self._ledger.write(number, persona, kind, marks, texts=texts, quiet=quiet, reaction=reaction)
        reply = stream(*self._pieces(kind, texts), finish(), usage(prompt, 20))
        return reply.bytewise() if kind == "byte by byte" else reply

    def _texts(self, kind: str, named: str, number: int) -> tuple[str, ...]:
        """The messages of a reply. Each has the reply's number in it, however it is split."""
        match kind:
            case "silence" | "a reaction":
                return ()
            case "long":
                words = (f"r{number}-{at}" for at in range(self._chance.randrange(180, 240)))
                return (" ".join((named, *words)),)
            case "in two messages":
                return (f"{named} {_FILLER[:40].strip()}", f"and r{number} once more")
        return (f"{named} {_FILLER[: self._chance.randrange(8, 60)].strip()}",)

    def _pieces(self, kind: str, texts: tuple[str, ...]) -> list[str | Step]:
        if kind == "plain prose":
            return list(texts)
        if kind == "silence":
            return ["[NOTE: better not]\n", "[SEND]"]
        if kind == "a reaction":
            return ["[REACT: 👍]"]
        pieces: list[str | Step] = ["[NOTE: hm]\n"]
        for text in texts:
            middle = len(text) // 2
            pieces += [f"[SEND: {text[:middle]}", f"{text[middle:]}]\n"]
            if kind == "slow":
                pieces.insert(-1, Wait(self._chance.uniform(0.05, 0.6)))
        return pieces

    # When it is not.

    def _unkind(self, persona: str, marks: tuple[str, ...], prompt: int) -> Reply:
        kind = _one_of(self._chance, UNKIND)
        self.faults[kind] += 1
        number = self._ledger.next_number()
        said = f"{' '.join(marks)} r{number} before it broke"
        half_way = kind.endswith("half-way")
        broken = kind == "broken in its first message"
        texts = (said, f"and r{number}") if half_way else (said,) if broken else ()
        self._ledger.write(number, persona, kind, marks, texts=texts)
        first = stream(f"[SEND: {said}]\n", f"[SEND: and r{number}", done=False, end=False)
        kept = Reply(first.steps[:-1])  # without its end
        match kind:
            case "stall":
                return Reply((head(), Hang()))
            case "stall half-way":
                return kept.then(Hang())
            case "reset":
                return Reply((Reset(),))
            case "reset half-way":
                return kept.then(Wait(0.02), Reset())
            case "closed half-way":
                return kept.then(Close())
            case "broken in its first message":
                return stream(f"[SEND: {said[:-4]}", Wait(0.02), done=False, end=False)
            case "429 with a header":
                return error(429, "Slow down.", retry_after="1")
            case "429":
                return error(429, "Slow down.")
            case "500":
                return error(500, "The server had an error.")
            case "503":
                return error(503, "Overloaded.")
            case "a web page":
                return page()
            case "broken events":
                return stream(event('{"choices": [{"delta'), event("{nothing"), done=False)
            case "pings only":
                return stream(b": ping\n\n", Wait(0.3), b": ping\n\n", Hang())
            case "JSON of another kind":
                return answer(200, {"detail": "no such thing"})
        raise AssertionError(kind)


def questions_in(text: str, letter: str) -> tuple[str, ...]:
    """The marks of the questions that a user line asks of a persona, without what it only quotes."""
    words: list[str] = []
    skipped = False
    for line in text.split("\n"):
        if line.startswith(">"):
            words += [] if skipped else [line]
        else:
            skipped = any(word in line for word in _QUOTED)
    return tuple(dict.fromkeys(re.findall(rf"\b{letter}\d+\b", " ".join(words))))


def _who(instruction: str) -> str:
    """The persona that is to write; "" where none is."""
    return next((name for name in ("pixi", "edda") if f"You are {name.capitalize()}." in instruction), "")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts)


def _one_of(chance: random.Random, weights: dict[str, int]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]
