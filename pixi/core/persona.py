"""What a persona is, whatever file it came from."""

from dataclasses import dataclass
from typing import Literal

Pace = Literal["off", "brisk", "human"]

_TO_LEFT = " ar arc azb ckb dv fa glk he iw ji ks lrc mzn nqo ps pnb prs sd syr ug ur yi "
_SCRIPTS_TO_LEFT = " adlm arab hebr mand nkoo rohg samr syrc thaa "

PLACEHOLDERS = ("user", "char")
"""What may stand between double braces in a persona's texts: who is answered, and its own name."""


@dataclass(frozen=True, slots=True)
class Example:
    """One exchange that shows the persona's habits: what somebody says, and the raw reply to it."""

    said: str
    reply: str


@dataclass(frozen=True, slots=True)
class Persona:
    """A character.

    Attributes:
        name: as others see it.
        prompt: who the character is, in Markdown, without the examples.
        about: one line for lists.
        in_short: two or three sentences for small models; empty: the first paragraph of `prompt`.
        summon: words that address it besides its name.
        language: BCP 47 tag of the language it speaks by itself.
        likes: things it loves, told to the model.
        databases, tools: names it may use; none unless named.
        commands: names it may use; None means all that are registered.
        confirm: names of tools that it uses only once the person who asks said yes.
        tool_steps: rounds in one turn in which it may use tools; None: as many as the limits allow.
        pace: how fast its messages follow each other in a chat with people.
        silence: whether saying nothing is a legal answer.
        when_broken: what it says, in character, when its model fails.
        when_tired: what it says, in character, when it may answer no more that day.
        when_foreign: what it says, in character, where its model does not know its language.
        examples: exchanges in the command language.
        avatar: its picture: the path of a file, or an https address; empty: none.
        origin: where it came from, for error texts and lists.
    """

    name: str
    prompt: str
    about: str = ""
    in_short: str = ""
    summon: tuple[str, ...] = ()
    language: str = "en"
    likes: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] | None = None
    confirm: tuple[str, ...] = ()
    tool_steps: int | None = None
    pace: Pace = "brisk"
    silence: bool = True
    when_broken: tuple[str, ...] = ()
    when_tired: tuple[str, ...] = ()
    when_foreign: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    avatar: str = ""
    origin: str = ""

    @property
    def direction(self) -> Literal["ltr", "rtl"]:
        """In which direction its language is written."""
        language, *parts = self.language.lower().replace("_", "-").split("-")
        script = next((part for part in parts if len(part) == 4 and part.isalpha()), "")
        to_left = f" {script} " in _SCRIPTS_TO_LEFT if script else f" {language} " in _TO_LEFT
        return "rtl" if to_left else "ltr"
