"""A message that is edited or deleted while the reply to it is written, or before."""

import asyncio

import pytest

from pixi.core.llm import UserLine
from pixi.core.spending import Limits
from pixi.store.sqlite import SqliteStore
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Step
from tests.engine.gate import Gate
from tests.engine.scene import GAMBLER, ROLL, Dice, Scene, scene
from tests.waiting import until


async def streaming(here: Scene, times: int = 1) -> None:
    await until(lambda: here.model.streaming == 1 and len(here.model.requests) == times)


def said(here: Scene) -> str:
    """All that the model was told people had said, in the last request."""
    return "\n".join(line.text for line in here.history() if isinstance(line, UserLine))


# Edited.


async def test_before_anything_was_seen_the_new_text_is_answered(store: SqliteStore) -> None:
    async with scene(ScriptedModel([asyncio.Event()], "[SEND: tea!]", "x"), store=store) as here:
        message = await here.say("coffee?")
        await streaming(here)
        await here.engine.edit(message.conversation, message.id, "tea?")
        await here.engine.settled()
        assert here.channel.sent == ["tea!"]
        await here.talk("more")
        assert "tea?" in said(here)
        assert "coffee" not in said(here)
        assert len(here.channel.ended) == 2


async def test_an_edit_that_changes_nothing_interrupts_nothing() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel([go_on, "[SEND: tea!]"], "x")) as here:
        message = await here.say("tea?")
        await streaming(here)
        await here.engine.edit(message.conversation, message.id, "tea?")
        go_on.set()
        await here.engine.settled()
        assert len(here.model.requests) == 1


async def test_a_flood_of_edits_does_not_begin_a_reply_again_for_ever() -> None:
    go_on = asyncio.Event()
    replies: list[list[Step]] = [[go_on, f"[SEND: {number}]"] for number in range(9)]
    async with scene(ScriptedModel(*replies), limits=Limits(restarts=2)) as here:
        message = await here.say("0")
        for number in range(1, 9):
            await streaming(here, min(number, 3))
            await here.engine.edit(message.conversation, message.id, str(number))
        go_on.set()
        await here.engine.settled()
        assert len(here.model.requests) == 3
        assert here.channel.sent == ["2"]


async def test_edits_do_not_use_up_the_restarts_for_newer_messages() -> None:
    never = asyncio.Event()
    model = ScriptedModel([never], [never], "[SEND: both]")
    async with scene(model, limits=Limits(restarts=1)) as here:
        message = await here.say("one")
        await streaming(here)
        await here.engine.edit(message.conversation, message.id, "uno")
        await streaming(here, 2)
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["both"]
        assert "uno" in said(here)
        assert "two" in said(here)


async def test_after_something_was_seen_an_edit_comes_too_late() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]", go_on, "[SEND: b]"], "x")) as here:
        message = await here.say("one")
        await until(lambda: here.channel.sent == ["a"])
        await here.engine.edit(message.conversation, message.id, "uno")
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        await here.talk("more")
        assert "one" in said(here)


async def test_what_waits_behind_a_reply_is_answered_as_it_was_edited() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a", go_on, "]"], "[SEND: b]"), growing=True) as here:
        await here.say("one")
        await until(lambda: "Opened" in here.kinds())
        waits = await here.say("two")
        overheard = await here.say("three", addressed=False)
        await here.engine.edit(waits.conversation, waits.id, "zwei")
        await here.engine.edit(waits.conversation, overheard.id, "drei")
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        assert "zwei" in said(here)
        assert "drei" in said(here)
        assert "two" not in said(here)


async def test_what_waits_in_the_store_alone_is_edited_there(store: SqliteStore) -> None:
    async with scene(ScriptedModel("[SEND: hm]"), store=store) as here:
        message = here.channel.message("by the way", addressed=False)
        await store.receive(message)
        await here.engine.edit(message.conversation, message.id, "never mind")
        await here.talk("Pixi?")
        assert "never mind" in said(here)
        assert "by the way" not in said(here)


