"""What conversations share: the parts of an engine, and what follows from the role that is played in one."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from pixi.core.deltas import ToolSchema
from pixi.core.errors import PixiError
from pixi.core.gathered import Gathered
from pixi.core.limits import Limits
from pixi.core.lines import Line, UserLine
from pixi.core.message import Message
from pixi.core.persona import Pace, Persona
from pixi.core.picture import Abilities
from pixi.core.prompt import prefix, stamp
from pixi.core.reading import ProsePolicy
from pixi.core.report import TurnReport
from pixi.core.spending import Budgets
from pixi.core.stamps import Citation, Reminder
from pixi.engine.books import UsageLedger
from pixi.engine.offering import Room, ToolSelector
from pixi.engine.pace import PaceSetting
from pixi.engine.repertoire import NO_ABILITIES, Capabilities, capabilities_of
from pixi.engine.summarizing import Summarizer
from pixi.engine.templates import template
from pixi.models.model import Model
from pixi.store.store import Store
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.foreign import foreign
from pixi.toolbox.tools import Toolbox

LookUp = Callable[[Persona, str], Awaitable[Sequence[Citation]]]
"""Gives what the databases of a persona say on a message, best first; nothing where that is not sure."""

_PREFIXES = 128  # kept, one for each person that was talked to


def local_now() -> datetime:
    """The time, where this computer is."""
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Role:
    """Who speaks in a conversation, and on which model."""

    persona: Persona
    model: Model


@dataclass(slots=True)
class EngineSettings:
    """How replies are given. May be changed at any time: turns that begin later go by it.

    Attributes:
        limits: how much one turn may do.
        prose: what becomes of text outside commands.
        pace: how fast messages follow each other, where a channel keeps a pace.
        gather_seconds: how long to wait for more messages before answering the first.
        finish_seconds: how old a message may be for what an earlier process left half-done to be finished.
        approval_seconds: how long people may take, in one turn, to say whether tools may do something.
        budgets: how much may be used in a day and a month.
        summarize: whether the helper model writes down what falls out of the window.
        summary_tokens: how long that may be.
        search_price: dollars for one search of the web that a model's provider makes by itself; None: not
            known.
    """

    limits: Limits
    prose: ProsePolicy = "auto"
    pace: PaceSetting = "persona"
    gather_seconds: float = 0.0
    finish_seconds: float = 900.0
    approval_seconds: float = 120.0
    budgets: Budgets = field(default_factory=Budgets)
    summarize: bool = True
    summary_tokens: int = 500
    search_price: float | None = None


@dataclass(slots=True)
class EngineContext:
    """What all conversations of an engine share. `store` is open.

    Attributes:
        clock: the local time, which messages are stamped with.
        ledger: where it is entered what is used.
        on_turn: told of each turn that ended.
        summarizer: writes down what falls out of windows; None: nobody does.
        look_up: looks into documents for a model that calls no tools; None: nobody does.
        winding_down: messages are only recorded, and no turn is begun any more.
        turns_before: the highest id of a turn when this engine began.
        own_turns: ids of those that it began and did not end yet.
    """

    store: Store
    commands: CommandRegistry
    toolbox: Toolbox
    settings: EngineSettings
    clock: Callable[[], datetime]
    ledger: UsageLedger
    on_turn: Callable[[TurnReport], None] | None = None
    summarizer: Summarizer | None = None
    look_up: LookUp | None = None
    winding_down: bool = False
    turns_before: int = 0
    own_turns: set[int] = field(default_factory=set)

    def is_left_over(self, turn: int) -> bool:
        """Whether a turn that was not ended is this engine's to end.

        What another process began meanwhile is under way there, as far as anybody knows.
        """
        return turn <= self.turns_before or turn in self.own_turns

    def tell(self, report: TurnReport | None) -> None:
        """Tell of a turn, if there was one and somebody wants to know."""
        if report is None or self.on_turn is None:
            return
        try:
            with foreign("what is told of turns"):
                self.on_turn(report)
        except PixiError:
            pass  # it is in the log, and the talk goes on


@dataclass(slots=True)
class PersonaSession:
    """What the conversations in which one role is played have in common, in places of the same abilities."""

    role: Role
    shared: EngineContext
    abilities: Abilities = NO_ABILITIES
    _capabilities: Capabilities | None = None
    _registered: tuple[int, int, bool, bool] = (0, 0, False, False)
    _prefixes: dict[str, tuple[Line, ...]] = field(default_factory=dict)
    _selector: ToolSelector | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The persona's commands and tools, of those registered by now, for what its model can do by now.

        Raises:
            ConfigError: the persona names one that is not registered.
        """
        commands, toolbox = self.shared.commands, self.shared.toolbox
        # By now: a provider may refuse to search, and then the tool of ours is offered; and a server that was
        # away may tell later how large its model is.
        traits = self.role.model.traits
        registered = (len(commands), toolbox.version, traits.searches, traits.small)
        if self._capabilities is None or self._registered != registered:
            self._capabilities = capabilities_of(
                self.role.persona,
                commands,
                toolbox,
                small=traits.small,
                searches=traits.searches,
                abilities=self.abilities,
            )
            self._registered = registered
            self._prefixes.clear()
        return self._capabilities

    def offered(self, messages: Sequence[Message], history: Sequence[Line]) -> tuple[ToolSchema, ...]:
        """The tools that the model is offered for answering these messages: all, or those that matter."""
        if not self.role.model.traits.tools:
            return ()
        return self._offers.schemas(
            self.capabilities,
            self._room,
            conversation=messages[-1].conversation,
            asked="\n".join(message.text for message in messages),
            lines=history,
        )

    @property
    def tool_tokens(self) -> int:
        """How much of a prompt the tools that are offered take, by estimate."""
        if not self.role.model.traits.tools:
            return 0
        return self._offers.tokens(self.capabilities, self._room)

    @property
    def _offers(self) -> ToolSelector:
        if self._selector is None:
            self._selector = ToolSelector(self.role.persona)
        return self._selector

    @property
    def _room(self) -> Room:
        return Room(self.shared.settings.limits.tools, self.role.model.traits.context_tokens)

    @property
    def pace(self) -> Pace:
        """How fast its messages follow each other."""
        pace = self.shared.settings.pace
        return self.role.persona.pace if pace == "persona" else pace

    def prefix(self, message: Message) -> tuple[Line, ...]:
        """The static lines before the history of the conversation that this message was written in."""
        commands = self.capabilities.help
        # In a group the prefix names nobody: it would change with each who speaks.
        person = "" if message.group else message.author.name
        if person not in self._prefixes:
            if len(self._prefixes) >= _PREFIXES:
                self._prefixes.clear()
            small = self.role.model.traits.small
            self._prefixes[person] = prefix(
                template(small=small),
                self.role.persona,
                commands,
                person=person,
                small=small,
                unserved=self.capabilities.unserved,
            )
        return self._prefixes[person]

    def stamp(
        self,
        messages: Sequence[Message],
        reminders: Sequence[Reminder | Citation] = (),
        *,
        tokens: float = math.inf,
    ) -> UserLine:
        """The user line of messages that are to be answered now, within so many tokens by estimate.

        Of the reminders of people those are in it whose people are answered.
        """
        several = len({message.author.id for message in messages}) > 1
        stamped = partial(
            stamp,
            local_time=self.shared.clock(),
            small=self.role.model.traits.small,
            group=several or any(message.group or not message.addressed for message in messages),
        )
        answered = {message.author.id for message in messages if message.addressed}
        reminded = [one for one in reminders if isinstance(one, Citation) or one.person.id in answered]
        return Gathered(stamped, reminded, tokens).line(messages)
