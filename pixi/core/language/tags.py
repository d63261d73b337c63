"""The tags of a reply that are no commands: reasoning, tool calls, and a model's special tokens."""

import json
import re
from typing import Final, Literal, NamedTuple

from pixi.core.language.states import NEED_MORE, NeedMore

Kind = Literal["think", "end_think", "tool", "end", "special"]

_END: Final = (
    r"</s>|<eos>|<end_of_turn>|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\|end\|>|<\|endoftext\|>"
    r"|<\|end_of_text\|>|<\|end_of_turn\|>|<｜end▁of▁sentence｜>"
)
_TAG: Final = re.compile(
    rf"(?P<end>{_END})|(?P<special><[|｜][\w▁-]{{1,32}}[|｜]>|<s>|<bos>|<pad>|<unk>|<start_of_turn>)"
    r"|(?P<think><think(?:ing)?\s{0,4}>)|(?P<end_think></think(?:ing)?\s{0,4}>)"
    r"|(?P<tool><tool-call\b[^<>]{0,200}>)",
    re.IGNORECASE,
)
_WORDS: Final = (
    "</s>",
    "<s>",
    "<bos>",
    "<pad>",
    "<unk>",
    "<eos>",
    "<end_of_turn>",
    "<start_of_turn>",
    "<think>",
    "<thinking>",
    "</think>",
    "</thinking>",
    "<tool-call",
)
_UNFINISHED: Final = re.compile(
    r"<[|｜][\w▁-]{0,32}[|｜]?|</?think(?:ing)?\s{0,4}|<tool-call\b[^<>]{0,200}", re.IGNORECASE
)
_LONGEST: Final = 216
_TOOL_NAME: Final = re.compile(
    r"""\b(?:tool|name)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'/>]+))""", re.IGNORECASE
)

END_THINK: Final = re.compile(r"</think(?:ing)?\s{0,4}>", re.IGNORECASE)
END_TOOL: Final = re.compile(r"</tool-call\s{0,4}>", re.IGNORECASE)
_LONGEST_END: Final = "</tool-call    >"
_BLANK: Final = re.compile(r"\s")
_BLANKS: Final = re.compile(r"\s*")


class Tag(NamedTuple):
    """A tag as it stands in the text. `end`: the reply is over. `special`: it means nothing to us."""

    kind: Kind
    text: str

    @property
    def tool(self) -> str:
        """The tool that a `<tool-call …>` names; "" where it names none."""
        match = _TOOL_NAME.search(self.text)
        return next((name for name in match.groups() if name is not None), "").strip() if match else ""


def tag_at(text: str, at: int, final: bool) -> Tag | NeedMore | None:
    """Return the tag at `text[at]`, which is a `<`; None where it is only text."""
    match = _TAG.match(text, at, at + _LONGEST)
    if match is not None:
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are named as the kinds
        return Tag(kind, match[0])
    if final or len(text) - at >= _LONGEST:
        return None
    rest = text[at:]
    begun = _UNFINISHED.fullmatch(rest) or any(word.startswith(rest.lower()) for word in _WORDS)
    return NEED_MORE if begun else None


def end_of_thought_begun(text: str, at: int) -> int:
    """Return where the text may end in the beginning of a `</think>`; its length where it does not."""
    tag = text.rfind("<", max(at, len(text) - 16))
    return tag if tag >= 0 and tag_at(text, tag, final=False) is NEED_MORE else len(text)


def end_of_tool_begun(text: str, at: int) -> int:
    """Return where the text may end in the beginning of a `</tool-call>`; its length where it does not."""
    tag = text.rfind("<", max(at, len(text) - len(_LONGEST_END)))
    begun = tag >= 0 and _LONGEST_END.startswith(_BLANK.sub(" ", text[tag:].lower()))
    return tag if begun else len(text)


def json_end(text: str, at: int) -> int:
    """Return where the JSON value at `text[at]` ends; the end of the text where there is none."""
    blank = _BLANKS.match(text, at)
    try:
        return json.JSONDecoder().raw_decode(text, blank.end() if blank else at)[1]
    except (ValueError, RecursionError):
        return len(text)
