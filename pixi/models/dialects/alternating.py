"""The lines of a prompt as two sides that speak in turn, for providers that want a talk so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from pixi.core.llm import AssistantLine, Line, Request, SystemLine, ToolCall, ToolLine, UserLine
from pixi.core.message import Image
from pixi.models.dialects.prompt import JsonObject, text_call, text_result, unseen, with_tools_told

Piece = str | Image | ToolCall | ToolLine

_BEFORE = "(The talk began before this.)"


@dataclass(frozen=True, slots=True)
class Side:
    """What one side says until the other speaks: never nothing, and no text of it is empty.

    Of calls and results there are only those that belong together: the results stand first on the side
    that follows the calls. Any others are told in words.
    """

    role: Literal["user", "model"]
    pieces: tuple[Piece, ...]

    @property
    def calls(self) -> list[ToolCall]:
        """The calls among the pieces."""
        return [piece for piece in self.pieces if isinstance(piece, ToolCall)]

    @property
    def results(self) -> list[ToolLine]:
        """The results among the pieces."""
        return [piece for piece in self.pieces if isinstance(piece, ToolLine)]


@dataclass(frozen=True, slots=True)
class AlternatingTurns:
    """A prompt: what stands before the talk, and its sides in turn. The first of them is the user's."""

    system: str
    sides: tuple[Side, ...]


def talk_of(request: Request, form: Literal["native", "text", "off"], *, vision: bool) -> AlternatingTurns:
    """The talk that the lines of a request amount to.

    Args:
        form: where it is not `native`, calls and results of the past are written in the text form.
        vision: pictures are shown; otherwise it is said that there was one.
    """
    lines: Sequence[Line] = request.lines
    if form == "text" and request.tools:
        lines = with_tools_told(lines, request.tools)
    begins = next((at for at, line in enumerate(lines) if not isinstance(line, SystemLine)), len(lines))
    system = "\n\n".join(line.text for line in lines[:begins] if isinstance(line, SystemLine))
    sides = _joined(lines[begins:], native=form == "native", vision=vision)
    if not sides or sides[0].role == "model":
        sides.insert(0, Side("user", (_BEFORE,)))
    return AlternatingTurns(whole(system), tuple(_matched(sides)))


def object_in(arguments: str) -> JsonObject:
    """Return the arguments of a call as an object, for providers that take nothing else."""
    try:
        fields = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        fields = None
    return fields if isinstance(fields, dict) else {"not_an_object": whole(arguments)}


def whole(text: str) -> str:
    """Return a text as it can be sent: half a surrogate pair has no UTF-8, and is shown as U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _joined(lines: Sequence[Line], *, native: bool, vision: bool) -> list[Side]:
    sides: list[Side] = []
    for line in lines:
        role: Literal["user", "model"] = "model" if isinstance(line, AssistantLine) else "user"
        pieces = tuple(_pieces(line, native=native, vision=vision))
        if not pieces:
            continue
        if sides and sides[-1].role == role:
            sides[-1] = replace(sides[-1], pieces=(*sides[-1].pieces, *pieces))
        else:
            sides.append(Side(role, pieces))
    return sides


def _pieces(line: Line, *, native: bool, vision: bool) -> Iterator[Piece]:
    match line:
        case AssistantLine(text, calls):
            if text.strip():
                yield whole(text)
            yield from calls if native else (whole(text_call(call)) for call in calls)
        case ToolLine(images=images) if native:
            told = line.text if vision or not images else unseen(line.text, images)
            yield replace(line, text=whole(told), images=images if vision else ())
        case SystemLine(text):
            if text.strip():
                yield whole(text)
        case UserLine(images=images) | ToolLine(images=images):
            text = text_result(line) if isinstance(line, ToolLine) else line.text
            if images and not vision:
                text = unseen(text, images)
            if text.strip():
                yield whole(text)
            if vision:
                yield from images


def _matched(sides: Sequence[Side]) -> Iterator[Side]:
    """Yield the sides, with calls and results that lost each other in words: providers refuse such a talk."""
    asked: set[str] = set()
    for at, side in enumerate(sides):
        if side.role == "model":
            answered = {line.call_id for line in sides[at + 1].results} if at + 1 < len(sides) else set()
            asked = {call.id for call in side.calls} & answered
            yield replace(side, pieces=tuple(_with_calls_last(side.pieces, asked)))
        else:
            yield replace(side, pieces=tuple(_with_results_first(side.pieces, asked)))
            asked = set()


def _with_calls_last(pieces: Sequence[Piece], answered: set[str]) -> list[Piece]:
    told: list[Piece] = []
    calls: list[Piece] = []
    for piece in pieces:
        if not isinstance(piece, ToolCall):
            told.append(piece)
        elif piece.id in answered:
            calls.append(piece)
        else:
            told.append(text_call(piece))
    return told + calls


def _with_results_first(pieces: Sequence[Piece], asked: set[str]) -> list[Piece]:
    results: list[Piece] = []
    told: list[Piece] = []
    for piece in pieces:
        if not isinstance(piece, ToolLine):
            told.append(piece)
        elif piece.call_id in asked:
            results.append(piece)
        else:
            told += [text_result(piece), *piece.images]
    return results + told
