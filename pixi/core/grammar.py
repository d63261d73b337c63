"""A GBNF grammar made from the registered commands, so that a reply can only be commands, one to a line.

llama.cpp and vLLM take such a grammar with a request. Every reply that it lets through is read by
`CommandStream` as complete commands, and is already the clean form which the history keeps.
"""

import re
from collections.abc import Iterator, Sequence

from pixi.core.language import NOTE, REACT, SEND
from pixi.core.prompt import CommandHelp
from pixi.core.stamps import Citation

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
_SENTENCES = (
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
    text = (*_SENTENCES, *_LINE_TEXT) if small else (*_LARGE_TEXT, _TARGET)
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