@pytest.mark.parametrize("known", [False, True])
async def test_an_edit_while_the_message_is_being_recorded_counts(known: bool) -> None:
    async with scene(ScriptedModel(*["[SEND: hi]"] * 3)) as here:
        if known:
            await here.talk("hello")
        message = here.channel.message("one")
        await asyncio.gather(
            here.engine.receive(message, here.channel),
            here.engine.edit(message.conversation, message.id, "uno"),
        )
        await here.engine.settled()
        assert "uno" in said(here)
        assert "one" not in said(here)


async def test_tools_that_ran_are_not_run_again_for_an_edit() -> None:
    dice = Dice(held=True)
    async with scene(ScriptedModel([ROLL], "[SEND: six]"), persona=GAMBLER, addons=[dice.setup]) as here:
        message = await here.say("roll!")
        await until(lambda: dice.rolls == 1)
        await here.engine.edit(message.conversation, message.id, "roll?")
        dice.may.set()
        await here.engine.settled()
        assert dice.rolls == 1
        assert here.channel.sent == ["six"]


# Deleted.


async def test_a_reply_to_a_deleted_message_ends_with_nothing(store: SqliteStore) -> None:
    async with scene(ScriptedModel(["[SEND: a", asyncio.Event()], "[SEND: hi]"), store=store) as here:
        message = await here.say("my secret")
        await until(lambda: here.channel.typed == 1)
        await here.engine.withdraw(message.conversation, message.id)
        await here.engine.settled()
        assert here.channel.sent == []
        assert [ended.finish for ended in here.channel.ended] == ["cancelled"]
        assert len(here.model.requests) == 1
        saved = await store.load(message.conversation)
        assert (saved.lines, saved.waiting, saved.unfinished) == ((), (), ())
        await here.talk("hello")
        assert "secret" not in said(here)
        assert here.channel.sent == ["hi"]


async def test_what_else_waits_is_answered_though_one_was_deleted() -> None:
    model = ScriptedModel([asyncio.Event()], "[SEND: for two]", "x")
    async with scene(model, limits=Limits(restarts=0)) as here:
        message = await here.say("one")
        await streaming(here)
        await here.say("two")
        await here.engine.withdraw(message.conversation, message.id)
        await here.engine.settled()
        assert here.channel.sent == ["for two"]
        assert "one" not in said(here)


@pytest.mark.parametrize("deleted", [0, 1])
async def test_of_two_that_are_answered_together_the_other_still_is(store: SqliteStore, deleted: int) -> None:
    async with scene(ScriptedModel([asyncio.Event()], [asyncio.Event()], "[SEND: b]"), store=store) as here:
        texts = ("one", "two")
        first = await here.say(texts[0])
        await streaming(here)
        messages = (first, await here.say(texts[1]))
        await streaming(here, 2)
        await here.engine.withdraw(first.conversation, messages[deleted].id)
        await here.engine.settled()
        assert here.channel.sent == ["b"]
        assert texts[deleted] not in said(here)
        assert texts[1 - deleted] in said(here)
        assert (await store.load(first.conversation)).waiting == ()


async def test_after_something_was_seen_a_deletion_stops_the_reply_and_what_was_said_stands(
    store: SqliteStore,
) -> None:
    async with scene(ScriptedModel(["[SEND: a]\n[SEND: b", asyncio.Event()], "x"), store=store) as here:
        message = await here.say("my secret")
        await until(lambda: here.channel.sent == ["a"])
        await here.engine.withdraw(message.conversation, message.id)
        await here.engine.settled()
        assert here.channel.sent == ["a"]
        assert here.channel.ended[0].finish == "cancelled"
        await here.talk("more")
        assert here.replies() == ["[SEND: a]"]
        assert "secret" not in said(here)
        saved = await store.load(message.conversation)
        assert not any("secret" in line.text for line in saved.lines)


@pytest.mark.parametrize("seen", [False, True])
async def test_an_overheard_message_that_is_deleted_ends_nothing_and_is_not_kept(seen: bool) -> None:
    go_on = asyncio.Event()
    reply: list[Step] = ["[SEND: a]" if seen else "[NOTE: hm]", go_on, "[SEND: b]"]
    async with scene(ScriptedModel(reply, "x")) as here:
        overheard = await here.say("a rumour", author="Ana", addressed=False)
        await here.say("Pixi?")
        await until(lambda: len(here.channel.events) == 1)
        await here.engine.withdraw(overheard.conversation, overheard.id)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == (["a", "b"] if seen else ["b"])
        await here.talk("more")
        assert "rumour" not in said(here)
        assert "Pixi?" in said(here)


