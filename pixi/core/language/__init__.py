"""The inline command language: a reply's text in, in any pieces, events out.

`reader` holds the parser, `states` its theory and the text that it rewinds. The words and tags of the
language are in `vocabulary`.
"""

from pixi.core.language.events import (
    BUILT_IN,
    NOTE,
    REACT,
    SEND,
    CommandEnded,
    CommandStarted,
    CommandText,
    Event,
    Planned,
    Prose,
    Thought,
    ToolCallEnded,
)
from pixi.core.language.reader import CommandStream
from pixi.core.language.states import BREAK, unbroken

__all__ = [
    "BREAK",
    "BUILT_IN",
    "NOTE",
    "REACT",
    "SEND",
    "CommandEnded",
    "CommandStarted",
    "CommandStream",
    "CommandText",
    "Event",
    "Planned",
    "Prose",
    "Thought",
    "ToolCallEnded",
    "unbroken",
]
