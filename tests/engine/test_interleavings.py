"""Everything that can happen to a conversation happens at once: nothing is lost, left over, or never ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from random import Random

import pytest

from pixi.core.channel import Channel
from pixi.core.errors import StoreError
from pixi.core.events import Failed
from pixi.core.llm import Delta, Finished, Request, Text
from pixi.core.message import Author, Message
from pixi.engine import Engine
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel
from tests.engine.scene import PIXI
from tests.rows import row, seeds
from tests.waiting import within

_REPLIES = ("[SEND: a]\n[SEND: b]", "[NOTE: hm]", "[SEND: c]", "[REACT: 🥞]\n[SEND: d]")


async def a_while(chance: Random, rounds: int) -> None:
    """Let others have their turn, so many times or fewer."""
    for _ in range(chance.randrange(rounds)):
        await asyncio.sleep(0)


class LateStore(SqliteStore):
    """Answers later than it did what it was asked for."""

    chance: Random

    async def receive(self, message: Message) -> Message | None:
        recorded = await super().receive(message)
        await a_while(self.chance, 6)
        return recorded

    async def reset(self, conversation: str) -> int:
        generation = await super().reset(conversation)
        await a_while(self.chance, 6)
        return generation

    async def rewind(self, conversation: str, turn: int) -> str:
        beside = await super().rewind(conversation, turn)
        await a_while(self.chance, 6)
        return beside

    async def forget(self, person: str) -> tuple[str, ...]:
        changed = await super().forget(person)
        await a_while(self.chance, 6)
        return changed


class Talker:
    """A model that says one thing or another, now faster and now slower."""

    name, traits = "talker", Traits()

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.streaming = 0

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.streaming += 1
        try:
            await a_while(self._chance, 8)
            for word in self._chance.choice(_REPLIES).split(" "):
                yield Text(f"{word} ")
                await a_while(self._chance, 4)
            yield Finished()
        finally:
            self.streaming -= 1

    async def close(self) -> None: ...


class Crowd:
    """People who write, edit, delete, and ask for everything that can be asked for."""

    def __init__(self, chance: Random, engine: Engine) -> None:
        self._chance = chance
        self._engine = engine
        self._known: list[Message] = []
        self.channels = [RecordingChannel(f"test:{n}", growing=n == 0) for n in range(3)]

    async def act(self) -> None:
        """Do one thing, at some time."""
        chance, engine = self._chance, self._engine
        channel, who = chance.choice(self.channels), chance.choice("123")
        what = chance.choices(
            ("write", "edit", "delete", "reset", "forget", "stop", "take back", "go back", "resume"),
            (11, 2, 2, 1, 1, 1, 2, 1, 1),
        )[0]
        await a_while(chance, 30)
        if what == "write" or not self._known:
            said = channel.message(
                "hello", author=Author(who, f"Mo{who}"), addressed=chance.random() < 0.8, group=True
            )
            self._known.append(said)
            for _ in range(chance.choice((1, 1, 1, 2))):
                await engine.receive(said, channel)
            return
        known = chance.choice(self._known)
        match what:
            case "edit":
                await engine.edit(known.conversation, known.id, "hello again")
            case "delete":
                await engine.withdraw(known.conversation, known.id)
            case "reset":
                await engine.reset(channel.conversation)
            case "forget":
                await engine.forget(who)
            case "stop":
                await engine.stop(channel.conversation)
            case "take back":
                for message in await engine.take_back(channel.conversation):
                    again = channel.message(message.text, author=message.author, group=True)
                    await engine.receive(again, channel)
            case "go back":
                if branches := await engine.branches(channel.conversation):
                    with suppress(StoreError):  # somebody went back there just now
                        await engine.restore(channel.conversation, chance.choice(branches))
            case _:
                await engine.resume("test:", 0.0, self._open)

    async def _open(self, address: str) -> Channel | None:
        return next(each for each in self.channels if each.conversation == address)


@pytest.mark.parametrize("some", seeds(10, 300))
async def test_whatever_happens_at_once_nothing_is_left_waiting(some: range) -> None:
    for seed in some:
        with row(f"seed={seed}"):
            await _interleave(seed)


async def _interleave(seed: int) -> None:
    chance = Random(seed)
    store = await LateStore.open(":memory:")
    assert isinstance(store, LateStore)
    store.chance = chance
    model = Talker(chance)
    gather = chance.choice((0.0, 0.0, 0.001))
    before = asyncio.all_tasks()
    async with Engine(model=model, persona=PIXI, store=store, keep=2, gather_seconds=gather) as engine:
        crowd = Crowd(chance, engine)
        async with within("the end of all"):
            await asyncio.gather(*(crowd.act() for _ in range(chance.randrange(5, 40))))
            await engine.settled()
        for channel in crowd.channels:
            saved = await store.load(channel.conversation)
            assert not [message for message in saved.waiting if message.addressed]
            assert not saved.unfinished
            assert not [event for event in channel.events if isinstance(event, Failed)]
            assert len(channel.nonces) == len(set(channel.nonces))
        assert await store.unanswered("test:", 0.0) == (), "nor beside a talk"
    await store.close()
    assert model.streaming == 0
    assert asyncio.all_tasks() == before
