"""A model that says what its script says, and remembers what it was asked."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from pixi.core.errors import ModelError
from pixi.core.llm import Delta, Finished, Request, Text
from pixi.models.model import Traits

Step = str | Delta | float | asyncio.Event | ModelError
"""Of a reply: text, a delta as it is, a pause in seconds, an event to wait for, an error to raise."""

Reply = str | Sequence[Step]
Scripted = Reply | Callable[[Request], Reply]


class ScriptedModel:
    """Gives one reply after the other, in pieces as a server would; `Finished` is added where it is missing.

    Args:
        replies: each a text, a list of steps, or a function that makes either from the request. Once all
            were given, the model fails as a model does.
        piece: characters in one piece of text; 0: whole.
        traits: what prompts are told of the model.

    Attributes:
        requests: what it was asked, in order.
        streaming: streams that are open now; 0 when all were closed.
    """

    def __init__(self, *replies: Scripted, piece: int = 4, traits: Traits | None = None) -> None:
        self._replies = list(replies)
        self._piece = piece
        self._traits = traits or Traits()
        self.requests: list[Request] = []
        self.streaming = 0

    @property
    def name(self) -> str:
        """Its name, for people."""
        return "scripted"

    @property
    def traits(self) -> Traits:
        """What prompts are told of it."""
        return self._traits

    def add(self, *replies: Scripted) -> None:
        """More replies, after those it has."""
        self._replies.extend(replies)

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Give the next reply.

        Raises:
            ModelError: the script says so, or has come to its end.
        """
        self.requests.append(request)
        if not self._replies:
            raise ModelError("The script has no reply left.", permanent=True)
        reply = self._replies.pop(0)
        steps = reply(request) if callable(reply) else reply
        self.streaming += 1
        try:
            finished = False
            for step in self._steps(steps):
                match step:
                    case float() | int():
                        await asyncio.sleep(step)
                    case asyncio.Event():
                        await step.wait()
                    case ModelError():
                        raise step
                    case _:
                        await asyncio.sleep(0)  # as from a socket: others have their turn
                        finished = isinstance(step, Finished)
                        yield step
            if not finished:
                yield Finished()
        finally:
            self.streaming -= 1

    async def close(self) -> None:
        """Nothing is open."""

    def _steps(self, reply: Reply) -> Iterator[Delta | float | asyncio.Event | ModelError]:
        """The steps of a reply, its texts cut into pieces."""
        for step in [reply] if isinstance(reply, str) else reply:
            if isinstance(step, str):
                size = self._piece or max(len(step), 1)
                yield from (Text(step[start : start + size]) for start in range(0, len(step), size))
            else:
                yield step
