"""What a model is told: the static prefix of a conversation, and each new user line, stamped once.

What strangers wrote stands on lines that begin with `> `, and nothing else does. A name is one short line in
quotation marks. So no text and no name can pass for the stamp of somebody else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from pixi.core.language import BUILT_IN
from pixi.core.lines import AssistantLine, Line, SystemLine, UserLine
from pixi.core.message import Author, Message
from pixi.core.persona import Example, Persona
from pixi.core.written import read_again, written

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_LONGEST_NAME = 60
_SMALL_EXAMPLES = 4
_SMALL_EXAMPLE_CHARACTERS = 180
_SMALL_PERSONA_CHARACTERS = 400

# The tokens by which chat templates mark roles and ends, in the spellings of the common models. Servers
# that run a model themselves read them in anybody's text; a blank inside makes plain text of them.
_CONTROL_TOKEN = re.compile(
    r"<(?=[|｜])|<(?=/?s>)|<(?=(?:bos|eos|pad|unk)>)|<(?=(?:start|end)_of_\w+>)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])"
)

# Not from strftime: its names change with the process's locale, and the prompt with them.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

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


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """A command's line in the prompt. `argument` is "" where it takes none."""

    name: str
    argument: str
    description: str

    @property
    def shown(self) -> str:
        """The name as a model writes it: in capitals, where those lead back to it."""
        capitals = self.name.upper()
        return capitals if capitals.lower() == self.name else self.name

    @property
    def form(self) -> str:
        """How the command is written, e.g. `[SEND: message]`."""
        return f"[{self.shown}: {self.argument}]" if self.argument else f"[{self.shown}]"


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in for `{{name}}`, in a single pass: what was put in is never looked at again.

    Names without a value stay as they are written.
    """
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def prefix(
    template: str, persona: Persona, commands: Sequence[CommandHelp], *, person: str, small: bool
) -> tuple[Line, ...]:
    """The lines before the history, the same to the byte for the same persona, commands and person.

    Args:
        template: the text round the persona. A paragraph of it whose placeholder has no value is left out.
        person: the name of whom it talks to, a stranger's word.
        small: a short system line and a few examples as turns, instead of all in one system line.
    """
    names = {"user": _one_line(person) or "somebody", "char": persona.name, "persona": persona.name}
    examples = [Example(fill(e.said, names), fill(e.reply, names)) for e in persona.examples]
    if small:
        values = {
            "name": persona.name,
            "in_short": fill(" ".join(persona.in_short.split()) or _first_paragraph(persona.prompt), names),
            "commands": ", ".join(c.form for c in commands if c.name not in BUILT_IN),
        }
        return (SystemLine(_written_out(template, values)), *_turns(persona, examples, commands))
    values = {
        "name": persona.name,
        "prompt": fill(persona.prompt, names).strip(),
        "commands": "\n".join(f"- {c.form} {c.description}" for c in commands),
        "silence": _SILENCE if persona.silence else "",
        "must_send": "" if persona.silence else _MUST_SEND,
        "language": _told_language(persona.language),
        "likes": f"You love {', '.join(persona.likes)}." if persona.likes else "",
        "examples": "\n\n".join(f"{_quoted(e.said)}\n{e.reply.strip()}" for e in examples),
    }
    return (SystemLine(_written_out(template, values)),)


def stamp(messages: Sequence[Message], *, local_time: datetime, small: bool, group: bool) -> UserLine:
    """The new user line: what was written since the last reply, with who and when, and the pictures.

    Args:
        messages: in order, at least one.
        local_time: when the line is made, in the time zone to be told.
        small: only the texts, of those messages that are meant for the persona where any is.
        group: several people may talk here: each message gets its author's name and id.
    """
    if small:
        messages = [m for m in messages if m.addressed] or messages
        text = "\n".join(_harmless(m.text).strip() for m in messages)
        return UserLine(text, tuple(image for m in messages for image in m.images))
    blocks = [_told_time(local_time)]
    for (author, addressed), said in groupby(messages, lambda m: (m.author, m.addressed)):
        block = list(said)
        head = _head(author, addressed=addressed, group=group, pictures=sum(len(m.images) for m in block))
        texts = [_quoted(_harmless(m.text)) for m in block if m.text.strip()]
        blocks += [head, *texts] if head else texts
    return UserLine("\n".join(blocks), tuple(image for m in messages for image in m.images))


def told_id(person: str) -> str:
    """By what a stamped line tells who is meant. A name stands before it, in quotation marks."""
    return f"(id {_one_line(person)})"


def _written_out(template: str, values: Mapping[str, str]) -> str:
    paragraphs = template.strip().split("\n\n")
    return "\n\n".join(
        fill(paragraph, values)
        for paragraph in paragraphs
        if all(values.get(name, "-") for name in _PLACEHOLDER.findall(paragraph))
    )


def _first_paragraph(prompt: str) -> str:
    """The first paragraph that is no heading, cut at a sentence's end where it is long."""
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", prompt) if not p.lstrip().startswith("#"))
    text = next((p for p in paragraphs if p), "")
    if len(text) <= _SMALL_PERSONA_CHARACTERS:
        return text
    text = text[:_SMALL_PERSONA_CHARACTERS]
    return text[: max(map(text.rfind, ".!?。！？")) + 1] or text


