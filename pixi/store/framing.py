"""Notes how the first request of a turn was framed, as far as its history does not tell: digests, and no
words.

By the note can be said for certain later whether a request that is made again is the one that was sent.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Self

from msgspec import Struct, field

from pixi.core.conversation import Bounds
from pixi.core.llm import AssistantLine, Line, ToolLine, ToolSchema, UserLine
from pixi.core.message import Abilities


class Framing(Struct, frozen=True):
    """A note of how the first request of a turn was framed.

    Attributes:
        prefix, history, said, tools: digests of the static lines, of the window with the summary before it,
            of the line that is answered, and of the tools' descriptions.
        offered: names of those tools.
        first_turn: with which the window began; `notes_from` the first turn whose notes it showed.
        abilities: what the place could do.
        limits: names of the limits that the turn reached, e.g. `messages`.
    """

    prefix: str
    history: str
    said: str
    tools: str
    offered: tuple[str, ...] = ()
    first_turn: int = 0
    notes_from: int = 0
    abilities: Abilities = field(default=Abilities())
    limits: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        prefix: Iterable[Line],
        history: Iterable[Line],
        said: UserLine,
        tools: Sequence[ToolSchema],
        *,
        bounds: Bounds,
        abilities: Abilities,
    ) -> Self:
        """Take note of a request that is about to be sent."""
        return cls(
            prefix=digest_of(prefix),
            history=digest_of(history),
            said=digest_of([said]),
            tools=digest_of_tools(tools),
            offered=tuple(tool.name for tool in tools),
            first_turn=bounds.first_turn,
            notes_from=bounds.notes_from,
            abilities=abilities,
        )


def digest_of(lines: Iterable[Line]) -> str:
    """Return a short word that is the same only for the same lines. Pictures count by their sizes."""
    digest = hashlib.blake2b(digest_size=12)
    for line in lines:
        parts = [type(line).__name__, line.text]
        match line:
            case AssistantLine(calls=calls):
                parts += [part for call in calls for part in (call.id, call.name, call.arguments)]
            case ToolLine(call_id, name, _, images):
                parts += [call_id, name, *(f"{each.media_type} {len(each.data)}" for each in images)]
            case UserLine(_, images):
                parts += [f"{each.media_type} {len(each.data)}" for each in images]
            case _:
                pass
        for part in parts:
            told = part.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(told))
            digest.update(told)
        digest.update(b";")
    return digest.hexdigest()


def digest_of_tools(tools: Iterable[ToolSchema]) -> str:
    """Return the same for the descriptions of tools."""
    digest = hashlib.blake2b(digest_size=12)
    for tool in tools:
        told = f"{tool.name}\n{tool.description}\n{tool.parameters}\n"
        digest.update(told.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
