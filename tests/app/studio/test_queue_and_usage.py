"""The screens of what waits for a yes, and of what was used."""

import asyncio
import json
from pathlib import Path

import pytest

from pixi.app.studio import live, usage
from pixi.core.message import Message
from pixi.testing import RecordingChannel
from tests.app.scene import persona_file
from tests.app.studio.desk import ANN, DIRECT, MO, ROOM, Desk, desk_in
from tests.end_to_end.program import ran
from tests.servers.scripted_openai import Reply, Seen, call, finish, stream
from tests.waiting import until

QUEUE, USED = "/api/studio/queue", "/api/studio/usage"
COMPANION = 'addons = ["companion"]\n'
SPOT = {"name": "Skatepark <b>", "type": "street", "city": "Wexcombe", "description": "By the river."}
TOOL = '''"""A tool that asks first."""

from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context


def setup(addon: Addon) -> None:
    """Register it."""

    @addon.tool(writes=True, approval=True)
    async def book(context: Context, day: str) -> str:
        """Book a table.

        Args:
            day: which one.
        """
        return "booked"
'''


def books(seen: Seen) -> Reply:
    """A model that wants to book a table, and then tells of it."""
    if seen.json()["messages"][-1]["role"] == "tool":
        return stream("[SEND: done]", finish())
    return stream(call("book", '{"day": "monday"}', index=0, call_id="1"), finish("tool_calls"))


async def test_without_the_companion_there_are_no_drafts(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [live.queue_routes]) as desk:
        assert await desk.get(QUEUE) == {"questions": [], "drafts": False}
        assert (await desk.ask("GET", f"{QUEUE}/drafts"))[0] == 404


async def test_drafts_are_decided_as_by_the_companions_own_routes(tmp_path: Path) -> None:
    async with desk_in(tmp_path, [live.queue_routes], head=COMPANION) as desk:
        assert (await desk.get(QUEUE))["drafts"] is True
        ids = []
        for name in ("One <b>", "Two"):
            status, draft = await desk.ask("POST", "/api/spots/draft", SPOT | {"name": name})
            assert status == 200, draft
            ids.append(draft["_id"])
        shown = await desk.get(f"{QUEUE}/drafts")
        assert [each["name"] for each in shown["drafts"]] == ["One <b>", "Two"]
        assert shown["drafts"][0]["submittedBy"] == "web:desk"
        status, draft = await desk.ask("PUT", f"{QUEUE}/drafts/{ids[0]}/approve", {})
        assert (status, draft["status"], draft["decidedBy"]) == (200, "approved", "web:desk")
        status, draft = await desk.ask("PUT", f"{QUEUE}/drafts/{ids[1]}/reject", {"reason": "private ground"})
        assert (status, draft["status"], draft["reason"]) == (200, "rejected", "private ground")
        status, refused = await desk.ask("PUT", f"{QUEUE}/drafts/{ids[1]}/approve", {})
        assert (status, refused["title"]) == (409, "Decided before")
        status, refused = await desk.ask("PUT", f"{QUEUE}/drafts/{ids[0]}/approve", {"userId": "7"})
        assert status == 422, "nobody decides in another's name"
        assert (await desk.get(f"{QUEUE}/drafts"))["drafts"] == []
        every = await desk.get(f"{QUEUE}/drafts?status=all")
        assert {each["_id"]: each["status"] for each in every["drafts"]} == {
            ids[0]: "approved",
            ids[1]: "rejected",
        }
        talks_only = await desk.key("shop", "chat", "approve")
        assert (await desk.ask("GET", f"{QUEUE}/drafts", **talks_only))[0] == 403


