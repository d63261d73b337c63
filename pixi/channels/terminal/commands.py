"""The terminal's own commands, which begin with a slash: what each does, and how Tab completes them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

COMMANDS: Mapping[str, str] = {
    "persona": "list the personas; /persona NAME talks to another",
    "model": "show which model answers, and what it cannot do; /model NAME takes another",
    "brain": "choose another model, as at the first start",
    "why": "show the reasons for the last reply: model, tools, memories, passages, limits",
    "notes": "show or hide the private notes",
    "retry": "answer your last message once more",
    "edit": "change your last message, and answer it anew",
    "undo": "take your last message out of the talk, with its answer",
    "branches": "list what was taken out or answered anew, and go back to it",
    "reset": "forget this conversation",
    "usage": "show the use of today and this month",
    "forget me": "delete all that Pixi keeps of you",
    "export me": "get all that Pixi keeps of you, as a file",
    "quit": "leave",
}
"""By the words that are typed."""

_KEYS = """\
Enter sends, Alt-Enter breaks the line, Tab completes, the arrow keys bring back what you wrote.
Ctrl-C stops the reply that is being written; Ctrl-D leaves."""
_WIDE = max(map(len, COMMANDS)) + 2

HELP = "\n".join(
    (
        _KEYS,
        *(f"/{name:<{_WIDE}}{does}" for name, does in COMMANDS.items()),
        f"{'//text':<{_WIDE + 1}}send a message that begins with a slash",
    )
)


@dataclass(frozen=True, slots=True)
class TalkChange:
    """What a person wants to talk to instead: another persona, another model, or a model yet to be chosen."""

    of: Literal["persona", "model", "brain"]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen in a talk.

    Attributes:
        personas: gives one line about each, by the names of their files.
        models: names of models that the settings have.
    """

    personas: Callable[[], Mapping[str, str]] = dict
    models: Sequence[str] = ()

    def persona(self, name: str) -> str:
        """Return the name of a persona as it is spelt; "" where there is none."""
        return next((each for each in self.personas() if each.casefold() == name.casefold()), "")


class CommandCompleter(Completer):
    """Completes commands, and the names that two of them take."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what the line may become."""
        typed = document.text_before_cursor
        if not typed.startswith("/") or "\n" in document.text:
            return
        command, space, name = typed[1:].partition(" ")
        known: Iterable[str] = () if space else COMMANDS
        if space and command == "persona":
            known = self._choices.personas()
        elif space and command == "model":
            known = self._choices.models
        word = name.lstrip() if space else command
        for each in known:
            if each.casefold().startswith(word.casefold()):
                yield Completion(each, start_position=-len(word))
