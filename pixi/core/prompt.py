"""Makes the static prefix of a model's prompt, and the grammar of its reply.

The prefix holds the persona, its commands and its examples. The grammar, in GBNF, is made from the same
commands: llama.cpp and vLLM take it with a request, and then a reply can only be commands, one to a line.
Every reply that it lets through is read by `CommandStream` as complete commands, and is already the clean
form which the history keeps.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from pixi.core.language import BUILT_IN, NOTE, REACT, SEND
from pixi.core.llm import AssistantLine, Line, SystemLine, UserLine
from pixi.core.persona import Example, Persona
from pixi.core.reading import commands_in, written
from pixi.core.stamps import Citation
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
        acts = [(act.name, act.argument) for act in commands_in(example.reply, names) if act.name != NOTE]
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


# The grammar.

# A small model that may choose any of a thousand emoji chooses odd ones.
_FAMILIAR_EMOJI = (
    "😊", "😄", "😂", "🥰", "😍", "😎", "😮", "😢", "😭", "😅", "🤔", "😴", "🙈", "🤗",
    "🫂", "💪", "👍", "👋", "👏", "🙏", "❤️", "💛", "💙", "🔥", "✨", "🌟", "🎉", "🎨",
    "🎵", "🌙", "🌈", "🌊", "🌸", "😺", "😻", "🐱", "🐾", "🥞", "🍓", "🍰", "🍵", "☕",
)  # fmt: skip

_ANY_EMOJI = (
    r'emoji ::= sign ("\u200D" sign){0,3} | [\U0001F1E6-\U0001F1FF] [\U0001F1E6-\U0001F1FF]',
    r"sign ::= [\u231A\u231B\u23E9-\u23F3\u25B6\u25C0\u2600-\u27BF\u2934\u2935\u2B05-\u2B07\u2B1B\u2B1C\u2B50"
    r'\u2B55\U0001F300-\U0001F3FA\U0001F400-\U0001FAFF] "\uFE0F"? [\U0001F3FB-\U0001F3FF]?',
)

# What has a meaning in the command language, and what it would clean away: brackets of any width, code
# marks, backslashes, `<` (which begins the tokens that end a turn), control and invisible characters.
_MEANING = r"\[\]【】［］`\\<\x00-\x1F\x7F-\xA0\u1680\u2000-\u200B\u2028-\u202F\u205F-\u206F\u3000\uFEFF"

# A bracket behind `:` or `=` may be an emoticon, so no argument ends in those.
_LINE_TEXT = (rf"last ::= [^ :='{_MEANING}]", rf"char ::= [^ {_MEANING}]", 'line ::= (char " "?){0,80} last')

# One or two sentences of at most eighteen words: what a small model says after that is babble. No
# quotation marks, colons or lists either: they lead it away from talking.
_SMALL_TEXT = (
    'sentences ::= sentence (" " sentence)?',
    'sentence ::= word (" " word){0,17} mark?',
    'words ::= word (" " word){0,9} mark?',
    rf'word ::= [^ .!?…。！？؟:="()*_#/{_MEANING}]{{1,40}}',
    'mark ::= "." | "..." | "!" "!"? | "?" "!"? | [。！？؟…]',
)

# Larger models may break lines, escape brackets and show code, in which brackets are only text.
_LARGE_TEXT = (
    "text ::= last | (plain | span) part* last",
    r'part ::= plain | " " | "\n" | escape | less | span | fence',
    rf"last ::= [^ :='{_MEANING}] | span",
    rf"plain ::= [^ {_MEANING}]",
    r'escape ::= "\\" [\[\]]',
    r'less ::= "<" [ 0-9=>-]',
    r'span ::= "`" [^`\x00-\x1F\x7F-\xA0]+ "`"',
    r'fence ::= "\n```" [a-z]* "\n" ([^`\x00-\x09\x0B-\x1F]+ "\n")+ "```\n"',
)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|(?<=[。！？])")
_SHORTEST_SENTENCE = 10  # characters; what seems to end before is "Dr." or the number of an item
_QUOTES = str.maketrans(dict.fromkeys('"“”„', "'"))

# A tiny model may write 160 tokens. Those of the bundled one hold three letters of English or more, but half
# a character of Chinese: a long sentence would be cut off without its end and its source.
_MOST_QUOTED = 120  # tokens, estimated
_CLAUSE_END = re.compile(r"(?<=[,;:，、；：])|(?<=\s)")

# What a quotation goes without: marks of Markdown, and what has a meaning in the command language. What may
# be a sum stays: "bags < 5 kg" without its sign says another thing. So does the sign of C#, and of room #3.
_LEFT_OUT = re.compile(
    rf"(?P<kept>\d ?\*{{1,2}} ?(?=\d)|<(?=[ 0-9=>-]))"
    rf"|(?<!\w)#+(?=\s|$)|[*_]+(?=\W|$)|(?<!\w)[*_]+|[{_MEANING}]"
)

# The number of an earlier message, for those commands of which the prompt says that they take one.
_TARGET = 'target ::= (" #" [1-9] [0-9]{0,5})?'
_TARGETED = frozenset({SEND, REACT})


def command_grammar(commands: Sequence[CommandHelp], *, silence: bool, small: bool) -> str:
    """Return the grammar of a whole reply.

    A note stands first, and once. An argument called `emoji` is one, and where there are choices it is one
    of them. For small models the order is fixed (note, reaction, another command, messages), counts and
    lengths are bounded, and there is always a message: a model that cannot judge when silence fits would be
    silent at random.

    Args:
        silence: whether a reply may go without a message; of no account for small models.
    """
    rules = [f"{_rule(n)} ::= {_command(c, small)}" for n, c in enumerate(commands)]
    text = (*_SMALL_TEXT, *_LINE_TEXT) if small else (*_LARGE_TEXT, _TARGET)
    emoji = (f"emoji ::= {' | '.join(map(_literal, _FAMILIAR_EMOJI))}",) if small else _ANY_EMOJI
    shape = _small_shape(commands) if small else _large_shape(commands, silence)
    return "\n".join((*shape, r'nl ::= "\n"', *rules, *text, *emoji)) + "\n"


def quoting_grammar(commands: Sequence[CommandHelp], citations: Sequence[Citation]) -> str:
    """Return the grammar of a small model's reply to what documents answer: their first sentence or two.

    Word for word, in quotation marks and with the source. In its own words the bundled model said the right
    thing in 3 of 16 answers, whatever it was told. "" where it can send nothing, or there is nothing to say.
    """
    send = next((command for command in commands if command.name == SEND), None)
    quotes = [f'"{said}" ({_plain(cited.source)})' for cited in citations for said in _sayable(cited.text)]
    if send is None or not quotes:
        return ""
    either = " | ".join(map(_literal, quotes))
    return f"root ::= {_literal(f'[{send.shown}: ')} ({either}) {_literal(']')}\n"


def _sayable(text: str) -> list[str]:
    """Return the first sentence of what a document says, and the first two, as a message may hold them."""
    said: list[str] = []
    for each in filter(None, _SENTENCE_END.split(_plain(text))):
        if said and said[-1].endswith(".") and len(said[-1]) < _SHORTEST_SENTENCE:
            said[-1] += f" {each}"
        else:
            said.append(each)
    if not said:
        return []
    first, both = _fitted(said[0]), " ".join(said[:2])
    return [first, both] if both != first and _tokens(both) <= _MOST_QUOTED else [first]


def _fitted(sentence: str) -> str:
    """Return a sentence, or as many of its first clauses as may be quoted."""
    if _tokens(sentence) <= _MOST_QUOTED:
        return sentence
    clauses: Sequence[str] = _CLAUSE_END.split(sentence)
    if _tokens(clauses[0]) > _MOST_QUOTED:
        clauses = sentence
    kept, left = "", float(_MOST_QUOTED)
    for clause in clauses:
        left -= _tokens(clause)
        if left < 0:
            break
        kept += clause
    return f"{kept.rstrip(' ,;:，、；：')}…"


def _tokens(text: str) -> float:
    """Estimate the tokens of the bundled model, by bytes."""
    plain = sum(map(str.isascii, text))
    return plain / 3 + (len(text.encode()) - plain) * 0.75


def _plain(text: str) -> str:
    """Remove marks of Markdown, and characters of the command language."""
    plain = _LEFT_OUT.sub(lambda mark: mark["kept"] or (" " if mark[0].isspace() else ""), text)
    return " ".join(plain.translate(_QUOTES).split())


def _small_shape(commands: Sequence[CommandHelp]) -> Iterator[str]:
    first = [_rule(n) for name in (NOTE, REACT) for n, c in enumerate(commands) if c.name == name]
    others = [_rule(n) for n, c in enumerate(commands) if c.name not in (NOTE, REACT, SEND)]
    send = _named(commands, SEND)
    if send is None:
        yield f"root ::= act (nl act){{0,2}}\nact ::= {_any(range(len(commands)))}"
        return
    before = "".join(f"({rule} nl)? " for rule in first)
    yield f"root ::= {before}{'(other nl)? ' if others else ''}{send} (nl {send}){{0,1}}"
    if others:
        yield f"other ::= {' | '.join(others)}"


def _large_shape(commands: Sequence[CommandHelp], silence: bool) -> Iterator[str]:
    note, send = _named(commands, NOTE), _named(commands, SEND)
    acts = [n for n, c in enumerate(commands) if c.name != NOTE]
    before = f"({note} nl)? " if note else ""
    if send and not silence:
        yield f"root ::= {before}(act nl){{0,9}} {send} (nl act){{0,19}}"
    else:
        replies = [f"{before}act (nl act){{0,29}}"] if acts else []
        if note:
            replies.append(note)
        if send:
            replies.append('"[SEND]"')
        yield f"root ::= {' | '.join(replies)}"
    if acts:
        yield f"act ::= {_any(acts)}"


def _command(command: CommandHelp, small: bool) -> str:
    if not command.argument:
        return _literal(f"[{command.shown}]")
    argument = f'{_argument(command, small)} "]"'
    if small or command.name not in _TARGETED:
        return f"{_literal(f'[{command.shown}: ')} {argument}"
    return f'{_literal(f"[{command.shown}")} target ": " {argument}'


def _argument(command: CommandHelp, small: bool) -> str:
    if command.choices:
        return f"({' | '.join(map(_literal, command.choices))})"
    if command.argument == "emoji":
        return "emoji"
    if not small:
        return "text"
    return {SEND: "sentences", NOTE: "words"}.get(command.name, "line")


def _named(commands: Sequence[CommandHelp], name: str) -> str | None:
    return next((_rule(n) for n, c in enumerate(commands) if c.name == name), None)


def _rule(number: int) -> str:
    # Names of rules may hold only letters, digits and dashes; names of commands may hold anything.
    return f"command-{number}"


def _any(numbers: Sequence[int]) -> str:
    return " | ".join(map(_rule, numbers))


def _literal(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable() or character in "\ufe0f\u200d":
        return character
    return f"\\U{ord(character):08X}"
