"""How many tokens a prompt's lines have: estimated from their characters, since each model counts its own."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pixi.core.deltas import ToolSchema
from pixi.core.lines import AssistantLine, Line, ToolLine, UserLine

_ASCII_CHARACTERS_PER_TOKEN = 3.5  # English prose has some 4.3, commands and code fewer
_OTHER_TOKENS_PER_CHARACTER = 0.8  # Chinese has some 0.7, Cyrillic 0.4, emoji up to 3
_TOKENS_PER_LINE = 6  # what a chat template puts round a line
TOKENS_PER_IMAGE = 1_000
"""Some take fewer, few take more."""
_LEFT_OUT = "\n[… {} characters left out …]\n"


def estimate(line: Line) -> int:
    """Tokens of a line, estimated from its characters."""
    tokens = _TOKENS_PER_LINE + estimate_text(line.text)
    if isinstance(line, UserLine | ToolLine):
        tokens += TOKENS_PER_IMAGE * len(line.images)
    elif isinstance(line, AssistantLine):
        tokens += sum(_TOKENS_PER_LINE + estimate_text(call.name + call.arguments) for call in line.calls)
    return tokens


def estimate_all(lines: Iterable[Line]) -> int:
    """Tokens of lines, estimated."""
    return sum(map(estimate, lines))


def estimate_tools(tools: Sequence[ToolSchema]) -> int:
    """Tokens of the tools' descriptions, estimated."""
    return sum(estimate_text(f"{t.name}{t.description}{t.parameters}") for t in tools)


def estimate_text(text: str) -> int:
    """Tokens of a text by itself, estimated."""
    if text.isascii():
        return int(len(text) / _ASCII_CHARACTERS_PER_TOKEN) + 1
    ascii_characters = len(text.encode("ascii", "ignore"))
    others = len(text) - ascii_characters
    return int(ascii_characters / _ASCII_CHARACTERS_PER_TOKEN + others * _OTHER_TOKENS_PER_CHARACTER) + 1


def shortened(said: UserLine, tokens: float) -> UserLine:
    """Its beginning and its end, which hold who speaks and what is asked, within so many tokens."""
    images = said.images[: max(0, int(tokens) // (2 * TOKENS_PER_IMAGE))]
    rest = tokens - _TOKENS_PER_LINE - TOKENS_PER_IMAGE * len(images) - 16  # 16: the words in the gap
    share = min(1.0, max(rest, 0) / estimate_text(said.text))
    while True:
        half = int(len(said.text) * share / 2)
        shorter = replace(said, text=without_middle(said.text, half), images=images)
        if estimate(shorter) <= tokens or half == 0:
            return shorter
        share *= 0.9


def without_middle(text: str, half: int) -> str:
    """So many characters of its beginning and of its end, and how many were left out between them."""
    gap = _LEFT_OUT.format(len(text) - 2 * half)
    return f"{text[:half]}{gap}{text[-half:] if half else ''}"