async def test_an_overheard_message_that_was_deleted_does_not_break_a_restart() -> None:
    async with scene(ScriptedModel([asyncio.Event()], "[SEND: both]")) as here:
        overheard = await here.say("a rumour", author="Ana", addressed=False)
        await here.say("one")
        await streaming(here)
        await here.engine.withdraw(overheard.conversation, overheard.id)
        await here.say("two")
        await here.engine.settled()
        assert here.channel.sent == ["both"]
        assert "rumour" not in said(here)
        assert here.kinds() == ["Sent", "TurnEnded"]


@pytest.mark.parametrize("known", [False, True])
async def test_a_message_that_is_deleted_while_it_is_being_recorded_is_not_answered(known: bool) -> None:
    async with scene(ScriptedModel(*["[SEND: hi]"] * 3)) as here:
        if known:
            await here.talk("hello")
        message = here.channel.message("one")
        await asyncio.gather(
            here.engine.receive(message, here.channel), here.engine.withdraw(message.conversation, message.id)
        )
        await here.engine.settled()
        assert len(here.channel.sent) == known
        assert "Failed" not in here.kinds()


async def test_a_message_that_is_deleted_while_others_are_gathered_is_not_answered() -> None:
    async with scene(ScriptedModel("[SEND: hi]"), gather_seconds=0.03) as here:
        message = await here.say("one")
        await here.engine.withdraw(message.conversation, message.id)
        await here.engine.settled()
        assert here.model.requests == []


async def test_what_waits_in_the_store_alone_is_deleted_there(store: SqliteStore) -> None:
    async with scene(ScriptedModel("[SEND: hm]"), store=store) as here:
        message = here.channel.message("by the way", addressed=False)
        await store.receive(message)
        await here.engine.withdraw(message.conversation, message.id)
        await here.talk("Pixi?")
        assert "by the way" not in said(here)


async def test_deletions_and_edits_of_what_was_answered_or_never_came_do_nothing() -> None:
    async with scene(ScriptedModel("[SEND: a]", "x")) as here:
        message = await here.say("one")
        await here.engine.settled()
        for name in (message.id, "never"):
            await here.engine.withdraw(message.conversation, name)
            await here.engine.edit(message.conversation, name, "changed")
        await here.talk("more")
        assert "one" in said(here)


async def test_messages_edits_and_deletions_all_at_once_end_in_peace(store: SqliteStore) -> None:
    async with scene(ScriptedModel(*["[SEND: ok]"] * 200), store=store) as here:
        for number in range(25):
            messages = [here.channel.message(f"{number}-{each}") for each in range(4)]
            await asyncio.gather(
                *(here.engine.receive(message, here.channel) for message in messages),
                here.engine.withdraw(messages[0].conversation, messages[number % 4].id),
                here.engine.edit(messages[0].conversation, messages[(number + 1) % 4].id, f"{number}-new"),
                here.engine.stop(messages[0].conversation),
            )
            await here.engine.settled()
        assert "Failed" not in here.kinds()
        saved = await store.load(here.channel.conversation)
        assert (saved.waiting, saved.unfinished) == ((), ())


@pytest.mark.parametrize("change", ["deleted", "edited"])
async def test_a_change_that_is_whole_before_the_message_is_known_to_be_recorded_counts(
    store: SqliteStore, change: str
) -> None:
    late = Gate(store, "receive", after=True, when=lambda message: message.text != "other")
    async with scene(ScriptedModel(*["[SEND: yes]"] * 3), store=store) as here:
        await here.talk("other")  # from here on the conversation is not read from the store again
        message = here.channel.message("coffee?")
        receiving = asyncio.create_task(here.engine.receive(message, here.channel))
        await asyncio.sleep(0.02)
        if change == "deleted":
            await here.engine.withdraw(message.conversation, message.id)
        else:
            await here.engine.edit(message.conversation, message.id, "tea?")
        late.open.set()
        await receiving
        await here.say("other")
        await here.engine.settled()
        assert len(here.channel.sent) > 1, "the other one is answered in any case"
        assert "Failed" not in here.kinds()
        assert "coffee" not in said(here)
        assert ("tea?" in said(here)) == (change == "edited")
        assert not (await store.load(message.conversation)).waiting


