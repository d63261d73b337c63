"""Where a text denies: Persian verbs with their prefix, and scripts without blanks between words."""

import re
from collections.abc import Iterator
from functools import cache

from pixi.knowledge.lists import word_list
from pixi.knowledge.normalising import normalise

_CHINESE = re.compile(
    # Words in which the character denies nothing; they are passed over.
    r"(?P<other>不仅|不但|不只|不单|不同|不过|不断|不久|不少|不论|不管|不得不|不料|不禁|不等|不列颠|差不多|来不及|对不起"
    r"|了不起|不丹|不锈|不倒翁|未来|未婚|无论|无线|无数|无锡|无疑|非常|非洲|除非|南非|北非|西非|东非|是非|没收|淹没|沉没|埋没|出没|莫斯|莫扎|萨莫"
    r"|是否|能否|可否|勿忘我)|(?P<denies>不|没有|没|未|无|非|毫无|勿|莫|否认|并非|从未|缺乏|拒绝|"
    # Japanese and Thai.
    r"ない|なかった|ません|なく|ずに|ไม่|มิ)"
)


def positive_form(word: str) -> str | None:
    """A Persian verb in normal form without the prefix that denies it; None where there is none."""
    if word in _to_be():
        return _to_be()[word]
    denied = _denied_verb().fullmatch(word)
    return None if denied is None else (denied["present"] or "") + denied["stem"]


@cache
def _to_be() -> dict[str, str]:
    forms = {"نیست": "است", "نیستند": "هستند", "نیستم": "هستم"}
    return {normalise(denied): normalise(said) for denied, said in forms.items()}


@cache
def _denied_verb() -> re.Pattern[str]:
    stems = "|".join(sorted(word_list("persian_verbs"), key=len, reverse=True))
    return re.compile(rf"ن(?P<present>م[يی])?ي?(?P<stem>(?:{stems})(?:ه|م|ي|د|يم|يد|ند|ست|است)?)")


def denials(run: str) -> Iterator[tuple[int, int]]:
    """Where a run of text without blanks, in simplified characters, denies."""
    for found in _CHINESE.finditer(run):
        if found.lastgroup == "denies":
            yield found.span()
