"""Shared parts of conversations: the settings and parts of an engine, and the personas that speak in it.

`EngineContext` holds the parts. A resolver says which `Role` (persona and model) speaks in a conversation;
`EngineContext.session` gives the `PersonaSession` of that role: its prompt, commands and tools, made once.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from importlib import resources
from typing import Any

from msgspec import Struct, field

from pixi.channels.observing import ObservedTurn, Observer
from pixi.core.channel import Channel, OpenQuestion
from pixi.core.errors import PixiError
from pixi.core.events import TurnReport
from pixi.core.life import Life
from pixi.core.llm import Line, ToolSchema, UserLine
from pixi.core.lru import LRU
from pixi.core.message import Abilities, Message
from pixi.core.persona import Pace, PaceSetting, Persona
from pixi.core.prompt import prefix
from pixi.core.reading import ProsePolicy
from pixi.core.spending import Budgets, Limits
from pixi.core.stamps import Citation, LineFitter, Reminder, stamp
from pixi.core.untrusted import clipped
from pixi.engine.capabilities import NO_ABILITIES, Capabilities, ToolRoom, ToolSelector, capabilities_of
from pixi.engine.usage import UsageLedger
from pixi.models.model import Model
from pixi.store.store import Store
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.foreign import foreign
from pixi.toolbox.tools import Toolbox

LookUp = Callable[[Persona, str], Awaitable[Sequence[Citation]]]
"""Gives what the databases of a persona say on a message, best first; nothing where that is not sure."""

PersonaResolver = Callable[[str], "Role"]
"""Gives the role of a conversation, by its address. Asked anew for each turn."""

_PREFIXES = 128  # kept, one for each person that was talked to

# Sessions that stay in memory: a persona that is edited is another one each time, and each server with
# stickers of its own needs one. With a session goes what keeps the tools of its talks the same.
_SESSIONS = 256

_LARGEST_SHARE = 8  # of the model's context: a summary takes at most one part in so many


def local_now() -> datetime:
    """Give the time in the zone of this computer."""
    return datetime.now().astimezone()


class Role(Struct, frozen=True):
    """The persona that speaks in a conversation, and its model."""

    persona: Persona
    model: Model


class EngineSettings(Struct):
    """Settings for replies. May be changed at any time: turns that begin later go by the change.

    Attributes:
        limits: how much one turn may do.
        prose: what becomes of text outside commands.
        pace: how fast messages follow each other, where a channel keeps a pace.
        gather_seconds: how long to wait for more messages before answering the first.
        gather_messages: how many messages to the persona one turn answers at most, the oldest first.
        waiting_messages: how many such messages may wait in a conversation; further ones are only overheard.
        finish_seconds: how old a message may be for what an earlier process left half-done to be finished.
        approval_seconds: how long people may take, in one turn, to say whether tools may do something.
        budgets: how much may be used in a day and a month.
        summarize: whether the helper model writes down what falls out of the window.
        summary_tokens: how long that may be.
        search_price: dollars for one search of the web that a model's provider makes by itself; None: not
            known.
        observers: told all that happens in turns that begin later; see `pixi.channels.observing`.
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
    gather_messages: int = 6
    waiting_messages: int = 200
    observers: list[Observer] = field(default_factory=list)


class EngineContext(Struct):
    """Parts that all conversations of an engine share. `store` is open.

    Attributes:
        clock: the local time, which messages are stamped with.
        ledger: takes what is used.
        resolver: gives the role of a conversation, by its address.
        on_turn: told of each turn that ended.
        look_up: looks into documents for a model that calls no tools; None: nobody does.
        draining: messages are only recorded, and no turn is begun any more.
        asked: the questions to people that wait for an answer, by their nonces.
    """

    store: Store
    commands: CommandRegistry
    toolbox: Toolbox
    settings: EngineSettings
    clock: Callable[[], datetime]
    ledger: UsageLedger
    resolver: PersonaResolver
    on_turn: Callable[[TurnReport], None] | None = None
    look_up: LookUp | None = None
    draining: bool = False
    asked: dict[str, OpenQuestion] = field(default_factory=dict)
    _sessions: LRU[tuple[Persona, int, Abilities], "PersonaSession"] = field(
        default_factory=lambda: LRU(_SESSIONS)
    )

    def session(self, conversation: str, abilities: Abilities = NO_ABILITIES) -> "PersonaSession":
        """Return the session of a conversation: one for the same role in places of the same abilities.

        Raises:
            PixiError: the resolver could not say who speaks.
        """
        role = self.resolver(conversation)
        key = (role.persona, id(role.model), abilities)  # a session holds its model: the id stays its own
        session = self._sessions.get(key)
        if session is None:
            session = PersonaSession(role, self, abilities)
            self._sessions.put(key, session)
        return session

    def tell(self, report: TurnReport) -> None:
        """Tell of a turn, if somebody wants to know."""
        if self.on_turn is not None:
            with suppress(PixiError), foreign("what is told of turns"):  # it is in the log
                self.on_turn(report)


