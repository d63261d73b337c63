"""Personas, and what they cannot do on a model as small as the bundled one."""

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

Pace = Literal["off", "brisk", "human"]
PaceSetting = Literal["persona", "off", "brisk", "human"]
"""Pace of messages: the persona's own, or one for all."""

_TO_LEFT = " ar arc azb ckb dv fa glk he iw ji ks lrc mzn nqo ps pnb prs sd syr ug ur yi "
_SCRIPTS_TO_LEFT = " adlm arab hebr mand nkoo rohg samr syrc thaa "

PLACEHOLDERS = ("user", "char")
"""Names allowed between double braces in a persona's texts: who is answered, and its own name."""


class Example(Struct, frozen=True):
    """An exchange that shows the persona's habits: what somebody says, and the raw reply to it."""

    said: str
    reply: str


class Persona(Struct, frozen=True):
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
        """Direction of writing of its language."""
        language, *parts = self.language.lower().replace("_", "-").split("-")
        script = next((part for part in parts if len(part) == 4 and part.isalpha()), "")
        to_left = f" {script} " in _SCRIPTS_TO_LEFT if script else f" {language} " in _TO_LEFT
        return "rtl" if to_left else "ltr"


_FOREIGN = {
    "de": "Ich spreche Deutsch, aber das kleine Modell hier kann es nicht. Schreib mir auf Englisch.",
    "es": "Aquí hablo español, pero el modelo pequeño que me mueve no lo sabe. Escríbeme en inglés.",
    "fr": "Ici je parle français, mais le petit modèle qui me porte ne le connaît pas. Écris-moi en anglais.",
    "ja": "日本語で話したいのですが、この小さなモデルは日本語がわかりません。英語で書いてください。",
    "pt": "Aqui eu falo português, mas o modelo pequeno em que rodo não sabe. Escreva para mim em inglês.",
    "zh": "我本来讲中文，可眼下用的小模型不懂中文。请用英文跟我说。",
}
_FOREIGN_TOLD = "I speak {} here, but the small model that I run on does not know it. Write to me in English."


def shortcomings(persona: Persona, *, small: bool) -> str:
    """Write in one line what a tiny model lacks, and what it does instead; "" for a larger one."""
    if not small:
        return ""
    looks = f"; when asked, it quotes {', '.join(persona.databases)}" if persona.databases else ""
    return f"a tiny model: no tools, no notes, no memory of people{looks}"


def speaks_unknown(persona: Persona, known: Collection[str]) -> bool:
    """Return True if the persona's language is none of those that a model knows, by their codes."""
    return _code(persona.language) not in known


def on_bundled(persona: Persona, known: Collection[str]) -> str:
    """Write in one line what a persona lacks on the bundled model, which knows some languages."""
    language = f"; it does not know {persona.language}" if speaks_unknown(persona, known) else ""
    return f"on the bundled model: {shortcomings(persona, small=True)}{language}"


def foreign_words(persona: Persona) -> str:
    """Return the words of a persona whose model does not know its language: its own, or usual ones in it."""
    if persona.when_foreign:
        return persona.when_foreign[0]
    return _FOREIGN.get(_code(persona.language)) or _FOREIGN_TOLD.format(f"“{persona.language}”")


def _code(language: str) -> str:
    return language.partition("-")[0].casefold()
