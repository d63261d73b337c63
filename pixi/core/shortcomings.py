"""What a model cannot do for a persona, in words for people."""

from collections.abc import Collection

from pixi.core.persona import Persona

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
    """Tell in one line what a tiny model does without, and what it does instead; "" for a larger one."""
    if not small:
        return ""
    looks = f"; when asked, it quotes {', '.join(persona.databases)}" if persona.databases else ""
    return f"a tiny model: no tools, no notes, no memory of people{looks}"


def speaks_unknown(persona: Persona, known: Collection[str]) -> bool:
    """Return True where the persona's language is none of those that a model knows, by their codes."""
    return _code(persona.language) not in known


def on_bundled(persona: Persona, known: Collection[str]) -> str:
    """Tell in one line what a persona does without on the bundled model, which knows some languages."""
    language = f"; it does not know {persona.language}" if speaks_unknown(persona, known) else ""
    return f"on the bundled model: {shortcomings(persona, small=True)}{language}"


def foreign_words(persona: Persona) -> str:
    """Give what it says where its model does not know its language: its own words, or some in it."""
    if persona.when_foreign:
        return persona.when_foreign[0]
    return _FOREIGN.get(_code(persona.language)) or _FOREIGN_TOLD.format(f"“{persona.language}”")


def _code(language: str) -> str:
    return language.partition("-")[0].casefold()