class PersonaSession(Struct):
    """A persona on its model, ready to answer: its prompt, commands and tools.

    All conversations that the same role speaks in share it, in places of the same abilities.
    """

    role: Role
    shared: EngineContext
    abilities: Abilities = NO_ABILITIES
    _capabilities: Capabilities | None = None
    # What the capabilities depend on, as it was when they were made: see `capabilities`.
    _registered: tuple[int, int, bool, bool] = (0, 0, False, False)
    _prefixes: dict[tuple[str, str], tuple[Line, ...]] = field(default_factory=dict)  # by name, instructions
    _selector: ToolSelector | None = None  # made when tools are first offered

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
        """Choose the tools that the model is offered for these messages: all, or those that matter."""
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
        """Estimate of the tokens that the offered tools take in a prompt."""
        if not self.role.model.traits.tools:
            return 0
        return self._offers.tokens(self.capabilities, self._room)

    @property
    def _offers(self) -> ToolSelector:
        if self._selector is None:
            self._selector = ToolSelector(self.role.persona)
        return self._selector

    @property
    def _room(self) -> ToolRoom:
        return ToolRoom(self.shared.settings.limits.tools, self.role.model.traits.context_tokens)

    @property
    def limits(self) -> Limits:
        """Limits of one turn: of rounds with tools no more than the persona's file says."""
        limits, own = self.shared.settings.limits, self.role.persona.tool_steps
        return limits if own is None else replace(limits, tool_steps=min(own, limits.tool_steps))

    @property
    def summary_tokens(self) -> int:
        """Length of the summary of a talk, in tokens; 0: none is written."""
        settings, traits = self.shared.settings, self.role.model.traits
        if not settings.summarize or traits.small:  # a long prompt makes a small model babble
            return 0
        return min(settings.summary_tokens, traits.context_tokens // _LARGEST_SHARE)

    @property
    def pace(self) -> Pace:
        """Pace of the persona's messages."""
        pace = self.shared.settings.pace
        return self.role.persona.pace if pace == "persona" else pace

    def prefix(self, message: Message) -> tuple[Line, ...]:
        """Give the static lines before the history of the conversation that this message was written in."""
        commands = self.capabilities.help
        # In a group the prefix names nobody: it would change with each who speaks.
        person = "" if message.group else message.author.name
        traits = self.role.model.traits
        instructions = clipped(message.instructions, traits.context_tokens // 2).strip()
        key = person, instructions
        if key not in self._prefixes:
            if len(self._prefixes) >= _PREFIXES:
                self._prefixes.clear()
            small = traits.small
            self._prefixes[key] = prefix(
                prompt_template(small=small),
                self.role.persona,
                commands,
                person=person,
                small=small,
                unserved=self.capabilities.unserved,
                instructions=instructions,
            )
        return self._prefixes[key]

    def stamp(
        self,
        messages: Sequence[Message],
        reminders: Sequence[Reminder | Citation] = (),
        *,
        tokens: float = math.inf,
        broke_off: bool = False,
    ) -> UserLine:
        """Write the user line of messages that are to be answered now, within so many tokens by estimate.

        It holds the reminders of the people who are answered.
        `broke_off`: the messages that come due again were answered in part, and the reply is to go on; see
        `pixi.core.stamps.stamp`.
        """
        several = len({message.author.id for message in messages}) > 1
        stamped = partial(
            stamp,
            local_time=self.shared.clock(),
            small=self.role.model.traits.small,
            group=several or any(message.group or not message.addressed for message in messages),
            broke_off=broke_off,
        )
        answered = {message.author.id for message in messages if message.addressed}
        reminded = [one for one in reminders if isinstance(one, Citation) or one.person.id in answered]
        return LineFitter(stamped, reminded, tokens).line(messages)


class TurnContext(Struct, frozen=True, eq=False):
    """One attempt at a turn, as all parts that write and perform its reply share it.

    Attributes:
        id: of the turn in the store.
        session: the persona that answers, on its model.
        messages: those that are answered, with what was overheard between them.
        answered: the one of them that is.
        channel: where.
        life: of the turn; it says whether an act may begin, and is told of each.
        lease: the number of the lease that acts are recorded under; None: the one that the turn began under.
        observed: is told what is done; None: nobody looks on.
    """

    id: int
    session: PersonaSession
    messages: Sequence[Message]
    answered: Message
    channel: Channel
    life: Life
    lease: int | None = None
    observed: ObservedTurn | None = None

    @property
    def store(self) -> Store:
        """The store that records the turn."""
        return self.session.shared.store


_LOOKING_ON = foreign("what looks on at turns")


def tell_observers(observers: Sequence[Observer], form: dict[str, Any]) -> None:
    """Tell each observer of an event. One that breaks keeps nobody else from being told."""
    for observer in observers:
        try:
            with _LOOKING_ON:
                observer(form)
        except PixiError:
            pass  # it is in the log


def prompt_template(*, small: bool) -> str:
    """Read the text round a persona's own prompt, for `pixi.core.prompt.prefix` to fill in."""
    return template("small.md" if small else "large.md")


@cache
def template(name: str) -> str:
    """Read a text that models are shown."""
    return resources.files("pixi.engine").joinpath("templates", name).read_text("utf-8").strip()
