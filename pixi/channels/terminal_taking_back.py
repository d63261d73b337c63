"""What somebody at the terminal takes back: the last messages, to be answered anew, changed, or left out."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from pixi.channels.shortening import shortened
from pixi.channels.terminal import TerminalEngine, TerminalUser
from pixi.channels.terminal_own import LAST_TURNS, last_said, said_in, told_time
from pixi.channels.terminal_screen import Screen
from pixi.channels.terminal_text import one_line
from pixi.channels.terminal_transcript import Transcript

_MOST = 20  # branches that are told of, the latest
_MOST_TURNS = 200  # of a branch that are looked at
_LONGEST = 160  # characters of what was said in one
_NOTHING = "There is no message of yours in this talk."

Step = Callable[[TerminalEngine], Awaitable[Sequence[str]]]
"""Changes what was said before, in its place among the messages; gives what is to be said once more."""


class UndoCommands:
    """What can be done with the last messages of a talk. Each is a `Step`, which may raise `StoreError`.

    Args:
        seat: who sits here, and in which talk.
        transcript: where it is told.
        screen: where a message is changed.
    """

    def __init__(self, seat: TerminalUser, transcript: Transcript, screen: Screen) -> None:
        self._conversation, self._who = seat.conversation, seat.author.name
        self._transcript = transcript
        self._screen = screen

    async def retry(self, answering: TerminalEngine, text: str = "") -> Sequence[str]:
        """Set the last messages and their answer aside; they are said again, the last with another text."""
        messages = await answering.take_back(self._conversation)
        if not messages:
            return self._nothing()
        self._transcript.tell("· set aside; with another text:" if text else "· set aside; once more:")
        *first, last = (message.text for message in messages)
        return (*first, text or last)

    async def edit(self, answering: TerminalEngine) -> Sequence[str]:
        """Put the last message into the line, to be changed there."""
        messages = await answering.last_asked(self._conversation)
        if not messages:
            return self._nothing()
        self._screen.put_by(f"/edit {messages[-1].text}")
        return ()

    async def undo(self, answering: TerminalEngine) -> Sequence[str]:
        """Take the last messages and their answer out."""
        messages = await answering.take_back(self._conversation)
        if not messages:
            return self._nothing()
        whose = "its" if len(messages) == 1 else "their"
        said = " / ".join(one_line(message.text) for message in messages)
        self._transcript.tell(f"· taken out with {whose} answer: {said}")
        return ()

    async def branches(self, answering: TerminalEngine, *words: str) -> Sequence[str]:
        """Tell what was taken out; or go back to what has this number, and tell where the talk stands."""
        kept = {}
        for address in await answering.branches(self._conversation):
            turns = await answering.turns(address, _MOST_TURNS)
            if said := [
                line for turn in turns for line in said_in(turn, self._who, self._transcript.persona)
            ]:
                kept[str(turns[0].id)] = (address, turns[0].began, said)
        now = datetime.now().astimezone()
        if words and words[0] in kept:
            await answering.restore(self._conversation, kept[words[0]][0])
            turns = await answering.turns(self._conversation, LAST_TURNS)
            self._transcript.tell(last_said(turns, (), self._who, self._transcript.persona, now))
        elif words:
            self._transcript.tell(f"There is no branch {one_line(words[0])}; /branches lists them.", "error")
        elif kept:
            rows = [
                f"{number} · {told_time(datetime.fromtimestamp(began).astimezone(), now)}"
                f" · {shortened(' · '.join(said), _LONGEST, gap=' … ')[0]}"
                for number, (_, began, said) in kept.items()
            ]
            self._transcript.tell("\n".join(("/branches NUMBER goes back to one of these:", *rows[-_MOST:])))
        else:
            self._transcript.tell("Nothing was taken out of this talk.")
        return ()

    def _nothing(self) -> Sequence[str]:
        self._transcript.tell(_NOTHING, "error")
        return ()
