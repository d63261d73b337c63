"""The tags of a reply that are no commands: reasoning, tool calls, and a model's special tokens."""

import re
from dataclasses import dataclass
from typing import Final, Literal

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


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag as it stands in the text. `end`: the reply is over. `special`: it means nothing to us."""

    kind: Kind
    text: str

    @property
    def tool(self) -> str:
        """The tool that a `<tool-call …>` names; "" where it names none."""
        match = _TOOL_NAME.search(self.text)
        return next((name for name in match.groups() if name is not None), "").strip() if match else ""


def tag_at(text: str, at: int, final: bool) -> Tag | Literal["more"] | None:
    """The tag at `text[at]`, which is a `<`; `more` where the text ends inside what may be one."""
    match = _TAG.match(text, at, at + _LONGEST)
    if match is not None:
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are named as the kinds
        return Tag(kind, match[0])
    if final or len(text) - at >= _LONGEST:
        return None
    rest = text[at:]
    if _UNFINISHED.fullmatch(rest) or any(word.startswith(rest.lower()) for word in _WORDS):
        return "more"
    return None
