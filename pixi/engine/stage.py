"""What all conversations of an engine share: who speaks, on which model, with what, within which limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pixi.core.limits import Limits
from pixi.core.lines import Line, UserLine
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.prompt import prefix, stamp
from pixi.core.reading import ProsePolicy
from pixi.engine.repertoire import Repertoire, repertoire_of
from pixi.engine.templates import template
from pixi.models.model import Model
from pixi.store.store import Store
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox

_PREFIXES = 128  # kept, one for each person that was talked to


def local_now() -> datetime:
    """The time, where this computer is."""
    return datetime.now().astimezone()


@dataclass(slots=True)
class Stage:
    """The parts that an engine was given. `store` is open."""

    model: Model
    persona: Persona
    store: Store
    commands: CommandRegistry
    toolbox: Toolbox
    limits: Limits
    prose: ProsePolicy
    gather_seconds: float
    clock: Callable[[], datetime]
    _repertoire: Repertoire | None = None
    _registered: tuple[int, int] = (0, 0)
    _prefixes: dict[str, tuple[Line, ...]] = field(default_factory=dict)

    @property
    def repertoire(self) -> Repertoire:
        """The persona's commands and tools, of those registered by now.

        Raises:
            ConfigError: the persona names one that is not registered.
        """
        registered = (len(self.commands), len(self.toolbox))
        if self._repertoire is None or self._registered != registered:
            small = self.model.traits.small
            self._repertoire = repertoire_of(self.persona, self.commands, self.toolbox, small=small)
            self._registered = registered
            self._prefixes.clear()
        return self._repertoire

    def prefix(self, message: Message) -> tuple[Line, ...]:
        """The static lines before the history of the conversation that this message was written in."""
        commands = self.repertoire.help
        # In a group the prefix names nobody: it would change with each who speaks.
        person = "" if message.group else message.author.name
        if person not in self._prefixes:
            if len(self._prefixes) >= _PREFIXES:
                self._prefixes.clear()
            small = self.model.traits.small
            self._prefixes[person] = prefix(
                template(small=small), self.persona, commands, person=person, small=small
            )
        return self._prefixes[person]

    def stamp(self, messages: Sequence[Message]) -> UserLine:
        """The user line of messages that are to be answered now."""
        several = len({message.author.id for message in messages}) > 1
        group = several or any(message.group or not message.addressed for message in messages)
        return stamp(messages, local_time=self.clock(), small=self.model.traits.small, group=group)
