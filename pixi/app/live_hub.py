"""Events in the service right now, for pages that look on: kept for a while, followed by many.

All that is published has a kind. `turn` is what happens in turns, see `pixi.channels.observing`, with the
words of those who talk; `talk` is told of the same talks without a word: that a turn began or ended. Parts of
the service publish further kinds.

Nobody waits for followers. Each has a queue of its own. A follower that takes its events too slowly is told
that some were missed, and then gets all that are kept anew.

Events of turns are kept as they came, but for the results of tools; secrets are hidden when an event is
handed out. So a turn that nobody looks at costs next to nothing.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Collection
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from pixi.core.masking import SecretRedactor, hidden_in

Form = dict[str, Any]

KEPT_SECONDS = 600.0
"""Seconds for which the words of a talk in which nothing happens are kept here."""

KEPT_TURNS = 5
"""Latest turns of one talk."""

MOST_CHARACTERS = 200_000
"""Limit of one turn; what comes after is handed to followers alone."""

MOST_TALKS = 200
"""Limit of the list; the words of a quarter of them are kept."""

MOST_WAITING = 2_000
"""Events that wait for one follower. A reply of 500 words has some 700."""

_LONGEST_TEXT = 4_000
"""Characters of anything but the model's own text: results of tools may be long."""

_ENDS = frozenset({"restarting", "requeueing"})
"""States in which an attempt ends as if it had not been."""

_AFTER_TEXT = frozenset({"asked", "answered", "state", "turn_end"})
"""Events behind which no more of a text comes."""

_PIECES = frozenset({"text", "thought"})
"""Events that come hundreds of times in a turn."""

_OF_TOOLS = frozenset({"tool_call", "tool_result"})
"""Events that hold more than the model and people wrote."""


class LiveTalk(Struct):
    """A talk in which something happened lately, without a word of it.

    Attributes:
        active: a turn is under way.
        turns: that began since the program started.
        began, last: seconds since the epoch: of the latest turn, and of what happened last.
    """

    conversation: str
    persona: str = ""
    model: str = ""
    active: bool = False
    turns: int = 0
    turn: int = 0
    finish: str = ""
    began: float = 0.0
    last: float = 0.0


class _KeptTurn(Struct):
    """The events of a turn. Pieces of text that follow each other are kept as one."""

    forms: list[Form] = field(default_factory=list)  # all but the last
    last: Form = field(default_factory=dict)  # empty: there is none
    pieces: list[str] = field(default_factory=list)  # of the last form, where that is text
    size: int = 0

    def keep(self, form: Form) -> None:
        last = self.last
        is_text = form["event"] in _PIECES
        if self.size > MOST_CHARACTERS and (is_text or form["event"] == "tool_result"):
            return
        self.size += len(form["text"]) if is_text else 200
        if is_text and last.get("event") == form["event"] and last["step"] == form["step"]:
            self.pieces.append(form["text"])
            return
        self._join()
        if last:
            self.forms.append(self.last)
        self.last = form
        self.pieces = [form["text"]] if is_text else []

    def forms_so_far(self) -> list[Form]:
        """Return the events until now, in order."""
        self._join()
        return [*self.forms, self.last] if self.last else self.forms

    def _join(self) -> None:
        if len(self.pieces) > 1:
            text = "".join(self.pieces)
            self.last = {**self.last, "text": text}
            self.pieces = [text]


class _KeptTalk(Struct):
    """The turns of a talk that are kept, with their words."""

    turns: "deque[_KeptTurn]" = field(default_factory=lambda: deque(maxlen=KEPT_TURNS))
    withheld: Form | None = None  # the end of the text so far, which may be the beginning of a secret
    last: float = 0.0  # on the monotonic clock


class _Follower(Struct, eq=False):
    """A page that follows what happens."""

    kinds: Collection[str]
    conversation: str
    persona: str
    waiting: "deque[Form]" = field(default_factory=deque)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    missed: bool = False

    def wants(self, kind: str, form: Form) -> bool:
        if self.kinds and kind not in self.kinds:
            return False
        if self.persona and form.get("persona", self.persona) != self.persona:
            return False
        return kind != "turn" or self.conversation in ("", form["conversation"])

    def put(self, form: Form) -> None:
        if len(self.waiting) >= MOST_WAITING:
            self.waiting.clear()
            self.missed = True
        if not self.missed:  # else it is given what is kept
            self.waiting.append(form)
        self.more.set()


