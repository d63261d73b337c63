"""A model that says what its script says, and a channel that remembers what was done in it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from pixi.core.channel import Archive, Channel, Question
from pixi.core.errors import ChannelError, ModelError
from pixi.core.events import Noted, ToolAnswered, TurnEnded, TurnEvent, TurnStarted, Verdict
from pixi.core.language import REACT, SEND
from pixi.core.llm import Delta, Finished, Request, Text
from pixi.core.message import Abilities, Author, Card, Image, Message, Picture, Rights, Venue
from pixi.models.model import Traits

T = TypeVar("T")

Step = str | Delta | float | asyncio.Event | ModelError
"""Step of a reply: text, a delta as it is, a pause in seconds, an event to wait for, an error to raise."""
Reply = str | Sequence[Step]
Scripted = Reply | Callable[[Request], Reply]
_SOMEBODY = Author("1", "Mo")
_ANYWHERE = Venue()
_WORDS_ALONE = Abilities()
_FIRST_SENT_AT = 1_767_268_800.0  # noon on the first of January 2026, UTC; each message comes a second later


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
        """Return the traits that prompts must know."""
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
        """Do nothing: nothing is open."""

    def _steps(self, reply: Reply) -> Iterator[Delta | float | asyncio.Event | ModelError]:
        """Yield the steps of a reply, its texts cut into pieces."""
        for step in [reply] if isinstance(reply, str) else reply:
            if isinstance(step, str):
                size = self._piece or max(len(step), 1)
                yield from (Text(step[start : start + size]) for start in range(0, len(step), size))
            else:
                yield step


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A message as it was posted: its id, and what it answers and points at."""

    id: str
    text: str
    nonce: str
    answers: str | None
    reply_to: str | None


