"""A channel for a program that asks and waits: what a persona does is gathered, and handed over whole."""

from collections.abc import Callable, Sequence
from typing import Any

from pixi.channels.channel import Question
from pixi.core.card import Card
from pixi.core.errors import ChannelError, ChannelForgot
from pixi.core.events import Failed, Progressed, Reacted, Sourced, ToolCalled, TurnEnded, TurnEvent, Verdict
from pixi.core.picture import Abilities, Picture
from pixi.core.venue import Rights, Venue

_WORDS_ALONE = Abilities()


class GatheringChannel:
    """Gathers what is said in answer to one message.

    Args:
        happens: told in a line what is being done, as it is done.

    Attributes:
        messages: in order; cards and pictures are told in words among them.
        reactions: to the message.
        sources: pages of the web that the answer rests on.
        failure: what went wrong, for people; "" for nothing.
        finish: how the turn ended.
    """

    def __init__(self, happens: Callable[[str], None] = lambda _: None) -> None:
        self._happens = happens
        self.messages: list[str] = []
        self.reactions: list[str] = []
        self.sources: list[dict[str, Any]] = []
        self.failure = ""
        self.finish = "stop"
        self._nonce = ""

    @property
    def growing(self) -> bool:
        """Only what is whole is of use."""
        return False

    @property
    def paced(self) -> bool:
        """A program does not want to wait."""
        return False

    @property
    def acts_by_events(self) -> bool:
        """What was delivered is gathered by the acts."""
        return False

    @property
    def venue(self) -> Venue:
        """Between two."""
        return Venue()

    @property
    def abilities(self) -> Abilities:
        """Nothing but words."""
        return _WORDS_ALONE

    @property
    def archive(self) -> None:
        """Nothing but the talk itself was written here."""
        return None

    async def rights(self, person: str) -> Rights:
        """Nobody governs anything from here: whoever writes may be a model that was told to."""
        return Rights()

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """There is nobody to be asked."""
        return "nobody"

    def parts(self, text: str) -> Sequence[str]:
        """No message is too long."""
        return (text,)

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Keep a message."""
        self._keep(text, nonce)
        return None

    async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
        """Keep a card, as text."""
        self._keep(card.plain, nonce)
        return None

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Keep what is to be seen, and where."""
        self._keep(f"[picture: {picture.plain}]", nonce)
        return None

    async def sticker(self, name: str, *, nonce: str, answers: str | None = None) -> str | None:
        """Raises `ChannelError`: there are none."""
        raise ChannelError("There are no stickers here.")

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Nothing to do: the event tells of it."""

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Only what was kept last is known. Raises `ChannelForgot` for what an earlier process said."""
        if nonce != self._nonce:
            raise ChannelForgot("what was said earlier cannot be looked at.")
        return nonce

    async def typing(self) -> None:
        """Nothing to do."""

    def show(self, event: TurnEvent) -> None:
        """Keep what is more than words, and tell of what takes time."""
        match event:
            case Reacted(emoji):
                self.reactions.append(emoji)
            case Sourced(sources):
                self.sources += [{"title": each.title, "url": each.url} for each in sources]
            case ToolCalled(_, name, _):
                self._happens(f"using {name}")
            case Progressed(text):
                self._happens(text)
            case Failed(text):
                self.failure = text
            case TurnEnded(finish):
                self.finish = finish
            case _:
                pass

    def _keep(self, text: str, nonce: str) -> None:
        self._nonce = nonce
        self.messages.append(text)
        self._happens(text)
