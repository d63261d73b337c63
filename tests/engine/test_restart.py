"""After a restart a talk goes on to the byte; what was left unfinished is laid down as far as it is known."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from pixi.core.channel import TAKEN_OVER
from pixi.core.events import Failed
from pixi.core.llm import AssistantLine, ToolCall, UserLine
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.testing.fakes import Scripted
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.begun import begun
from tests.engine.scene import PIXI, scene
from tests.waiting import until


def message(text: str, number: int, *, addressed: bool = True) -> Message:
    return RecordingChannel().message(text, id=f"m{number}", addressed=addressed)


def dice(addon: Addon) -> None:
    @addon.tool
    async def dice(context: Context) -> str:
        """roll"""
        return "six 🎲"


@pytest.mark.parametrize(
    "traits",
    [Traits(), Traits(context_tokens=1_200), pytest.param(Traits(small=True), marks=pytest.mark.nightly)],
)
async def test_the_talk_goes_on_to_the_byte(tmp_path: Path, traits: Traits) -> None:
    persona = Persona("Pixi", "You are Pixi.", tools=("dice",))
    call = ToolCall("1", "dice", "{ }")
    replies: list[Scripted] = ["[NOTE: hm]\n[SEND: a ] b \\[]", [call, "[SEND: let me see]"], "", "prose"]
    replies += ["[SEND: c", *["[SEND: fine, thanks]"] * 12]
    whole = ScriptedModel(*replies, traits=traits)
    async with scene(whole, persona=persona, addons=[dice]) as here:
        for number in range(14):
            await here.engine.receive(message(f"hello {number} " + "x" * 40, number), here.channel)
            await here.engine.settled()
    parted = ScriptedModel(*replies, traits=traits)
    for number in range(14):
        store = await SqliteStore.open(tmp_path / "pixi.db")
        async with scene(parted, persona=persona, store=store, addons=[dice]) as here:
            await here.engine.receive(message(f"hello {number} " + "x" * 40, number), here.channel)
            await here.engine.settled()
        await store.close()
    assert any("hello 0" in line.text for line in whole.requests[4].lines)
    was_cut = not any("hello 0" in line.text for line in whole.requests[-1].lines)
    assert was_cut == (traits.context_tokens == 1_200)
    assert [request.lines for request in parted.requests] == [request.lines for request in whole.requests]


async def test_a_turn_that_was_broken_off_is_laid_down_as_far_as_it_is_known(store: SqliteStore) -> None:
    first = message("make me a cake", 1)
    first = replace(first, sent_at=first.sent_at - 3_600)  # too long ago for anything to be finished
    await store.receive(first)
    turn = await begun(store, first.conversation, 0, "Pixi", (first.id,))
    await store.intend(turn, 1, "send", "on it [really]")
    await store.settle(turn, 1, "done")
    await store.intend(turn, 2, "react", "🎂")
    await store.settle(turn, 2, "refused")
    await store.intend(turn, 3, "send", "did this arrive?")
    async with scene(ScriptedModel("[SEND: hi]", "[SEND: x]"), store=store) as here:
        await here.engine.receive(message("well?", 2), here.channel)
        await here.engine.settled()
        said, done, new = here.history()
        assert isinstance(said, UserLine)
        assert "make me a cake" in said.text
        assert done == AssistantLine(
            "[SEND: on it [really]]\n[NOTE: [SEND: did this arrive?] may or may not have been seen.]"
        )
        assert "well?" in new.text
        assert "cake" not in new.text
        saved = await store.load(first.conversation)
        assert saved.unfinished == ()


async def test_a_turn_that_had_done_nothing_is_answered_with_the_next_message(store: SqliteStore) -> None:
    for number, text in enumerate(("one", "two")):
        await store.receive(message(text, number))
    await begun(store, message("", 0).conversation, 0, "Pixi", ("m0",))
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        await here.engine.receive(message("three", 3), here.channel)
        await here.engine.settled()
        (said,) = here.history()
        assert all(word in said.text for word in ("one", "two", "three"))
        assert said.text.index("one") < said.text.index("two") < said.text.index("three")


async def test_a_turn_that_another_process_took_over_says_nothing_more(tmp_path: Path) -> None:
    stores = [await SqliteStore.open(tmp_path / "pixi.db") for _ in range(2)]
    go_on = asyncio.Event()
    first = ScriptedModel([go_on, "[SEND: a]"], "[SEND: c]")
    async with scene(first, store=stores[0]) as here:
        await here.engine.receive(message("one", 1), here.channel)
        await until(lambda: here.model.streaming == 1)
        async with scene(ScriptedModel("[SEND: b]"), store=stores[1]) as there:
            await stores[1].lease(here.channel.conversation, take=True)
            await there.resume()
            await there.engine.settled()
        go_on.set()
        await here.engine.settled()
        assert [here.channel.sent, there.channel.sent] == [[], ["b"]]
        assert [event.text for event in here.channel.events if isinstance(event, Failed)] == [TAKEN_OVER]
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
        await here.engine.receive(message("two", 2), here.channel)
        await here.engine.settled()
        assert here.channel.sent == ["c"]
        assert here.replies() == ["[SEND: b]"]
    for store in stores:
        await store.close()


async def test_only_the_latest_overheard_messages_of_the_past_are_told(store: SqliteStore) -> None:
    for number in range(50):
        await store.receive(message(f"chatter {number}.", number, addressed=False))
    async with scene(ScriptedModel("[SEND: hi]", "[SEND: hm]"), store=store) as here:
        await here.engine.receive(message("Pixi?", 100), here.channel)
        await here.engine.settled()
        text = here.history()[-1].text
        assert "chatter 30." in text
        assert "chatter 29." not in text
        assert (await store.load(here.channel.conversation)).waiting == ()


async def test_conversations_that_were_idle_for_long_are_read_again() -> None:
    async with scene(ScriptedModel(*["[SEND: hi]"] * 12), persona=PIXI, keep=2) as here:
        channels = [RecordingChannel(f"test:{number}") for number in range(4)]
        for turn in range(3):
            for channel in channels:
                await here.engine.receive(channel.message(f"hello {turn}"), channel)
                await here.engine.settled()
                assert len(here.history()) == 1 + 2 * turn
        assert len(here.engine._live) <= 3


async def test_what_stands_before_a_message_can_be_read_beforehand(store: SqliteStore) -> None:
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        await here.talk("hello")
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        following = message("and now?", 99)
        lines = await here.engine.prefix(following)
        await here.engine.receive(following, here.channel)
        await here.engine.settled()
        assert here.model.requests[0].lines[:-1] == lines
        assert AssistantLine("[SEND: hi]") in lines
