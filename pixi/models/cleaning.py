"""Cleans a request of control words before its body is made: the one place, whatever the API.

Each line is cleaned by itself, and the same way each time: so the next request is the one before plus a tail.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from pixi.core.deltas import Request, ToolSchema
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolCall, ToolLine, UserLine

Break = Callable[[str], str]
"""Breaks the control words in a text, as `pixi.core.control_words.broken` does."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def cleaned(request: Request, broken: Break) -> Request:
    """Break the control words in a request, whoever wrote them: people, tools, the model itself.

    What a server handed out sealed (see `ProviderState`) is no part of a request, and goes back as it came.
    """
    lines = tuple(_line(line, broken) for line in request.lines)
    return replace(request, lines=lines, tools=tuple(_tool(tool, broken) for tool in request.tools))


def _line(line: Line, broken: Break) -> Line:
    match line:
        case SystemLine(text):
            return SystemLine(broken(text))
        case UserLine(text, images):
            return UserLine(broken(text), images)
        case AssistantLine(text, calls):
            return AssistantLine(broken(text), tuple(_call(call, broken) for call in calls))
        case ToolLine(call_id, name, text, images):
            return ToolLine(broken(call_id), broken(name), broken(text), images)
        case _:
            assert_never(line)


def _call(call: ToolCall, broken: Break) -> ToolCall:
    """Clean a call of the past. Some models write the ids of their calls themselves: they are text too."""
    return ToolCall(broken(call.id), broken(call.name), _arguments(call.arguments, broken))


def _arguments(arguments: str, broken: Break) -> str:
    """Return arguments with the same meaning.

    A server reads escapes too, in which a word may hide: `\\u003c/s>`.
    """
    plain = _ESCAPE.sub(_written_out, arguments) if "\\" in arguments else arguments
    clean = broken(plain)
    return arguments if clean == plain else clean


def _written_out(escape: "re.Match[str]") -> str:
    """Return the character that an escape of JSON stands for, where it may stand in a text by itself."""
    if escape[0] == r"\/":
        return "/"
    character = chr(int(escape[1], 16)) if escape[1] else ""
    return character if character.isprintable() and character not in ("", '"', "\\") else escape[0]


def _tool(tool: ToolSchema, broken: Break) -> ToolSchema:
    parameters = json.dumps(tool.parameters, ensure_ascii=False)
    clean = broken(parameters)  # nothing but a text in it can hold a word
    return ToolSchema(
        broken(tool.name),
        broken(tool.description),
        tool.parameters if clean == parameters else json.loads(clean),
    )
