"""The screen of talks: listed, searched, read, exported, reset, and given to another persona or model."""

import json
from pathlib import Path
from typing import Any

import pytest

from pixi.app.studio import talks
from pixi.app.studio.rows import OPENED
from pixi.core.message import Author, Message
from pixi.store.kept import ChannelConfig
from tests.app.scene import persona_file
from tests.app.studio.desk import ANN, DIRECT, MO, ROOM, Desk, desk_in, path_of

LIST = "/api/studio/talks"
SHOWN = "[studio]\nprivate = true"


async def chat(desk: Desk, text: str, **headers: str) -> Any:
    """Say something over HTTP, by the key of the operator unless another is given."""
    status, answer = await desk.ask("POST", "/api/chat", {"message": text, "conversation": "one"}, **headers)
    assert status == 200, answer
    return answer


async def test_all_talks_are_listed_and_private_ones_without_a_word(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        await desk.say("hi all", ROOM)
        await desk.say("hush, a secret", DIRECT, ANN, number=2)
        shown = await desk.get(LIST)
        assert (shown["next"], "Pixi" in shown["personas"]) == ("", True)
        direct, room = shown["talks"]
        assert (room["address"], room["channel"], room["place"]) == (ROOM, "discord", "discord:1:77")
        assert (room["persona"], room["model"], room["private"], room["hidden"]) == (
            "Pixi",
            "first",
            False,
            False,
        )
        assert room["people"] == [{"id": MO.id, "name": MO.name, "is_bot": False}]
        assert (room["messages"], room["turns"], room["first"]) == (1, 1, 1.7e9 + 1)
        assert (room["said"], direct["said"]) == ("hi all", "")
        assert (direct["address"], direct["private"], direct["hidden"]) == (DIRECT, True, True)
        assert (direct["people"], direct["turns"], direct["messages"]) == ([], 1, 1)
        whole = await desk.get(path_of(DIRECT))
        assert whole["talk"] == direct
        (turn,) = whole["turns"]
        assert (turn["said"], turn["events"], turn["notes"], turn["finish"]) == ([], [], [], "stop")
        assert "secret" not in json.dumps([shown, whole, await desk.get(f"{LIST}?search=secret")])
        status, refused = await desk.ask("GET", f"{path_of(DIRECT)}/export")
        assert (status, refused["title"]) == (403, "In private")
        assert await desk.service.store.audit(9) == ()


async def test_where_the_settings_show_private_talks_each_opening_is_on_record(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes], SHOWN) as desk:
        await desk.say("hush, a secret", DIRECT, ANN)
        (row,) = (await desk.get(LIST))["talks"]
        assert (row["private"], row["hidden"], row["people"][0]["name"]) == (True, False, "Ann")
        (found,) = (await desk.get(f"{LIST}?search=secret"))["talks"]
        assert found["found"] == {"turn": 1, "by": None, "text": ""}, "to find it is not to open it"
        assert await desk.service.store.audit(9) == ()
        (turn,) = (await desk.get(path_of(DIRECT)))["turns"]
        assert turn["said"][0]["text"] == "hush, a secret"
        await desk.get(f"{path_of(DIRECT)}/export")
        told = [(each.deed.tool, each.deed.arguments) for each in await desk.service.store.audit(9)]
    assert told == [(OPENED, '{"what": "messages"}'), (OPENED, '{"what": "export"}')]


