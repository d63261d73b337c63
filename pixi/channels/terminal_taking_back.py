"""What somebody at the terminal takes back: the last messages, to be answered anew, changed, or left out."""

from collections.abc import Awaitable, Callable, Sequence

from pixi.channels.terminal import Answering
from pixi.channels.terminal_screen import Screen
from pixi.channels.terminal_text import one_line
from pixi.channels.terminal_transcript import Transcript

_NOTHING = "There is no message of yours in this talk."

Step = Callable[[Answering], Awaitable[Sequence[str]]]
"""Changes what was said before, in its place among the messages; gives what is to be said once more."""


class TakingBack:
    """What can be done with the last messages of a talk. Each is a `Step`, which may raise `StoreError`.

    Args:
        conversation: the address of the talk.
        transcript: where it is told.
        screen: where a message is changed.
    """

    def __init__(self, conversation: str, transcript: Transcript, screen: Screen) -> None:
        self._conversation = conversation
        self._transcript = transcript
        self._screen = screen

    async def retry(self, answering: Answering, text: str = "") -> Sequence[str]:
        """Set the last messages and their answer aside; they are said again, the last with another text."""
        messages = await answering.take_back(self._conversation)
        if not messages:
            return self._nothing()
        self._transcript.tell("· set aside; with another text:" if text else "· set aside; once more:")
        *first, last = (message.text for message in messages)
        return (*first, text or last)

    async def edit(self, answering: Answering) -> Sequence[str]:
        """Put the last message into the line, to be changed there."""
        messages = await answering.last_asked(self._conversation)
        if not messages:
            return self._nothing()
        self._screen.put_by(f"/edit {messages[-1].text}")
        return ()

    async def undo(self, answering: Answering) -> Sequence[str]:
        """Take the last messages and their answer out."""
        messages = await answering.take_back(self._conversation)
        if not messages:
            return self._nothing()
        whose = "its" if len(messages) == 1 else "their"
        said = " / ".join(one_line(message.text) for message in messages)
        self._transcript.tell(f"· taken out with {whose} answer: {said}")
        return ()

    def _nothing(self) -> Sequence[str]:
        self._transcript.tell(_NOTHING, "error")
        return ()
