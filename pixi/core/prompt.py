"""What a model is told: the static prefix of a conversation, and each new user line, stamped once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """A command's line in the prompt. `argument` is "" where it takes none."""

    name: str
    argument: str
    description: str
