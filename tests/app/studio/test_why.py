"""Why a past reply is as it is, as operators read it over HTTP."""

from pathlib import Path
from typing import Any

from pixi.app.studio import why
from pixi.core.memory import Memory
from tests.app.scene import persona_file
from tests.app.studio.desk import ANN, DIRECT, MO, ROOM, Desk, desk_in
from tests.servers.scripted_openai import Reply, Seen, call, finish, stream, usage

REMEMBERING = "---\nname: Pixi\ntools: [recall, remember]\n---\n\nYou are Pixi.\n"


async def told(desk: Desk, number: int = -1, address: str = ROOM) -> Any:
    """Why a turn is as it is, counted from the first."""
    records = await desk.service.store.turns(address, 100)
    return await desk.get(f"/api/studio/why/{records[number].id}")


async def test_a_reply_is_told_with_its_request_and_what_became_of_it(tmp_path: Path) -> None:
    seen: list[Seen] = []

    def choose(asked: Seen) -> Reply:
        seen.append(asked)
        return stream("[NOTE: they are kind]\n[SEND: Hello there.]\n[REACT: 🐙]", finish(), usage(100, 10))

    async with desk_in(tmp_path, [why.routes], choose=choose) as desk:
        await desk.say("hi")
        await desk.say("and > you?", by=ANN, number=2)
        answer = await told(desk)
    system, first, reply, second = seen[-1].json()["messages"]
    assert answer["certain"] == "same"
    assert (answer["hidden"], answer["finish"], answer["steps"]) == (False, "stop", 1)
    assert (answer["persona"], answer["model"], answer["usage"]["prompt_tokens"]) == ("Pixi", "first", 100)
    assert [line["text"] for line in answer["prefix"]] == [system["content"]]
    ((was, now),) = [turn["lines"] for turn in answer["history"]]
    assert (was["text"], now["text"]) == (first["content"], reply["content"])
    assert answer["said"]["text"] == second["content"]
    words = [part["text"] for part in answer["said"]["parts"] if part["kind"] == "words"]
    assert words == ["> and > you?"]
    assert [(act["command"], act["kind"], act["outcome"]) for act in answer["acts"]] == [
        ("[NOTE: they are kind]", "", "done"),
        ("[SEND: Hello there.]", "send", "done"),
        ("[REACT: 🐙]", "react", "done"),
    ]
    assert answer["raw"] == []
    assert {command["name"] for command in answer["commands"]} >= {"send", "react", "note"}
    assert set(answer["tokens"]) == {"prefix", "tools", "history", "said", "reply"}


async def test_what_came_to_mind_is_told_with_the_words_that_brought_it(tmp_path: Path) -> None:
    persona_file(tmp_path, "pixi", REMEMBERING)
    async with desk_in(tmp_path, [why.routes]) as desk:
        fact = Memory(0, "Pixi", MO.id, "", ROOM, "one", "has a cat called Minka", 1.0)
        await desk.service.store.remember(fact)
        await desk.say("how is my cat?")
        (reminder,) = (await told(desk))["reminders"]
        assert reminder["about"] == "Mo"
        assert (reminder["kind"], reminder["about"], reminder["text"]) == ("memory", "Mo", fact.text)
        assert reminder["words"] == ["cat"]
        assert reminder["score"] > 0
        assert reminder["known"]
        (memory,) = await desk.service.store.memories(MO.id, "Pixi")
        await desk.service.store.drop_memories([memory.id])
        (reminder,) = (await told(desk))["reminders"]
        assert not reminder["known"]


async def test_each_request_of_a_turn_with_tools_is_told(tmp_path: Path) -> None:
    persona_file(tmp_path, "pixi", REMEMBERING)

    def choose(asked: Seen) -> Reply:
        if asked.json()["messages"][-1]["role"] == "tool":
            return stream("[SEND: nothing]", finish())
        return stream(call("recall", '{"query": "tea"}', index=0, call_id="c1"), finish("tool_calls"))

    async with desk_in(tmp_path, [why.routes], choose=choose) as desk:
        await desk.say("what do I like?")
        answer = await told(desk)
    assert [request["lines"] for request in answer["requests"]] == [2, 4]
    assert [line["role"] for line in answer["reply"]] == ["assistant", "tool", "assistant"]
    assert answer["reply"][0]["calls"][0]["arguments"] == '{"query": "tea"}'
    assert {"recall", "remember"} <= {tool["name"] for tool in answer["tools"]}


async def test_what_changed_since_is_said(tmp_path: Path) -> None:
    persona_file(tmp_path, "pixi", REMEMBERING)
    async with desk_in(tmp_path, [why.routes]) as desk:
        await desk.say("hi")
    persona_file(tmp_path, "pixi", REMEMBERING.replace("You are Pixi.", "You are Pixi, by now."))
    async with desk_in(tmp_path, [why.routes]) as desk:
        answer = await told(desk)
        assert (answer["certain"], answer["changed"]) == ("changed", ["prefix"])
        await desk.service.engine.forget(MO.id)
        answer = await told(desk)
        assert answer["certain"] == "forgotten"
        assert (answer["said"], answer["reply"], answer["history"]) == (None, [], [])


async def test_a_turn_in_private_is_told_without_a_word(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [why.routes]) as desk:
        await desk.say("my secret", DIRECT)
        answer = await told(desk, address=DIRECT)
        assert answer["hidden"]
        assert answer["usage"]["prompt_tokens"] == 100
        assert (answer["said"], answer["reply"], answer["prefix"], answer["acts"]) == (None, [], [], [])
    async with desk_in(tmp_path, [why.routes], "[studio]\nprivate = true\n") as desk:
        assert "my secret" in (await told(desk, address=DIRECT))["said"]["text"]
        (record,) = await desk.service.store.audit(9)
        assert record.deed.tool == "studio.open"


async def test_a_turn_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [why.routes]) as desk:
        for number in ("7", "x", "9" * 30, "-1", "²"):
            status, answer = await desk.ask("GET", f"/api/studio/why/{number}")
            assert (status, answer["title"]) == (404, "No such turn"), number
