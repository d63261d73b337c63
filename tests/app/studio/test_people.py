"""The screens of people and of what is remembered of them."""

import json
from pathlib import Path
from typing import Any

import aiohttp

from pixi.app.studio import people
from pixi.app.studio.rows import OPENED
from pixi.core.memory import Memory
from tests.app.studio.desk import ANN, DIRECT, MO, ROOM, Desk, desk_in

LIST, FACTS = "/api/studio/people", "/api/studio/memories"
SHOWN = "[studio]\nprivate = true"
BUDGET = "[limits]\nperson_messages = 5"


async def told(desk: Desk) -> tuple[Memory, Memory]:
    """Have two people say things, of which facts are remembered."""
    await desk.say("hi all, I have cats", ROOM)
    await desk.say("hush, a secret", DIRECT, ANN, number=2)
    first, _ = await desk.service.store.remember(
        Memory(0, "Pixi", MO.id, "discord:5", ROOM, "all", "They have cats.", 1.7e9)
    )
    second, _ = await desk.service.store.remember(
        Memory(0, "Pixi", ANN.id, "", DIRECT, "one", "They have a secret.", 1.7e9)
    )
    return first, second


async def test_people_are_listed_with_how_much_is_kept(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.routes]) as desk:
        await told(desk)
        shown = await desk.get(LIST)
        assert shown["next"] == ""
        assert shown["people"][0] == {
            "id": ANN.id,
            "name": ANN.name,
            "names": [ANN.name],
            "last": 1.7e9 + 2,
            "messages": 1,
            "conversations": 1,
            "memories": 1,
            "deeds": 0,
            "files": 0,
        }
        assert [each["name"] for each in shown["people"]] == ["Ann", "Mo"]
        assert [each["name"] for each in (await desk.get(f"{LIST}?search=mo"))["people"]] == ["Mo"]
        first = await desk.get(f"{LIST}?limit=1")
        assert [each["name"] for each in first["people"]] == ["Ann"]
        rest = await desk.get(f"{LIST}?limit=1&after={first['next']}")
        assert [each["name"] for each in rest["people"]] == ["Mo"]
        assert (await desk.get(f"{LIST}?limit=1&after={rest['next']}"))["people"] == []


async def test_a_person_is_shown_with_talks_usage_and_what_is_left(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.routes], BUDGET) as desk:
        await told(desk)
        shown = await desk.get(f"{LIST}/{MO.id}")
        assert shown["person"]["name"] == "Mo"
        assert [each["address"] for each in shown["talks"]] == [ROOM]
        assert (shown["today"]["messages"], shown["month"]["messages"], shown["file_bytes"]) == (1, 1, 0)
        assert shown["today"]["person"] == MO.id
        assert shown["shares"] == [{"scope": "person", "kind": "messages", "used": 1, "limit": 5}]
        (talk,) = (await desk.get(f"{LIST}/{ANN.id}"))["talks"]
        assert (talk["address"], talk["hidden"], talk["people"]) == (DIRECT, True, [])
        status, refused = await desk.ask("GET", f"{LIST}/Mo")
        assert (status, refused["title"]) == (404, "No such person"), "a name is nobody's alone"


async def test_an_export_is_that_of_the_command_line(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.routes]) as desk:
        await told(desk)
        shown = await desk.get(f"{LIST}/{MO.id}/export")
        assert shown.pop("withheld") == []
        assert shown == json.loads(json.dumps(await desk.service.store.export(MO.id)))
        assert shown["conversations"][0]["messages"][0]["text"] == "hi all, I have cats"


async def test_an_export_has_no_word_of_talks_in_private(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.routes]) as desk:
        await told(desk)
        shown = await desk.get(f"{LIST}/{ANN.id}/export")
        assert shown["withheld"] == [DIRECT]
        assert shown["conversations"] == [
            {"address": DIRECT, "messages": 1, "answers": 1, "quoted_by_others": 0}
        ]
        assert shown["memories"][0]["told_in"] == DIRECT
        for word in ("secret", "Hello there.", "they are kind"):
            assert word not in json.dumps(shown)
        assert await desk.service.store.audit(9) == ()


