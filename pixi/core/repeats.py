"""Messages that were said already: small models say the same again, word for word, whatever they are told.

`RepeatFilter` stands between what a reply is read into and what is performed of it. A message is shown while
it is written, so whether it is a repeat must be known before: it is held back as long as its beginning is
that of one of the last messages, and so is what stands before it (a note, a reaction). Nearly every message
has words of its own within the first few, and flows from there on. Of a reply that turns out to begin with a
repeat nothing was seen, and the model can be asked anew.

Only the first message of a reply is looked at. What follows comes when something was seen already; and the
refrain of a song that is sung in several messages is none of our business.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from pixi.core.language import NOTE, REACT, SEND, CommandEnded, CommandStarted, CommandText
from pixi.core.lines import AssistantLine, Line
from pixi.core.reading import CommandEvent
from pixi.core.written import read_again

_LAST = 5  # messages that are not to be said again
_WORDS = 4  # a message of no more may be: "good night!"
_UNSPACED_PER_WORD = 2  # characters, in scripts that write no spaces between words

_APOSTROPHES = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}]")
_WORD = re.compile(r"[^\W_]+")
# Thai, Lao, Burmese, Khmer, kana, and the characters of Chinese.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")

# How people ask for the same again, in the languages of the slash commands. Who complains does not ask.
_ASKING = re.compile(
    r"""
    # English
    (?<!n't\ )(?<!n’t\ )(?<!not\ )(?<!never\ )
    (
        \brepeat\b(?!\ yourself)
        | \b(say|tell|write|send|show|sing|spell|type|read|explain)\b.{0,40}
          \bagain\b(?<!\band\ again)(?!\ and)
    )
    | \bonce\ more\b | \bone\ more\ time\b | \b(come|once)\ again\b | ^again\b
    | \bwhat\ (did|do)\ you\ (just\ )?say\b | \bpardon\b
    # German
    | \bnoch\ ?(ein)?mal\b | \bwiederhol(e|en|t)?\b | \bwie\ bitte\b | \bwas\ hast\ du\ (gerade\ )?gesagt\b
    # Spanish, Portuguese
    | \botra\ vez\b | \bde\ nuevo\b | \brep[ií]t[ae]s?(lo|la|me|melo)?\b | \bqu[eé]\ (has\ dicho|dijiste)\b
    | \bde\ novo\b | \boutra\ vez\b | \bmais\ uma\ vez\b | \brepet(e|ir|irlo|irmelo)\b
    # French
    | \bencore\ une\ fois\b | \brép[éè]te[rsz]?\b | \bredis\b | \bredites\b
    # Japanese, Chinese
    | もう一度 | もう一回 | もっかい | 繰り返 | くりかえ | リピート
    | 再[说說讲講念写寫发發来來]一[遍次回] | 重[复複]
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)

_HELD = frozenset({NOTE, REACT})  # what may be held back together with the message that follows


class RepeatFilter:
    """Hold back how a reply begins until its first message is known to be no repeat: `sift` what was read.

    If `found`, nothing of the reply was let through; either drop the filter and ask the model anew, or let
    the repeat stand. `release` gives what is still held; it must be called at the end of the reply.

    Args:
        said: the messages that were said before, oldest first.

    Attributes:
        found: the reply begins with a repeat.
    """

    __slots__ = ("_held", "_in_message", "_said", "_text", "_watching", "found")

    def __init__(self, said: Sequence[str]) -> None:
        last = (words_of(text) for text in said[-_LAST:])
        self._said = [words for words in last if _is_long(words)]
        self._held: list[CommandEvent] = []
        self._text = ""  # of the message, as far as it was read
        self._in_message = False
        self._watching = bool(self._said)
        self.found = False

    def sift(self, events: list[CommandEvent]) -> list[CommandEvent]:
        """Take events as they were read; gives those that may be shown and performed, in order."""
        if not self._watching:
            return events
        self._held += events
        for event in () if self.found else events:
            if not self._may_begin_a_repeat(event):
                return self.release()
            if self.found:
                break
        return []

    def release(self) -> list[CommandEvent]:
        """Hold nothing back any more; gives what was."""
        self._watching = False
        held, self._held = self._held, []
        return held

    def _may_begin_a_repeat(self, event: CommandEvent) -> bool:
        match event:
            case CommandStarted(name):
                self._in_message = name == SEND
                return self._in_message or name in _HELD
            case CommandText(text):
                self._text += text if self._in_message else ""
                words = words_of(self._text)
                return any(earlier.startswith(words) for earlier in self._said)
            case CommandEnded(argument=argument):
                self.found = self._in_message and words_of(argument) in self._said
                return self.found or not self._in_message


def words_of(text: str) -> str:
    """The words of a message alone: no case, no punctuation, no emoji."""
    return " ".join(_WORD.findall(_APOSTROPHES.sub("", text.casefold())))


def last_messages(history: Sequence[Line], names: Mapping[str, Iterable[str]]) -> list[str]:
    """The last messages that the persona said, oldest first.

    Args:
        history: of the conversation.
        names: the commands, with their aliases.
    """
    said: list[str] = []
    for line in reversed(history):
        if len(said) >= _LAST:
            break
        if isinstance(line, AssistantLine):
            said[:0] = [act.argument for act in read_again(line.text, names) if act.name == SEND]
    return said[-_LAST:]


def wants_repeat(asked: str, said: Sequence[str]) -> bool:
    """Return True if somebody asks for the same again, or writes one of these messages out."""
    words = words_of(asked)
    written_out = (f" {words_of(text)} " in f" {words} " for text in said if _is_long(words_of(text)))
    return _ASKING.search(asked) is not None or any(written_out)


def _is_long(words: str) -> bool:
    return words.count(" ") >= _WORDS or len(_UNSPACED.findall(words)) > _WORDS * _UNSPACED_PER_WORD
