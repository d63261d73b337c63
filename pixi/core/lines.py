"""The lines of a prompt: what a model is shown, frozen to the byte once written."""

from dataclasses import dataclass

from pixi.core.message import Image


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call that a model asked for. `arguments` is the JSON text as it came, not yet checked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class SystemLine:
    """The static prefix: persona, commands, rules."""

    text: str


@dataclass(frozen=True, slots=True)
class UserLine:
    """What people wrote since the last reply, stamped once with who and when."""

    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantLine:
    """What the persona did, as clean commands, and the tools it asked for in that round."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolLine:
    """The answer to one call. `images` are pictures that the tool brought, for models that see."""

    call_id: str
    name: str
    text: str
    images: tuple[Image, ...] = ()


Line = SystemLine | UserLine | AssistantLine | ToolLine
