"""The static prefix of a model's prompt: the persona, its commands and its examples."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from pixi.core.language import BUILT_IN, NOTE, REACT, SEND
from pixi.core.llm import AssistantLine, Line, SystemLine, UserLine
from pixi.core.persona import Example, Persona
from pixi.core.reading import read_again, written
from pixi.core.untrusted import prompt_name, quoted

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_SMALL_EXAMPLES = 4
_SMALL_EXAMPLE_CHARACTERS = 180
_SMALL_PERSONA_CHARACTERS = 400

_LANGUAGES = {
    "ar": "Arabic", "bn": "Bengali", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew",
    "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip

_SILENCE = (
    "To say nothing is a good answer where none is needed: then send nothing. A note or a reaction may stand "
    "alone, and `[SEND]` stands for silence."
)
_MUST_SEND = "Every reply of yours sends at least one message."


class CommandHelp(Struct, frozen=True):
    """A command's line in the prompt. `argument` is "" where it takes none; `choices`: all that it can be."""

    name: str
    argument: str
    description: str
    choices: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The name as a model writes it: in capitals, where those lead back to it."""
        capitals = self.name.upper()
        return capitals if capitals.lower() == self.name else self.name

    @property
    def form(self) -> str:
        """Return how the command is written, e.g. `[SEND: message]`."""
        return f"[{self.shown}: {self.argument}]" if self.argument else f"[{self.shown}]"

    @property
    def told(self) -> str:
        """Return what the command does, and what there is to choose from."""
        return f"{self.description}: {', '.join(self.choices)}" if self.choices else self.description


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in for `{{name}}`, in a single pass: what was put in is never looked at again.

    Names without a value stay as they are written.
    """
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def prefix(
    template: str,
    persona: Persona,
    commands: Sequence[CommandHelp],
    *,
    person: str,
    small: bool,
    unserved: Collection[str] = (),
    instructions: str = "",
) -> tuple[Line, ...]:
    """Return the lines before the history, the same to the byte for the same arguments.

    Args:
        template: the text round the persona. A paragraph of it whose placeholder has no value is left out.
        person: the name of whom it talks to, a stranger's word; "" in a group, where messages are told by
            their numbers.
        small: a short system line and a few examples as turns, instead of all in one system line.
        unserved: commands that it has elsewhere: their lines are taken out of the examples.
        instructions: stand behind the persona's own prompt, as they are; a small model is not shown them.
    """
    names = {"user": prompt_name(person) or "somebody", "char": persona.name, "persona": persona.name}
    served = [Example(e.said, _without(e.reply, unserved)) for e in persona.examples]
    examples = [Example(fill(e.said, names), fill(e.reply, names)) for e in served if e.reply]
    if small:
        values = {
            "name": persona.name,
            "in_short": fill(" ".join(persona.in_short.split()) or _first_paragraph(persona.prompt), names),
            "commands": ", ".join(c.form for c in commands if c.name not in BUILT_IN),
        }
        return (SystemLine(_written_out(template, values)), *_turns(persona, examples, commands))
    values = {
        "name": persona.name,
        "prompt": f"{fill(persona.prompt, names).strip()}\n\n{instructions}".strip(),
        "commands": "\n".join(f"- {c.form} {c.told}" for c in commands),
        "silence": _SILENCE if persona.silence else "",
        "must_send": "" if persona.silence else _MUST_SEND,
        "language": _told_language(persona.language),
        "likes": f"You love {', '.join(persona.likes)}." if persona.likes else "",
        "by_number": "" if person else _by_number(commands),
        "examples": "\n\n".join(f"{quoted(e.said)}\n{e.reply.strip()}" for e in examples),
    }
    return (SystemLine(_written_out(template, values)),)


def _without(reply: str, unserved: Collection[str]) -> str:
    """Return an example's reply without the lines of some commands."""
    if not unserved:
        return reply
    names = "|".join(map(re.escape, sorted(unserved)))
    return re.sub(rf"(?im)^[ \t]*\[[ \t]*(?:{names})\b[^\n]*(?:\n|\Z)", "", reply).strip()


def _written_out(template: str, values: Mapping[str, str]) -> str:
    paragraphs = template.strip().split("\n\n")
    return "\n\n".join(
        fill(paragraph, values)
        for paragraph in paragraphs
        if all(values.get(name, "-") for name in _PLACEHOLDER.findall(paragraph))
    )


def _first_paragraph(prompt: str) -> str:
    """Return the first paragraph that is no heading, cut at a sentence's end where it is long."""
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", prompt) if not p.lstrip().startswith("#"))
    text = next((p for p in paragraphs if p), "")
    if len(text) <= _SMALL_PERSONA_CHARACTERS:
        return text
    text = text[:_SMALL_PERSONA_CHARACTERS]
    return text[: max(map(text.rfind, ".!?。！？")) + 1] or text


def _by_number(commands: Iterable[CommandHelp]) -> str:
    """Return what the command can do to an earlier message; "" where it can do nothing."""
    names = {c.name for c in commands}
    told = ["`[REACT #3: 😂]` puts a reaction on that message"] if REACT in names else []
    if SEND in names:
        # A command of an addon may have taken the alias for its name.
        told.append(f"`[{'SEND' if 'reply' in names else 'REPLY'} #3: …]` replies to it")
    return f"{' and '.join(told)}." if told else ""


def _told_language(tag: str) -> str:
    language = _LANGUAGES.get(tag.partition("-")[0].lower(), f"the language `{tag}`")
    return f"You write {language}, unless somebody speaks to you in another language: then you use theirs."


def _turns(persona: Persona, examples: Iterable[Example], commands: Sequence[CommandHelp]) -> list[Line]:
    """Return a few examples as turns, in the form in which small models follow them best.

    The bundled model was tried with each: with notes in its examples it answers its own note instead of the
    person, and lower-case sentences without full stops make it babble. So the notes are left out, and
    messages are whole sentences. Examples in which nothing is said teach it to say nothing ever.
    """
    names = {c.name: BUILT_IN.get(c.name, ()) for c in commands}
    lines: list[Line] = []
    for example in examples:
        acts = [(act.name, act.argument) for act in read_again(example.reply, names) if act.name != NOTE]
        tidy = [(name, _sentences(said, persona) if name == SEND else said) for name, said in acts]
        reply = "\n".join(written(name, argument, names) for name, argument in tidy)
        if any(name == SEND for name, _ in acts) and len(reply) <= _SMALL_EXAMPLE_CHARACTERS:
            lines += [UserLine(example.said.strip()), AssistantLine(reply)]
        if len(lines) == 2 * _SMALL_EXAMPLES:
            break
    return lines


def _sentences(text: str, persona: Persona) -> str:
    """Return a message with capitals and full stops."""
    text = re.sub(r"(^|[.!?]\s+)(\w)", lambda found: found[1] + found[2].upper(), text.strip())
    text = re.sub(rf"\b{re.escape(persona.name)}\b", lambda _: persona.name, text, flags=re.IGNORECASE)
    if persona.language.startswith("en"):
        text = re.sub(r"\bi\b(?![.-])", "I", text)
    if text and text[-1].isalnum():
        text += "。" if text[-1] >= "\u3000" else "."
    return text