async def test_a_talk_is_read_with_replies_reactions_notes_and_cost(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        await desk.say("hi all", ROOM)
        await desk.say("and you?", ROOM, ANN, number=2)
        whole = await desk.get(path_of(ROOM))
        assert (whole["more"], whole["waiting"], whole["branches"]) == (False, [], [])
        first, second = whole["turns"]
        assert first["said"] == [
            {
                "id": "1",
                "number": 1,
                "author": {"id": MO.id, "name": MO.name, "is_bot": False},
                "text": "hi all",
                "at": 1.7e9 + 1,
                "addressed": True,
                "reply_to": None,
            }
        ]
        assert [(each["event"], each.get("text") or each["emoji"]) for each in first["events"]] == [
            ("send", "Hello there."),
            ("react", "🐙"),
        ]
        assert first["events"][1]["message"] == "1"
        assert (first["notes"], first["persona"], first["model"]) == (["they are kind"], "Pixi", "first")
        assert second["said"][0]["author"]["name"] == "Ann"
        last = await desk.get(f"{path_of(ROOM)}?limit=1")
        assert ([each["id"] for each in last["turns"]], last["more"]) == ([second["id"]], True)
        before = await desk.get(f"{path_of(ROOM)}?limit=1&before={second['id']}")
        assert ([each["id"] for each in before["turns"]], before["more"]) == ([first["id"]], False)


async def test_an_export_has_all_turns_however_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talks, "_AT_ONCE", 2)
    async with desk_in(tmp_path, [talks.routes]) as desk:
        for number in range(1, 6):
            await desk.say(f"no. {number}", ROOM, number=number)
        whole = await desk.get(f"{path_of(ROOM)}/export")
    assert [each["said"][0]["text"] for each in whole["turns"]] == [f"no. {n}" for n in range(1, 6)]
    assert whole["more"] is False


async def test_pages_follow_each_other(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        for number in range(1, 6):
            await desk.say("hi", f"discord:1:{number}:pixi", number=number)
        seen, after = [], ""
        for _ in range(3):
            shown = await desk.get(f"{LIST}?limit=2&after={after}")
            seen += [each["place"] for each in shown["talks"]]
            after = shown["next"]
        assert seen == [f"discord:1:{number}" for number in (5, 4, 3, 2, 1)]
        assert after == ""
        status, refused = await desk.ask("GET", f"{LIST}?after=nonsense")
        assert (status, refused["title"]) == (422, "No such page")


FOUND = [
    ("search=CATS+the", ["discord:1:1"]),
    ("search=hello+there", ["web:desk", "discord:1:2", "discord:1:1"]),
    ("search=Ann", ["discord:1:2"]),
    ("search=1:2", ["discord:1:2"]),
    ("search=horses", []),
    ("person=11", ["discord:1:1"]),
    ("day=2023-11-14", ["discord:1:2", "discord:1:1"]),
    ("day=2023-11-15", []),
    ("channel=http", ["web:desk"]),
    ("persona=Pixi&channel=discord", ["discord:1:2", "discord:1:1"]),
    ("place=discord:1:2", ["discord:1:2"]),
    ("place=web:desk", ["web:desk"]),
]


async def test_talks_are_found_by_words_and_filtered(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes], SHOWN) as desk:
        await desk.say("The cats are here", "discord:1:1:pixi", MO, number=1)
        await desk.say("The dogs are here", "discord:1:2:pixi", ANN, number=2)
        await chat(desk, "good day")
        for asked, places in FOUND:
            shown = await desk.get(f"{LIST}?{asked}")
            assert [each["place"] for each in shown["talks"]] == places, asked


async def test_what_is_found_is_told_with_who_said_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        await desk.say(f"{'x' * 300} needle {'y' * 300}", ROOM)
        (row,) = (await desk.get(f"{LIST}?search=needle"))["talks"]
        assert (row["found"]["turn"], row["found"]["by"]) == (1, "Mo")
        assert row["found"]["text"].startswith("…x")
        assert "needle" in row["found"]["text"]
        assert row["found"]["text"].endswith("y…")
        assert len(row["found"]["text"]) < 170
        (row,) = (await desk.get(f"{LIST}?search=hello+there"))["talks"]
        assert row["found"] == {"turn": 1, "by": None, "text": "Hello there."}


async def test_a_search_that_takes_long_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talks, "_PORTIONS", 2)
    async with desk_in(tmp_path, [talks.routes]) as desk:
        for number in range(1, 4):
            text = "needle" if number == 1 else "straw"
            said = Message(str(number), f"discord:1:{number}:pixi", MO, text, 1.7e9 + number, group=True)
            await desk.service.store.receive(said)
        shown = await desk.get(f"{LIST}?search=needle")
        assert shown["talks"] == []
        shown = await desk.get(f"{LIST}?search=needle&after={shown['next']}")
        assert [each["place"] for each in shown["talks"]] == ["discord:1:1"]


