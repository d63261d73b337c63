"""How an MCP server is doing, as one of a few plain values."""

from dataclasses import dataclass

from pixi.mcp.offers import ForeignTool


@dataclass(frozen=True, slots=True)
class Starting:
    """It is being started or reached, for the first time or again."""


@dataclass(frozen=True, slots=True)
class Ready:
    """It can be called.

    Attributes:
        tools: those that may be offered.
        changed: those that wait for an operator's consent, as they are not what was approved.
    """

    tools: tuple[ForeignTool, ...]
    changed: tuple[ForeignTool, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """It is not started before an operator has seen to it. `why`: a sentence that says how."""

    why: str


@dataclass(frozen=True, slots=True)
class Broken:
    """It could not be started, or is gone.

    Attributes:
        why: a part of a sentence.
        again_at: when it is tried again, on the loop's clock.
    """

    why: str
    again_at: float


@dataclass(frozen=True, slots=True)
class Closed:
    """It was closed, for good."""


State = Starting | Ready | Waiting | Broken | Closed