def _told_language(tag: str) -> str:
    language = _LANGUAGES.get(tag.partition("-")[0].lower(), f"the language `{tag}`")
    return f"You write {language}, unless somebody speaks to you in another language: then you use theirs."


def _turns(persona: Persona, examples: Iterable[Example], commands: Sequence[CommandHelp]) -> list[Line]:
    """A few examples as turns, in the form in which small models follow them best.

    The bundled model was tried with each: with notes in its examples it answers its own note instead of the
    person, and lower-case sentences without full stops make it babble. So the notes are left out, and
    messages are whole sentences. Examples in which nothing is said teach it to say nothing ever.
    """
    names = {c.name: BUILT_IN.get(c.name, ()) for c in commands}
    lines: list[Line] = []
    for example in examples:
        acts = [(act.name, act.argument) for act in read_again(example.reply, names) if act.name != "note"]
        tidy = [(name, _sentences(said, persona) if name == "send" else said) for name, said in acts]
        reply = "\n".join(written(name, argument, names) for name, argument in tidy)
        if any(name == "send" for name, _ in acts) and len(reply) <= _SMALL_EXAMPLE_CHARACTERS:
            lines += [UserLine(example.said.strip()), AssistantLine(reply)]
        if len(lines) == 2 * _SMALL_EXAMPLES:
            break
    return lines


def _sentences(text: str, persona: Persona) -> str:
    """A message with capitals and full stops."""
    text = re.sub(r"(^|[.!?]\s+)(\w)", lambda found: found[1] + found[2].upper(), text.strip())
    text = re.sub(rf"\b{re.escape(persona.name)}\b", lambda _: persona.name, text, flags=re.IGNORECASE)
    if persona.language.startswith("en"):
        text = re.sub(r"\bi\b(?![.-])", "I", text)
    if text and text[-1].isalnum():
        text += "。" if text[-1] >= "\u3000" else "."
    return text


def _told_time(time: datetime) -> str:
    return f"{_DAYS[time.weekday()]} {time.day} {_MONTHS[time.month - 1]} {time.year}, {time:%H:%M}"


def _head(author: Author, *, addressed: bool, group: bool, pictures: int) -> str:
    """The line above somebody's words; "" where nothing need be said."""
    name = f'"{_one_line(author.name) or "somebody"}" {told_id(author.id)}'
    parts = ["" if addressed else "overheard", name if group else ""]
    parts += ["a bot" if group and author.is_bot else ""]
    parts += ["" if not pictures else "1 picture" if pictures == 1 else f"{pictures} pictures"]
    told = ", ".join(part for part in parts if part)
    return f"{told}:" if told else ""


def _quoted(text: str) -> str:
    # `splitlines` knows every character that some model or server takes for the end of a line.
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def _harmless(text: str) -> str:
    return _CONTROL_TOKEN.sub(lambda found: f"{found[0]} ", text)


def _one_line(name: str) -> str:
    """A name without line breaks, invisible characters and quotation marks, cut where it is long."""
    visible = "".join(c if c.isprintable() else " " for c in name.replace('"', "'"))
    return _harmless(" ".join(visible.split())[:_LONGEST_NAME].strip())