async def test_a_day_that_is_none_is_refused(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        status, refused = await desk.ask("GET", f"{LIST}?day=yesterday")
        assert (status, refused["detail"]) == (422, "day is none: write it as 2026-11-24.")
        status, refused = await desk.ask("GET", path_of("discord:1:404:pixi"))
        assert (status, refused["title"]) == (404, "No such talk")


async def test_half_a_character_does_not_break_a_screen(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        await desk.say("half \ud83d", ROOM, Author("11", "M\ud83do"))
        assert (await desk.get(LIST))["talks"][0]["people"][0]["name"] == "M\ufffdo"
        assert (await desk.get(path_of(ROOM)))["turns"][0]["said"][0]["text"] == "half \ufffd"


async def test_a_talk_is_reset(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        await desk.say("hi all", ROOM)
        status, answer = await desk.ask("POST", f"{path_of(ROOM)}/reset")
        assert (status, answer) == (200, {"done": True})
        (turn,) = await desk.service.store.turns(ROOM, 9)
        assert turn.lines == (), "what is left is that there was one"
        (row,) = (await desk.get(LIST))["talks"]
        assert (row["messages"], row["turns"], row["hidden"]) == (0, 1, True)
        status, _ = await desk.ask("POST", f"{path_of('discord:1:404:pixi')}/reset")
        assert status == 404


async def test_a_branch_is_read_and_not_reset(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes]) as desk:
        await desk.say("hi all", ROOM)
        (turn,) = await desk.service.store.turns(ROOM, 1)
        await desk.service.engine.rewind(ROOM, turn.id)
        await desk.say("anew", ROOM, number=2)
        (branch,) = (await desk.get(path_of(ROOM)))["branches"]
        whole = await desk.get(path_of(branch))
        assert whole["turns"][0]["said"][0]["text"] == "hi all"
        assert whole["place"]["choose"] == []
        status, refused = await desk.ask("POST", f"{path_of(branch)}/reset")
        assert (status, refused["title"]) == (422, "A branch")
        assert [each["address"] for each in (await desk.get(LIST))["talks"]] == [ROOM]


async def test_persona_and_model_of_a_channel_are_chosen_as_by_its_commands(tmp_path: Path) -> None:
    persona_file(tmp_path, "wren")
    async with desk_in(tmp_path, [talks.routes]) as desk:
        await desk.say("hi all", ROOM)
        place = (await desk.get(path_of(ROOM)))["place"]
        assert (place["personas"], place["model"], place["choose"]) == ([], "", ["persona", "model"])
        assert {"id": "wren", "name": "Wren"} in place["all_personas"]
        assert place["all_models"] == ["default", "fast"]
        chosen = {"personas": ["wren", "pixi", "wren"], "model": "fast", "home": True}
        status, place = await desk.ask("PUT", f"{path_of(ROOM)}/place", chosen)
        assert (status, place["personas"], place["model"]) == (200, ["wren", "pixi"], "fast")
        assert place["home"] is True
        assert desk.service.place("discord:1:77:") == ChannelConfig(("wren", "pixi"), "fast", home=True)
        status, place = await desk.ask("PUT", f"{path_of(ROOM)}/place", {"model": "default"})
        assert desk.service.place("discord:1:77:") == ChannelConfig(("wren", "pixi"), "", home=True)
        for wrong, detail in (
            ({"personas": ["nobody"]}, "There is no persona 'nobody'. There is: "),
            ({"model": "none"}, "There is no model 'none'. There is: default, fast."),
        ):
            status, refused = await desk.ask("PUT", f"{path_of(ROOM)}/place", wrong)
            assert status == 422
            assert refused["detail"].startswith(detail)


async def test_a_talk_over_http_is_answered_by_the_model_that_was_chosen_for_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [talks.routes], SHOWN) as desk:
        await chat(desk, "hello")
        (row,) = (await desk.get(LIST))["talks"]
        assert (row["channel"], row["name"], row["model"]) == ("http", "one", "first")
        path = f"{path_of(row['address'])}/place"
        status, refused = await desk.ask("PUT", path, {"personas": ["pixi"]})
        assert (status, refused["title"]) == (409, "Not here")
        status, place = await desk.ask("PUT", path, {"model": "fast"})
        assert (status, place["model"], place["choose"]) == (200, "fast", ["model"])
        await chat(desk, "hello again")
        assert (await desk.get(LIST))["talks"][0]["model"] == "second"
        assert desk.service.models[0] == "default"
