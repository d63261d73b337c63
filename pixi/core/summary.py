"""What is remembered of turns that fell out of the window: what a helper is told of them, and what it said.

All of it is strangers' text: of people, and of a model that read what they wrote. So every line of theirs is
quoted, in what the helper is told and where its summary stands in the persona's prompt.
"""

import re
from collections.abc import Iterable, Sequence

from pixi.core.lines import AssistantLine, Line, UserLine
from pixi.core.tokens import estimate_text, without_middle
from pixi.core.untrusted import prompt_name, quoted

_HEAD = "you remember of what was said here before:"
_LONGEST_PART = 4_000  # characters of one line: what somebody pasted is not what happened between people
_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def summary_line(summary: str) -> UserLine:
    """The line that tells a persona what was said before its history."""
    return UserLine(f"{_HEAD}\n{quoted(summary)}")


def told(lines: Iterable[Line], persona: str) -> str:
    """What a turn left, for the helper. Calls of tools and their results are left out."""
    name = prompt_name(persona) or "the persona"
    parts = []
    for line in lines:
        match line:
            case UserLine(text, images):
                pictures = f", with {len(images)} pictures" if images else ""
                parts.append((f"to {name}{pictures}:", text))
            case AssistantLine(text):
                parts.append((f"from {name}:", text))
            case _:
                pass
    blocks = [(head, quoted(_shortened(text.strip()))) for head, text in parts]
    return "\n".join(f"{head}\n{text}" for head, text in blocks if text)


def question(before: str, portion: str) -> str:
    """What a helper is asked about: what was remembered so far, and what was said since."""
    known = f"remembered until now:\n{quoted(before)}\n\n" if before else ""
    return f"{known}said since then, oldest first:\n\n{portion}"


def portions(turns: Sequence[str], tokens: int, most: int) -> list[str]:
    """What turns left, put together in portions of so many tokens; where that makes too many, the latest."""
    packed: list[list[str]] = []
    room = 0
    for turn in reversed(turns):
        told = _beginning(turn, tokens - 1)
        size = estimate_text(told) + 1  # with what stands between it and the next
        if size > room:
            if len(packed) == most:
                break
            packed.append([])
            room = tokens
        packed[-1].append(told)
        room -= size
    return ["\n\n".join(reversed(portion)) for portion in reversed(packed)]


def as_summary(reply: str, tokens: int) -> str:
    """What a helper wrote, within so many tokens: whole lines, as far as they fit; "" for nothing."""
    kept: list[str] = []
    left = tokens
    for line in _REASONING.sub("", reply).strip().splitlines():
        size = estimate_text(line) + 1
        if size > left:
            kept += () if kept else (_beginning(line, left),)
            break
        kept.append(line.rstrip())
        left -= size
    return "\n".join(kept).strip()


def _shortened(text: str) -> str:
    """A line without its middle, where it is long: at its end stands what was asked last."""
    return text if len(text) <= _LONGEST_PART else without_middle(text, _LONGEST_PART // 2)


def _beginning(text: str, tokens: int) -> str:
    """As much of a text as fits."""
    while text and (size := estimate_text(text)) > tokens:
        text = text[: len(text) * max(tokens, 0) // size]
    return text
