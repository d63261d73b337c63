"""What people do all day: they ask, chat, edit, delete, type, reply, and now and then use a command."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pixi.testing.discord import FakeMessage, Interaction, LoopbackDiscord, Upload, User
from tests.soak.ledger import Ledger, Question
from tests.soak.town import Place, Town

_WORDS = ("morning", "pancakes", "fog", "syrup", "griddle", "tea", "Tuesday", "spatula", "kettle", "butter")
_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc"
    "330000000049454e44ae426082"
)
_ANSWER_SECONDS = 20.0  # for a command

HABITS = {
    "ask": 60,
    "burst": 6,
    "chat": 14,
    "type": 8,
    "edit": 4,
    "delete": 3,
    "react": 3,
    "reset": 0.5,
    "forget": 0.4,
    "stop": 0.4,
    "status": 0.4,
    "export": 0.3,
}
"""What is done, and how often."""


class Folk:
    """The people of a town. Nothing that they do waits for the bot.

    Attributes:
        did: what was done, how often.
        unanswered: commands to which nothing came.
    """

    def __init__(self, discord: LoopbackDiscord, town: Town, ledger: Ledger, chance: random.Random) -> None:
        self.did: Counter[str] = Counter()
        self.unanswered: Counter[str] = Counter()
        self._discord = discord
        self._town = town
        self._ledger = ledger
        self._chance = chance
        self._beside: set[asyncio.Task[None]] = set()
        self._acts: dict[str, Callable[[Place], Awaitable[None]]] = {
            "ask": self._ask_once,
            "burst": self._burst,
            "chat": self._chat,
            "type": self._type,
            "edit": self._edit,
            "delete": self._delete,
            "react": self._react,
            "reset": self._reset,
            "forget": self._forget,
            "stop": self._stop,
            "status": self._status,
            "export": self._export,
        }

    async def live(self, until: float, rate: float) -> None:
        """Do so many things a second, at random moments, until that moment of the monotonic clock."""
        due = time.monotonic()
        while (due := due + self._chance.expovariate(rate)) < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            habit = self._chance.choices(list(HABITS), list(HABITS.values()))[0]
            self.did[habit] += 1
            self._do(self._acts[habit](self._place()))

    async def rest(self) -> None:
        """Return when everybody has done what they began."""
        while self._beside:
            await asyncio.gather(*self._beside)

    async def ask_everywhere(self) -> None:
        """A question in each room, one after the other."""
        for place in self._town.places:
            await self._ask(place)
            await asyncio.sleep(0.01)

    def _do(self, act: Awaitable[None]) -> None:
        task = asyncio.ensure_future(act)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _place(self) -> Place:
        """Some rooms are busy, most are not."""
        places = self._town.places
        return places[int(len(places) * self._chance.random() ** 2)]

    def _somebody(self, place: Place) -> User:
        return place.partner or self._chance.choice(self._town.people)

    def _words(self, most: int = 12) -> str:
        return " ".join(self._chance.choices(_WORDS, k=self._chance.randrange(1, most)))

    # What they say.

    async def _ask_once(self, place: Place) -> None:
        await self._ask(place)

    async def _ask(self, place: Place, *, by: User | None = None) -> None:
        meant = place.personas if self._chance.random() < 0.3 else (self._chance.choice(place.personas),)
        marks = [self._ledger.new_mark(persona) for persona in meant]
        text = f"{self._calling(place, meant)} {' '.join(marks)} {self._words()}"
        files, above = self._files(), None
        if len(meant) == 1 and self._chance.random() < 0.15:
            above = self._last_said(place, meant[0])
        message = await place.room.say(by or self._somebody(place), text, attachments=files, reply_to=above)
        for mark, persona in zip(marks, meant, strict=True):
            self._ledger.ask(Question(mark, persona, place.room, message))

    def _calling(self, place: Place, meant: tuple[str, ...]) -> str:
        if place.partner is not None:
            return ""
        if meant == place.personas[:1] and self._chance.random() < 0.5:
            return self._discord.bot.mention
        return " ".join(f"{persona}," for persona in meant)

    def _files(self) -> list[Upload]:
        chance = self._chance.random()
        if chance < 0.04:
            return [Upload("notes.txt", "text/plain", (self._words(80) + "\n").encode() * 3)]
        return [Upload("picture.png", "image/png", _PIXEL)] if chance < 0.07 else []

    def _last_said(self, place: Place, persona: str) -> FakeMessage | None:
        """The last post there of that persona, if it is one of the last messages."""
        shown = persona.capitalize()
        newest = place.room.page(5)
        return next((one for one in newest if one.application_id and one.shown == shown), None)

    async def _burst(self, place: Place) -> None:
        somebody = self._somebody(place)
        for _ in range(self._chance.randrange(2, 5)):
            await self._ask(place, by=somebody if self._chance.random() < 0.7 else None)
            await asyncio.sleep(self._chance.uniform(0, 0.4))

    async def _chat(self, place: Place) -> None:
        if place.partner is None:
            await place.room.say(self._somebody(place), f"o{self._ledger.next_number()} {self._words(30)}")

    async def _type(self, place: Place) -> None:
        for _ in range(self._chance.randrange(1, 6)):
            await place.room.start_typing(self._somebody(place))

    async def _edit(self, place: Place) -> None:
        if questions := self._ledger.open_in(place.room) or self._newest(place):
            message = self._chance.choice(questions).message
            if not message.deleted:
                await place.room.edit(message, f"{message.content} {self._words(4)}")

    async def _delete(self, place: Place) -> None:
        if questions := self._ledger.open_in(place.room) or self._newest(place):
            message = self._chance.choice(questions).message
            if not message.deleted:
                self._ledger.excuse((one for one in questions if one.message is message), "deleted")
                await place.room.delete(message)

    async def _react(self, place: Place) -> None:
        if newest := place.room.page(3):
            await place.room.react(self._somebody(place), newest[-1], "🥞")

    def _newest(self, place: Place) -> list[Question]:
        """The last question there, answered or not."""
        ids = {message.id for message in place.room.page(5)}
        return [one for one in self._ledger.recent(200) if one.message.id in ids][-1:]

    # The commands that they use.

    async def _reset(self, place: Place) -> None:
        self._ledger.excuse(self._ledger.open_in(place.room), "reset")
        await self._used("reset", place, self._town.boss)
        self._ledger.excuse(self._ledger.open_in(place.room), "reset")

    async def _stop(self, place: Place) -> None:
        self._ledger.excuse(self._ledger.open_in(place.room), "stopped")
        await self._used("stop", place, self._somebody(place))
        self._ledger.excuse(self._ledger.open_in(place.room), "stopped")

    async def _status(self, place: Place) -> None:
        await self._used("status", place, self._somebody(place))

    async def _export(self, place: Place) -> None:
        await self._used("export me", place, self._somebody(place))

    async def _forget(self, place: Place) -> None:
        somebody = self._somebody(place)
        begun = await self._used("forget me", place, somebody)
        if begun is None or begun.original is None or not begun.original.components:
            return
        asked = begun.original
        button = asked.components[0]["components"][0]["custom_id"]
        self._excuse_all_of(somebody)
        await self._discord.press(somebody, asked, button)
        with suppress(TimeoutError):
            await self._discord.wait_for(lambda: not asked.components, _ANSWER_SECONDS)
        self._excuse_all_of(somebody)

    def _excuse_all_of(self, somebody: User) -> None:
        """Theirs, and those that were being answered with theirs."""
        for place in self._town.places:
            questions = self._ledger.open_in(place.room)
            mine = {one.persona for one in questions if one.message.author is somebody}
            self._ledger.excuse((one for one in questions if one.persona in mine), "forgotten")

    async def _used(self, line: str, place: Place, by: User) -> Interaction | None:
        """Use a command; None where nothing came of it, as when the bot is not connected just then."""
        try:
            begun = await self._discord.slash(by, place.room, line)
            await begun.answered(_ANSWER_SECONDS)
        except (LookupError, TimeoutError):
            self.unanswered[line] += 1
            return None
        return begun