class RecordingChannel(Channel):
    """Remembers; and, if told to, refuses or hesitates as a platform does.

    Args:
        conversation: the address of the conversation that its messages belong to.
        growing: whether it shows messages while they are written.
        paced: whether messages come at the pace of somebody who types them.
        acts_by_events: whether an act is its event and nothing else, see `Channel`.
        part_length: how many characters fit in one message; 0: any number.
        venue: where it is, and who reads it.
        abilities: what can be done in it besides showing words.
        archive: what was written round it before.

    Attributes:
        posts: the messages, in order, with all that was told of them; `sent` has their texts alone.
        cards: in order; `pictures` and names of `stickers` too.
        reactions: (message id, emoji), in order.
        powers: what people may do here, by their ids; who is not among them may nothing.
        questions: what people were asked, in order.
        verdicts: what they answer, in order; an event is waited for first; without any, nobody.
        events: all that was shown, in order, but for the beginnings of turns.
        begun: those.
        nonces: those of the acts that were carried out, in order.
        typed: how often the typing indicator was asked for.
        refuse: kinds of acts that are refused for good: `send`, `react`, `card`, `picture`,
            `sticker`, `typing`.
        hold: where set to an event, acts wait for it.
    """

    # Properties of a channel that a test may set.
    venue: Venue = _ANYWHERE
    abilities: Abilities = _WORDS_ALONE
    archive: Archive | None = None

    def __init__(
        self,
        conversation: str = "test:channel",
        *,
        growing: bool = False,
        paced: bool = False,
        acts_by_events: bool = False,
        part_length: int = 0,
        venue: Venue = _ANYWHERE,
        abilities: Abilities = _WORDS_ALONE,
        archive: Archive | None = None,
    ) -> None:
        self.conversation = conversation
        self.posts: list[RecordedMessage] = []
        self.cards: list[Card] = []
        self.pictures: list[Picture] = []
        self.stickers: list[str] = []
        self.reactions: list[tuple[str, str]] = []
        self.powers: dict[str, Rights] = {}
        self.questions: list[Question] = []
        self.verdicts: list[Verdict | asyncio.Event] = []
        self.events: list[TurnEvent] = []
        self.begun: list[TurnStarted] = []
        self.nonces: list[str] = []
        self.typed = 0
        self.refuse: set[str] = set()
        self.hold: asyncio.Event | None = None
        self.growing = growing
        self.paced = paced
        self.acts_by_events = acts_by_events
        self._part_length = part_length
        self.venue = venue
        self.abilities = abilities
        self.archive = archive
        self._shown: dict[str, str] = {}  # ids of what was shown, by the nonces
        self._numbers = count(1)

    @property
    def sent(self) -> list[str]:
        """The messages, in order."""
        return [post.text for post in self.posts]

    @property
    def notes(self) -> list[str]:
        """The private thoughts, in order."""
        return [event.text for event in self.events if isinstance(event, Noted)]

    @property
    def tool_answers(self) -> list[ToolAnswered]:
        """Return what tools answered, in order."""
        return [event for event in self.events if isinstance(event, ToolAnswered)]

    @property
    def ended(self) -> list[TurnEnded]:
        """The ends of turns, in order."""
        return [event for event in self.events if isinstance(event, TurnEnded)]

    def message(
        self,
        text: str,
        *,
        author: Author | str = _SOMEBODY,
        addressed: bool = True,
        id: str = "",  # noqa: A002 - it is the field's name
        reply_to: str | None = None,
        images: tuple[Image, ...] = (),
        group: bool = False,
    ) -> Message:
        """Return a message that somebody wrote here, a second after the one before."""
        number = next(self._numbers)
        if isinstance(author, str):
            author = Author(f"author:{author}", author)
        return Message(
            id=id or f"{self.conversation}:{number}",
            conversation=self.conversation,
            author=author,
            text=text,
            sent_at=_FIRST_SENT_AT + number,
            addressed=addressed,
            reply_to=reply_to,
            images=images,
            group=group,
        )

    def parts(self, text: str) -> Sequence[str]:
        """Return the message in pieces of `part_length`."""
        size = self._part_length or max(len(text), 1)
        return [text[start : start + size] for start in range(0, len(text), size)]

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Remember a message, once for a nonce; gives an id for it.

        Raises:
            ChannelError: it is told to refuse.
        """
        post = RecordedMessage(f"sent:{nonce}", text, nonce, answers, reply_to)
        await self._act(SEND, nonce, self.posts, post)
        return post.id

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Remember a reaction, once for a nonce.

        Raises:
            ChannelError: it is told to refuse.
        """
        await self._act(REACT, nonce, self.reactions, (message_id, emoji))

    async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
        """Remember a card, once for a nonce; gives an id for it.

        Raises:
            ChannelError: it is told to refuse.
        """
        await self._act("card", nonce, self.cards, card)
        return f"card:{nonce}"

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Remember a picture, once for a nonce; gives an id for it.

        Raises:
            ChannelError: it is told to refuse.
        """
        await self._act("picture", nonce, self.pictures, picture)
        return self._shown.setdefault(nonce, f"picture:{nonce}")

    async def sticker(self, name: str, *, nonce: str, answers: str | None = None) -> str | None:
        """Remember a sticker that `abilities` has, once for a nonce; gives an id for it.

        Raises:
            ChannelError: there is no such sticker, or it is told to refuse.
        """
        await self._may("sticker")
        if name not in self.abilities.stickers:
            raise ChannelError(f"There is no sticker {name!r}.")
        await self._act("sticker", nonce, self.stickers, name)
        return self._shown.setdefault(nonce, f"sticker:{nonce}")

    async def rights(self, person: str) -> Rights:
        """Return what `powers` says."""
        return self.powers.get(person, Rights())

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Remember the question; gives the next verdict."""
        self.questions.append(question)
        try:
            async with asyncio.timeout(seconds):
                while self.verdicts:
                    verdict = self.verdicts.pop(0)
                    if isinstance(verdict, str):
                        return verdict
                    await verdict.wait()
        except TimeoutError:
            pass
        return "nobody"

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Return the id of what was posted with this nonce."""
        for post in self.posts:
            if post.nonce == nonce:
                return post.id
        return self._shown.get(nonce)

    async def typing(self) -> None:
        """Count it.

        Raises:
            ChannelError: it is told to refuse.
        """
        await self._may("typing")
        self.typed += 1

    def show(self, event: TurnEvent) -> None:
        """Remember it."""
        if isinstance(event, TurnStarted):
            self.begun.append(event)
        else:
            self.events.append(event)

    async def _may(self, kind: str) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if kind in self.refuse:
            raise ChannelError(f"The channel refused to {kind}.")

    async def _act(self, kind: str, nonce: str, kept: list[T], made: T) -> None:
        """Keep what was made, once for a nonce."""
        await self._may(kind)
        if nonce not in self.nonces:
            self.nonces.append(nonce)
            kept.append(made)