@pytest.mark.parametrize(
    ("address", "more", "seen"),
    [(ROOM, "", True), (DIRECT, "", False), (DIRECT, "[studio]\nprivate = true", True)],
)
async def test_open_questions_are_shown_and_stay_the_asked_persons(
    tmp_path: Path, address: str, more: str, seen: bool
) -> None:
    (tmp_path / "table.py").write_text(TOOL)
    persona_file(tmp_path, "pixi", "---\nname: Pixi\ntools: [book]\n---\n\nYou are Pixi.\n")
    said = Message("1", address, MO, "a table, please", 1.7e9, group=address == ROOM)
    head = 'addons = ["table.py"]\n'
    async with desk_in(tmp_path, [live.queue_routes], more, books, head=head) as desk:
        channel = RecordingChannel()
        channel.verdicts = [answered := asyncio.Event(), "yes"]
        await desk.service.receive(said, channel)
        await until(lambda: len(channel.questions) == 1)
        (question,) = (await desk.get(QUEUE))["questions"]
        assert question["id"] == channel.questions[0].nonce
        assert (question["conversation"], question["persona"], question["tool"]) == (address, "Pixi", "book")
        assert (question["does"], question["hidden"]) == ("Book a table.", not seen)
        assert question["arguments"] == ('day: "monday"' if seen else "")
        assert question["person"] == ({"id": MO.id, "name": MO.name, "is_bot": False} if seen else None)
        answered.set()
        await desk.service.engine.settled()
        assert (await desk.get(QUEUE))["questions"] == []


async def used(desk: Desk) -> None:
    await desk.say("hi all", ROOM)
    await desk.say("and you?", ROOM, ANN, number=2)
    await desk.say("psst", DIRECT, ANN, number=3)


@pytest.mark.parametrize("by", ["day", "person", "channel", "guild", "model"])
async def test_usage_is_that_of_the_command_line(tmp_path: Path, by: str) -> None:
    async with desk_in(tmp_path, [usage.routes], TARIFF) as desk:
        await used(desk)
        shown = await desk.get(f"{USED}?days=3&by={by}")
        told = await ran(tmp_path, b"", "usage", "--days", "3", "--by", by, "--json")
        assert shown["rows"] == [json.loads(line) for line in told.out.splitlines()]
        assert shown["by"] == by
        assert len(shown["days"]) == 3
        assert shown["days"][-1]["messages"] == sum(row["messages"] for row in shown["rows"]) == 3
        assert [row["messages"] for row in shown["days"][:2]] == [0, 0]
        names = {MO.id: "Mo", ANN.id: "Ann"}
        assert shown["names"] == (names if by == "person" else {})


TARIFF = """[prices]
first = { prompt = 1000, completion = 2000 }
second = { prompt = 1000, completion = 2000 }
"""


async def test_the_month_and_budgets_are_told(tmp_path: Path) -> None:
    limits = "[limits]\nperson_messages = 4\nchannel_tokens = 100000\nmonth_dollars = 50\n"
    async with desk_in(tmp_path, [usage.routes], limits + TARIFF) as desk:
        await used(desk)
        shown = await desk.get(USED)
        assert len(shown["days"]) == 30
        assert shown["month"]["dollars"] == 50
        assert shown["month"]["used"]["messages"] == 3
        assert shown["month"]["used"]["cost"] > 0
        assert "day" not in shown["month"]["used"]
        assert len(shown["month"]["ends"]) == 10
        persons = [each for each in shown["shares"] if each["scope"] == "person"]
        assert [(each["name"], each["kind"], each["used"], each["limit"]) for each in persons] == [
            (ANN.id, "messages", 2, 4),
            (MO.id, "messages", 1, 4),
        ]
        channels = [each for each in shown["shares"] if each["scope"] == "channel"]
        assert {each["kind"] for each in channels} == {"tokens"}
        assert {each["limit"] for each in channels} == {100000}


async def test_turns_are_told_by_persona(tmp_path: Path) -> None:
    persona_file(tmp_path, "wren")
    async with desk_in(tmp_path, [usage.routes], TARIFF) as desk:
        await used(desk)
        await desk.say("hi", "discord:1:77:wren", number=4)
        pixi, wren = (await desk.get(f"{USED}?by=persona"))["rows"]
        assert (pixi["persona"], pixi["turns"], wren["persona"], wren["turns"]) == ("Pixi", 3, "Wren", 1)
        assert pixi["cost"] > wren["cost"] > 0


@pytest.mark.parametrize("asked", ["days=0", "days=x", "by=hour"])
async def test_a_wrong_question_is_refused(tmp_path: Path, asked: str) -> None:
    async with desk_in(tmp_path, [usage.routes]) as desk:
        status, refused = await desk.ask("GET", f"{USED}?{asked}")
        assert (status, refused["title"]) == (400, "A parameter is wrong")