@pytest.mark.parametrize("change", ["deleted", "edited"])
async def test_a_change_before_the_message_is_recorded_reaches_who_has_read_it_since(
    store: SqliteStore, change: str
) -> None:
    record, say_so = (
        Gate(store, "receive", after=after, when=lambda message: message.text != "other")
        for after in (False, True)
    )
    never = asyncio.Event()
    async with scene(ScriptedModel([never], *["[SEND: yes]"] * 3), store=store) as here:
        message = here.channel.message("coffee?")
        receiving = asyncio.create_task(here.engine.receive(message, here.channel))
        await asyncio.sleep(0.01)
        if change == "deleted":
            await here.engine.withdraw(message.conversation, message.id)
        else:
            await here.engine.edit(message.conversation, message.id, "tea?")
        record.open.set()
        await asyncio.sleep(0.01)
        await here.say("other")  # this turn reads the store, and finds the message as it was
        await streaming(here)
        assert "coffee?" in said(here)
        say_so.open.set()
        await receiving
        await here.engine.settled()
        assert "coffee" not in said(here)
        assert ("tea?" in said(here)) == (change == "edited")
        assert here.channel.sent == ["yes"]


@pytest.mark.parametrize("last", ["tea?", None], ids=["edited", "deleted"])
async def test_of_changes_before_a_message_is_known_to_be_recorded_the_last_counts(
    store: SqliteStore, last: str | None
) -> None:
    late = Gate(store, "receive", after=True, when=lambda message: message.text == "coffee?")
    edits, deletions = (Gate(store, method, when=lambda *_: False) for method in ("revise", "withdraw"))
    never, go_on = asyncio.Event(), asyncio.Event()
    model = ScriptedModel([never], [never], [go_on, "[SEND: yes]"], "x")
    async with scene(model, store=store) as here:
        message = here.channel.message("coffee?")
        receiving = asyncio.create_task(here.engine.receive(message, here.channel))
        await late.reached.wait()
        await here.say("other")  # this turn reads the store, and holds the message, too
        await streaming(here)
        assert "coffee?" in said(here)
        await here.engine.edit(message.conversation, message.id, "cocoa?")
        await streaming(here, 2)
        assert "cocoa?" in said(here)
        if last is None:
            await here.engine.withdraw(message.conversation, message.id)
            await here.engine.edit(message.conversation, message.id, "cocoa!")  # too late
        else:
            await here.engine.edit(message.conversation, message.id, last)
        await streaming(here, 3)
        late.open.set()
        await receiving
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["yes"]
        assert len(here.model.requests) == 3
        assert "other" in said(here)
        assert "cocoa" not in said(here)
        assert ("tea?" in said(here)) == (last is not None)
        # Each as it came; and once more the last one alone, now that the message is on record.
        assert (edits.calls, deletions.calls) == ((2, 2) if last is None else (3, 0))


async def test_an_older_text_that_is_on_its_way_to_the_record_is_not_shown_again(store: SqliteStore) -> None:
    late = Gate(store, "receive", after=True, when=lambda message: message.text == "coffee?")
    never, go_on = asyncio.Event(), asyncio.Event()
    model = ScriptedModel([never], [never], [go_on, "[SEND: yes]"], "x")
    async with scene(model, store=store) as here:
        message = here.channel.message("coffee?")
        receiving = asyncio.create_task(here.engine.receive(message, here.channel))
        await late.reached.wait()
        await here.say("other")  # this turn reads the store, and holds the message, too
        await streaming(here)
        await here.engine.edit(message.conversation, message.id, "cocoa?")
        await streaming(here, 2)
        recording = Gate(store, "revise")
        late.open.set()
        await recording.reached.wait()
        editing = asyncio.create_task(here.engine.edit(message.conversation, message.id, "tea?"))
        await streaming(here, 3)
        recording.open.set()
        await asyncio.gather(receiving, editing)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["yes"]
        assert len(here.model.requests) == 3
        assert "tea?" in said(here)