class LiveHub:
    """Keeps what happens for a while, and hands it to followers.

    Args:
        mask: hides secrets in all that is published.
    """

    def __init__(self, mask: SecretRedactor) -> None:
        self._mask = mask
        self._talks: OrderedDict[str, LiveTalk] = OrderedDict()  # what happened last stands last
        self._kept: OrderedDict[str, _KeptTalk] = OrderedDict()
        self._followers: set[_Follower] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def talks(self) -> list[LiveTalk]:
        """The talks in which something happened lately, the latest first."""
        return list(reversed(self._talks.values()))

    @property
    def followed(self) -> bool:
        """True if somebody looks on."""
        return bool(self._followers)

    def text_of(self, conversation: str, turn: int) -> list[str]:
        """Return what the model wrote in a turn, by requests, to the letter; nothing once it is dropped."""
        texts: dict[int, list[str]] = {}
        kept = self._kept.get(conversation)
        for form in (form for each in kept.turns for form in self._shown(each)[0]) if kept else ():
            if form["turn"] == turn and form["event"] == "text":
                texts.setdefault(form["step"], []).append(form["text"])
        return ["".join(pieces) for pieces in texts.values()]

    def publish(self, kind: str, form: Form) -> None:
        """Hand plain data to the followers; secrets in it are hidden."""
        if self._followers:
            self._hand_out(kind, self._hidden(form))

    def observe(self, form: Form) -> None:
        """Take an event of a turn: this is an observer of an engine."""
        address, event = form["conversation"], form["event"]
        if event == "forgotten":
            self._kept.pop(address, None)
            self._hand_out("turn", form)
            return
        kept = self._kept.get(address)
        if event in _PIECES and not self._followers:
            if kept is not None and kept.turns:
                kept.turns[-1].keep(form)
            return  # something else is told before and after
        # A turn whose words were dropped for other talks takes no place of theirs.
        if kept is not None or event == "turn_start" or self._followers:
            self._keep(form, self._talk_of(address))
        self._note(form)

    def _keep(self, form: Form, kept: _KeptTalk) -> None:
        """Keep an event among those of its talk, and hand it to followers."""
        if form["event"] == "turn_start":
            kept.turns.append(_KeptTurn())
        elif form["event"] in _OF_TOOLS:
            form = self._hidden(form)  # of what may be long, only the beginning is kept
        if kept.turns:
            kept.turns[-1].keep(form)
        if self._followers:
            shown, kept.withheld = self._without_secrets(form, kept.withheld)
            for each in shown:
                self._hand_out("turn", each)

    async def follow(
        self, kinds: Collection[str] = (), *, conversation: str = "", persona: str = ""
    ) -> AsyncGenerator[Form, None]:
        """Yield the events, each with its `kind`, from the beginning of those of turns that are kept.

        Of one conversation these are its last turns, of all conversations the turns that are under way. An
        event of kind `now` comes behind them: those that follow happen just then. One of kind `missed` comes
        where others were dropped, as they were not taken; the kept ones then come anew.

        Args:
            kinds: wanted; empty: all.
            conversation: whose turns are wanted; "": all.
            persona: whose talks are wanted; "": all.
        """
        follower = _Follower(kinds, conversation, persona)
        if not self._followers:
            for kept in self._kept.values():
                kept.withheld = self._shown(kept.turns[-1])[1] if kept.turns else None
        self._followers.add(follower)
        follower.waiting.extend([*self._kept_for(follower), {"kind": "now"}])
        try:
            while True:
                while follower.waiting:
                    yield follower.waiting.popleft()
                if follower.missed:
                    follower.missed = False
                    yield {"kind": "missed"}
                    follower.waiting.extend([*self._kept_for(follower), {"kind": "now"}])
                    continue
                follower.more.clear()
                await follower.more.wait()
        finally:
            self._followers.discard(follower)

    def _hand_out(self, kind: str, form: Form) -> None:
        for follower in self._followers:
            if follower.wants(kind, form):
                follower.put({**form, "kind": kind})

    def _kept_for(self, follower: _Follower) -> list[Form]:
        """Return the kept events that a follower wants."""
        return [
            {**form, "kind": "turn"}
            for address, kept in self._kept.items()
            if follower.conversation in ("", address)
            for turn in kept.turns
            if follower.conversation or (turn is kept.turns[-1] and self._talks[address].active)
            for form in self._shown(turn)[0]
            if follower.wants("turn", form)
        ]

    def _shown(self, turn: _KeptTurn) -> tuple[list[Form], Form | None]:
        """Return the events of a turn that may be told by now, and the end of its text that is withheld."""
        shown: list[Form] = []
        withheld: Form | None = None
        for form in turn.forms_so_far():
            more, withheld = self._without_secrets(form, withheld)
            shown += more
        return shown, withheld

    def _talk_of(self, address: str) -> _KeptTalk:
        kept = self._kept.get(address)
        if kept is None:
            kept = self._kept[address] = _KeptTalk()
        kept.last = time.monotonic()
        self._kept.move_to_end(address)
        if len(self._kept) > MOST_TALKS // 4:
            self._kept.popitem(last=False)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._sweep)
        return kept

    def _sweep(self) -> None:
        """Drop the words of talks in which nothing happened for long."""
        old = time.monotonic() - KEPT_SECONDS
        for address in [address for address, kept in self._kept.items() if kept.last <= old]:
            del self._kept[address]
        self._sweeping = None
        if self._kept:
            oldest = next(iter(self._kept.values())).last
            self._sweeping = asyncio.get_running_loop().call_later(oldest - old, self._sweep)

    def _note(self, form: Form) -> None:
        """Note that something happened in a talk; tell without a word that a turn begins or ends."""
        address, event = form["conversation"], form["event"]
        if event in _PIECES and address in self._talks:
            return  # something else is told before and after
        talk = self._talks.setdefault(address, LiveTalk(address))
        self._talks.move_to_end(address)
        talk.last = time.time()
        ends = event == "turn_end" or (event == "state" and form["state"] in _ENDS)
        if event == "turn_start":
            talk.persona, talk.model, talk.turn = form["persona"], form["model"], form["turn"]
            talk.active, talk.began, talk.finish = True, form["began"], ""
            talk.turns += 1
        elif ends:
            talk.active, talk.finish = False, form.get("finish", "cancelled")
        if len(self._talks) > MOST_TALKS:
            self._talks.popitem(last=False)
        if ends or event == "turn_start":
            self._hand_out("talk", asdict(talk))

    def _without_secrets(self, form: Form, held: Form | None) -> tuple[list[Form], Form | None]:
        """Return the events that may be told, and the one that is withheld: text that may begin a secret.

        A piece with a secret in it keeps its length, since offsets count characters.

        Args:
            form: the event.
            held: the event that was withheld before.
        """
        if form["event"] == "text":
            if held is not None:
                form = {**form, "text": held["text"] + form["text"], "offset": held["offset"]}
            text = form["text"]
            until = len(text) - self._mask.begun(text)
            rest = None
            if until < len(text):
                rest = {**form, "text": text[until:], "offset": form["offset"] + until}
            if until and (shown := self._mask.cover(text[:until])) != text:
                form = {**form, "text": shown}
            return [form] if until else [], rest
        if held is None or form["event"] not in _AFTER_TEXT:
            return [self._hidden(form)], held
        dots = "•" * len(held["text"]) if len(held["text"]) > 4 else held["text"]
        return [{**held, "text": dots}, self._hidden(form)], None

    def _hidden(self, form: Form) -> Form:
        """Return plain data without secrets, and without the rest of long texts."""
        hidden: Form = hidden_in(form, self._short)
        return hidden

    def _short(self, text: str) -> str:
        text = self._mask.redact(text)
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