async def test_an_export_with_talks_in_private_is_on_record(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.routes], SHOWN) as desk:
        await told(desk)
        shown = await desk.get(f"{LIST}/{ANN.id}/export")
        assert shown["memories"][0]["text"] == "They have a secret."
        (record,) = await desk.service.store.audit(9)
    assert (record.deed.tool, record.deed.conversation, record.deed.person) == (OPENED, DIRECT, "web:desk")


async def test_forgetting_wants_the_name_and_forgets_all(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.routes]) as desk:
        await told(desk)
        path = f"{LIST}/{ANN.id}/forget"
        for wrong in ("Mo", "", "ann"):
            status, refused = await desk.ask("POST", path, {"name": wrong})
            assert (status, refused["title"]) == (422, "Another name")
        assert len(await desk.service.store.people(ANN.id)) == 1
        assert await desk.ask("POST", path, {"name": " Ann "}) == (200, {"conversations": 1, "left": []})
        assert await desk.service.store.people(ANN.id) == ()
        assert await desk.service.store.memories(ANN.id, "Pixi") == ()
        assert [each["name"] for each in (await desk.get(LIST))["people"]] == ["Mo"]
        status, _ = await desk.ask("POST", path, {"name": "Ann"})
        assert status == 404


async def test_forgetting_takes_sent_files_along(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.routes]) as desk:
        key = await desk.key("shop", "chat")
        form = aiohttp.FormData()
        form.add_field("file", b"hello", filename="a.txt", content_type="text/plain")
        async with desk.http.post(f"{desk.url}/api/files", data=form, headers=key) as answer:
            assert answer.status == 200
        folder = tmp_path / "pixi-files"
        assert [path.suffix for path in folder.rglob("*.*")] == [".txt"]
        (person,) = (await desk.get(LIST))["people"]
        assert (person["id"], person["files"], person["last"]) == ("web:shop", 1, None)
        assert (await desk.get(f"{LIST}/web%3Ashop"))["file_bytes"] == 5
        status, _ = await desk.ask("POST", f"{LIST}/web%3Ashop/forget", {"name": "web:shop"})
        assert status == 200
        assert list(folder.rglob("*.*")) == []


async def test_facts_are_listed_and_those_told_in_private_hidden(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.memory_routes]) as desk:
        cats, secret = await told(desk)
        shown = await desk.get(FACTS)
        assert (shown["next"], "Pixi" in shown["personas"]) == (None, True)
        hidden, seen = shown["memories"]
        assert seen == {
            "id": cats.id,
            "persona": "Pixi",
            "person": MO.id,
            "name": "Mo",
            "text": "They have cats.",
            "told": 1.7e9,
            "conversation": ROOM,
            "guild": "discord:5",
            "audience": "all",
            "hidden": False,
        }
        assert (hidden["id"], hidden["text"], hidden["hidden"]) == (secret.id, "", True)
        assert await facts(desk, "search=secret") == [], "nobody learns by looking for it"


async def test_facts_are_searched_and_filtered(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.memory_routes], SHOWN) as desk:
        await told(desk)
        for asked, texts in (
            ("search=CATS", ["They have cats."]),
            ("search=they+have", ["They have a secret.", "They have cats."]),
            ("person=12", ["They have a secret."]),
            ("persona=Pixi", ["They have a secret.", "They have cats."]),
            ("persona=Edda", []),
            ("after=2", ["They have cats."]),
        ):
            assert [each["text"] for each in await facts(desk, asked)] == texts, asked


async def facts(desk: Desk, asked: str) -> list[Any]:
    return list((await desk.get(f"{FACTS}?{asked}"))["memories"])


async def test_one_fact_is_forgotten(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [people.memory_routes]) as desk:
        cats, secret = await told(desk)
        assert await desk.ask("DELETE", f"{FACTS}/{secret.id}") == (200, {"done": True})
        assert [each["id"] for each in await facts(desk, "")] == [cats.id]
        for wrong in ("x", "-1", "٣", "9" * 30):
            status, _ = await desk.ask("DELETE", f"{FACTS}/{wrong}")
            assert status == 404
        assert [each["id"] for each in await facts(desk, "")] == [cats.id]
