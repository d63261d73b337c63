"""Where a talk takes place, who may hear it, and what somebody may do there."""

from dataclasses import dataclass
from typing import Literal

Audience = Literal["one", "some", "all"]


@dataclass(frozen=True, slots=True)
class Venue:
    """The place of a conversation, as far as it decides what may be said there.

    Attributes:
        guild: the community that it belongs to, unique over all platforms, e.g. `discord:123`; "" for none.
        audience: who reads it: `one` person (a DM, a terminal), `some` members of the guild (a private
            channel or a group DM), or `all` of them.
        channel: unique over all platforms, e.g. `discord:456`; a thread counts to the one it hangs on.
            "": each conversation is a place by itself.
    """

    guild: str = ""
    audience: Audience = "one"
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a person may do in a place, by what the platform and the settings say at this moment.

    Attributes:
        manager: manages the guild (Discord: Manage Server), or is an operator.
        operator: governs the bot everywhere: an admin of the settings, or whoever sits at the terminal.
    """

    manager: bool = False
    operator: bool = False
