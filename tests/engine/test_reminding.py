"""What comes back by itself: what fits, once, briefly, to whoever may hear it, and never at any price."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from pixi.core.memory import Memory
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.text.relevance import Relevant, most_relevant
from tests.addons.remembering import ANN, MO, PIXI, VENUES, Talks, talks
from tests.engine.gate import FULL, Gate
from tests.waiting import until


@pytest.fixture
async def here() -> AsyncIterator[Talks]:
    async with talks() as made:
        yield made


async def told(
    here: Talks, *facts: str, where: str = "lobby", person: str = MO.id, persona: str = "Pixi"
) -> None:
    """Facts that were told some time ago, in another guild unless it is said where."""
    venue = VENUES[where]
    for number, fact in enumerate(facts):
        await here.store.remember(
            Memory(0, persona, person, venue.guild, f"long ago {where}", venue.audience, fact, float(number))
        )


def facts(line: str) -> list[str]:
    """What a line reminds of."""
    blocks = re.findall(r"^you remember of .*:\n((?:> .*\n)*)", line, re.MULTILINE)
    return [row.removeprefix("> ") for block in blocks for row in block.splitlines()]


async def test_what_fits_is_in_the_new_line_and_in_no_later_one(here: Talks) -> None:
    await told(here, "has a cat called Mimi", "likes tea", where="dm")
    first = await here.say(MO, "dm", "guess what my cat did")
    assert first == (
        'Thursday 1 January 2026, 12:00\nyou remember of "Mo" (id 11):\n> has a cat called Mimi\n'
        "> guess what my cat did"
    )
    assert facts(await here.say(MO, "dm", "and what the cat did then")) == []
    before, after = (request.lines for request in here.here.model.requests)
    assert after[: len(before)] == before, "what was stamped is never rendered again"


async def test_it_asks_no_model_and_counts_as_a_use(here: Talks) -> None:
    await told(here, *(f"{hash((number, 1)):x} is a book" for number in range(199)), "has a cat", where="dm")
    await here.say(MO, "dm", "where is the cat?")
    assert len(here.here.model.requests) == 1
    await told(here, "likes tea", "likes rum", where="dm")
    assert "has a cat" in [one.text for one in await here.store.memories(MO.id, "Pixi")]


async def test_at_most_three_and_no_more_than_400_characters(here: Talks) -> None:
    await told(
        here, *(f"{color} is a color of the cat" for color in ("red", "blue", "grey", "green")), where="dm"
    )
    assert len(facts(await here.say(MO, "dm", "my cat!"))) == 3
    await told(here, *(f"{name} {'x' * 250} is the dog" for name in ("Rex", "Max")), where="dm")
    assert len(facts(await here.say(MO, "dm", "my dog!"))) == 1


async def test_small_talk_reminds_of_nothing(here: Talks) -> None:
    await told(here, "has a cat called Mimi", "likes to tell about the sea", where="dm")
    for text in ("hi", "what do you know about me?", "i like you", "🥞"):
        assert facts(await here.say(MO, "dm", text)) == []


async def test_of_what_stands_in_the_talk_anyway_nobody_is_reminded(here: Talks) -> None:
    await here.call(MO, "dm", "remember", fact='says "meow" to his cat')
    assert facts(await here.say(MO, "dm", "the cat says meow")) == []
    await here.here.engine.reset("test:dm:11")
    assert facts(await here.say(MO, "dm", "the cat says meow")) == ['says "meow" to his cat']
    await told(here, "owns the pink boat", where="dm")
    assert facts(await here.say(MO, "dm", "he who owns the pink boat am i")) == []


async def test_each_who_is_answered_is_told_apart(here: Talks) -> None:
    await told(here, "has a cat called Mimi", where="general")
    await told(here, "has a dog called Rex", where="general", person=ANN.id)
    here.here.engine.settings.gather_seconds = 0.05
    here.here.model.add("[SEND: ok]")
    channel = here.place("games", MO)
    for who, text in ((MO, "my cat"), (ANN, "my dog, and his cat")):
        await here.here.engine.receive(channel.message(text, author=who, group=True), channel)
    await here.here.engine.settled()
    assert sorted(here.user_line().splitlines()[1:]) == sorted(
        [
            'you remember of "ann" (id 12):',
            "> has a dog called Rex",
            'you remember of "Mo" (id 11):',
            "> has a cat called Mimi",
            '#1 "Mo" (id 11):',
            "> my cat",
            '#2 "ann" (id 12):',
            "> my dog, and his cat",
        ]
    )


async def test_of_whom_it_only_overhears_it_is_not_reminded(here: Talks) -> None:
    await told(here, "has a cat called Mimi", where="general")
    here.here.model.add("[SEND: ok]", "[SEND: ok]")
    await here.say(ANN, "games", "hello")
    channel = here.place("games", MO)
    overheard = replace(channel.message("my cat", author=MO, group=True), addressed=False)
    await here.here.engine.receive(overheard, channel)
    line = await here.say(ANN, "games", "what a cat")
    assert "> my cat" in line
    assert facts(line) == []


@pytest.mark.parametrize(
    ("persona", "traits"),
    [
        (Persona("Pixi", "x", tools=("remember",)), Traits(context_tokens=50_000)),
        (Persona("Pixi", "x"), Traits(context_tokens=50_000)),
        (PIXI, Traits(context_tokens=50_000, small=True)),
        (Persona("Captain", "x", tools=("recall",)), Traits(context_tokens=50_000)),
    ],
)
async def test_who_cannot_recall_or_is_small_or_another_is_not_reminded(
    persona: Persona, traits: Traits
) -> None:
    async with talks(persona=persona, traits=traits) as here:
        await told(here, "has a cat called Mimi", where="dm")
        assert "Mimi" not in await here.say(MO, "dm", "my cat")


async def test_a_store_that_fails_there_leaves_the_reminder_out(store: SqliteStore) -> None:
    Gate(store, "memories", error=FULL)
    async with talks(store=store) as here:
        assert await here.say(MO, "dm", "my cat") == "Thursday 1 January 2026, 12:00\n> my cat"
        assert here.place("dm", MO).sent == ["ok"]
        assert await here.call(MO, "dm", "recall") == "recall could not be carried out."


async def test_the_loop_does_not_wait_for_it(here: Talks, monkeypatch: pytest.MonkeyPatch) -> None:
    await told(
        here,
        *(f"{hash((number, 2)):x} of {hash((number, 3)):x} is a cat" for number in range(200)),
        where="dm",
    )
    threads: list[str] = []

    def watched(query: str, texts: Sequence[str]) -> list[Relevant]:
        threads.append(threading.current_thread().name)
        return most_relevant(query, texts)

    monkeypatch.setattr("pixi.text.relevance.most_relevant", watched)
    await here.say(MO, "dm", "cat? " * 200)
    assert threads
    assert threading.main_thread().name not in threads


async def test_whoever_is_forgotten_is_cut_out_of_what_others_were_told_along_with(
    store: SqliteStore,
) -> None:
    async with talks(store=store) as here:
        await told(here, "has a cat called Canary", where="general")
        await told(here, "has a dog called Rex", where="general", person=ANN.id)
        here.here.engine.settings.gather_seconds = 0.05
        here.here.model.add("[SEND: ok]")
        channel = here.place("games", MO)
        for who, text in ((MO, "my cat"), (ANN, "my dog")):
            await here.here.engine.receive(channel.message(text, author=who, group=True), channel)
        await here.here.engine.settled()
        assert "Canary" in here.user_line()
        await here.here.engine.forget(MO.id)
        (line, *_) = (await store.load("test:games")).lines
        assert line.text == (
            'Thursday 1 January 2026, 12:00\nyou remember of "ann" (id 12):\n> has a dog called Rex\n'
            '#2 "ann" (id 12):\n> my dog'
        )
        since = len(here.here.model.requests)
        await here.say(ANN, "games", "and the cat?")
        await here.say(MO, "games", "my cat")
        assert "Canary" not in here.shown_in(since=since)


async def test_a_message_that_is_taken_back_takes_its_reminder_along(store: SqliteStore) -> None:
    """The line is stamped anew then, without any."""
    async with talks(store=store) as here:
        await told(here, "has a cat called Mimi", where="dm")
        go_on = asyncio.Event()
        here.here.model.add(["[SEND: oh]", go_on, "[SEND: ah]"])
        channel = here.place("dm", MO)
        message = channel.message("my cat", author=MO)
        await here.here.engine.receive(message, channel)
        await until(lambda: channel.sent == ["oh"])
        assert "Mimi" in here.user_line()
        await here.here.engine.withdraw(message.conversation, message.id)
        go_on.set()
        await here.here.engine.settled()
        assert "Mimi" not in "".join(line.text for line in (await store.load(message.conversation)).lines)
