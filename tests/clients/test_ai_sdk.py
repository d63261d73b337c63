"""AI SDK's own chat, of three versions, talks to a persona as a page does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pixi.core.errors import ModelError
from pixi.core.llm import ToolCall
from pixi.core.message import Card
from pixi.core.persona import Persona
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.channels.http.booking import CALLED, booking
from tests.channels.http.served import PERSONAS, Served, served
from tests.clients.client import Client, client, with_node
from tests.waiting import until

pytestmark = [pytest.mark.nightly, with_node]
newer = pytest.mark.parametrize("version", ["ai6", "ai"])
DONE = ["submitted", "streaming", "ready"]


@pytest.fixture(params=["ai5", "ai6", "ai"])
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@asynccontextmanager
async def page(version: str, *replies: Any, **given: Any) -> AsyncGenerator[tuple[Served, Client], None]:
    """A server, and a page with a chat."""
    async with served(*replies, **given) as here, client("ai_sdk.mjs", version, here.url) as chat:
        yield here, chat


async def say(chat: Client, text: str, **more: object) -> Any:
    await chat.do("send", chat="a", text=text, **more)
    return await chat.do("settle", chat="a")


def spoken(message: dict[str, Any]) -> list[str]:
    return [part["text"] for part in message["parts"] if part["type"] == "text"]


def talk(told: dict[str, Any]) -> list[list[str]]:
    return [spoken(message) for message in told["messages"]]


async def test_two_turns_with_several_messages_and_a_reaction(version: str) -> None:
    async with page(version, "[NOTE: thinking][REACT: 🥞][SEND: hey][SEND: you]", "[SEND: two]") as (_, chat):
        first = await say(chat, "hi")
        assert first["error"] == ""
        assert first["statuses"] == DONE
        (mine, reply) = first["messages"]
        assert spoken(reply) == ["hey", "you"]
        assert all(part.get("state", "done") == "done" for part in reply["parts"])
        (reaction,) = [part for part in reply["parts"] if part["type"] == "data-reaction"]
        assert reaction["data"] == {"emoji": "🥞", "message": mine["id"]}
        assert reply["metadata"]["finish"] == "stop"
        assert "thinking" not in str(reply)
        second = await say(chat, "more")
        assert talk(second) == [["hi"], ["hey", "you"], ["more"], ["two"]]
        assert len({message["id"] for message in second["messages"]}) == 4


async def test_silence_is_no_error(version: str) -> None:
    async with page(version, "[NOTE: not for me]") as (_, chat):
        told = await say(chat, "hi")
        assert (talk(told), told["error"], told["statuses"]) == ([["hi"], []], "", DONE)


async def test_a_card_comes_whole(version: str) -> None:
    def setup(addon: Addon) -> None:
        @addon.tool
        async def spot(context: Context) -> Card:
            """Show a spot."""
            return Card("Venice", "by the beach", type="spot_card", data={"rating": 4.6})

    cast = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", tools=("spot",))}
    replies = ([ToolCall("1", "spot", "{}")], "[SEND: there]")
    async with page(version, *replies, addons=[setup], personas=cast) as (_, chat):
        told = await say(chat, "where?")
        (card,) = [part for part in told["messages"][1]["parts"] if part["type"] == "data-card"]
        assert card["data"]["type"] == "spot_card"
        assert card["data"]["data"] == {"rating": 4.6}
        assert card["data"]["fallback"]["title"] == "Venice"
        assert spoken(told["messages"][1]) == ["there"]


async def test_a_reply_is_asked_for_anew(version: str) -> None:
    async with page(version, "[SEND: one]", "[SEND: two]", "[SEND: other two]") as (here, chat):
        await say(chat, "hi")
        await say(chat, "more")
        await chat.do("regenerate", chat="a")
        told = await chat.do("settle", chat="a")
        assert talk(told) == [["hi"], ["one"], ["more"], ["other two"]]
        shown = str(here.model.requests[2].lines)
        assert "[SEND: one]" in shown
        assert "[SEND: two]" not in shown


async def test_an_earlier_reply_is_asked_for_anew(version: str) -> None:
    async with page(version, "[SEND: one]", "[SEND: two]", "[SEND: other one]") as (here, chat):
        first = await say(chat, "hi")
        await say(chat, "more")
        await chat.do("regenerate", chat="a", messageId=first["messages"][1]["id"])
        told = await chat.do("settle", chat="a")
        assert talk(told) == [["hi"], ["other one"]]
        assert "more" not in str(here.model.requests[2].lines[1:])


async def test_an_earlier_message_is_edited(version: str) -> None:
    async with page(version, "[SEND: one]", "[SEND: two]", "[SEND: three]", "[SEND: four]") as (here, chat):
        first = await say(chat, "hi")
        await say(chat, "more")
        edited = await say(chat, "hello", messageId=first["messages"][0]["id"])
        assert talk(edited) == [["hello"], ["three"]]
        assert "more" not in str(here.model.requests[2].lines[1:])
        assert talk(await say(chat, "and?")) == [["hello"], ["three"], ["and?"], ["four"]]
        assert "three" in str(here.model.requests[3].lines[1:])


async def test_who_leaves_the_stream_finds_it_again(version: str) -> None:
    go_on = asyncio.Event()
    async with page(version, ["[SEND: one]", go_on, "[SEND: two]"]) as (here, chat):
        await chat.do("send", chat="a", text="hi")

        async def one() -> bool:
            return ["one"] in talk(await chat.do("peek", chat="a"))

        await until(one)
        await chat.do("stop", chat="a")
        left = await chat.do("settle", chat="a")
        assert (left["error"], left["statuses"][-1]) == ("", "ready")
        assert here.model.streaming == 1  # leaving ends nothing
        await chat.do("reload", chat="a", messages=left["messages"][:1])
        await chat.do("resume", chat="a")
        await until(one)
        go_on.set()
        told = await chat.do("settle", chat="a")
        assert talk(told) == [["hi"], ["one", "two"]]
        assert told["messages"][1]["metadata"]["finish"] == "stop"
        await chat.do("resume", chat="a")  # there is nothing under way any more
        again = await chat.do("settle", chat="a")
        assert (again["messages"], again["error"]) == (told["messages"], "")


async def test_a_stopped_reply_ends_the_stream(version: str) -> None:
    async with page(version, ["[SEND: one]", asyncio.Event()]) as (here, chat):
        await chat.do("send", chat="a", text="hi")

        async def one() -> bool:
            return ["one"] in talk(await chat.do("peek", chat="a"))

        await until(one)
        assert await here.post("/api/chat/a/stop") == (200, {"stopped": True})
        told = await chat.do("settle", chat="a")
        assert (talk(told), told["error"]) == ([["hi"], ["one"]], "")
        assert told["messages"][1]["metadata"]["finish"] == "cancelled"


async def test_what_is_refused_is_told_in_plain_words(version: str) -> None:
    async with page(version) as (_, chat):
        told = await say(chat, "x" * 40_000)
        assert told["statuses"] == ["submitted", "error"]
        assert "at most 32000 characters" in told["error"]
        assert "{" not in told["error"]


async def test_a_turn_that_fails_is_an_error_and_the_talk_goes_on(version: str) -> None:
    async with page(version) as (here, chat):  # the model has no reply
        told = await say(chat, "hi")
        assert told["statuses"][-1] == "error"
        assert told["error"]
        here.model.add("[SEND: back]")
        assert talk(await say(chat, "and now?"))[-1] == ["back"]


async def test_what_was_said_before_a_failure_stays_and_it_can_be_asked_for_anew(version: str) -> None:
    broken = ["[SEND: one]", ModelError("gone", permanent=True)]
    async with page(version, broken, "[SEND: whole]") as (here, chat):
        told = await say(chat, "hi")
        assert (talk(told)[1][0], told["statuses"][-1]) == ("one", "error")
        await chat.do("regenerate", chat="a")
        told = await chat.do("settle", chat="a")
        assert (talk(told), told["statuses"][-1]) == ([["hi"], ["whole"]], "ready")
        assert "one" not in str(here.model.requests[1].lines[1:])


async def test_who_leaves_a_reply_and_says_more_is_answered_that(version: str) -> None:
    go_on = asyncio.Event()
    async with page(version, ["[SEND: one]", go_on, "[SEND: late]"], "[SEND: two]") as (here, chat):
        await chat.do("send", chat="a", text="hi")

        async def one() -> bool:
            return ["one"] in talk(await chat.do("peek", chat="a"))

        await until(one)
        await chat.do("stop", chat="a")
        await chat.do("settle", chat="a")
        await chat.do("send", chat="a", text="more")
        go_on.set()
        told = await chat.do("settle", chat="a")
        assert talk(told) == [["hi"], ["one"], ["more"], ["two"]]
        assert "late" in str(here.model.requests[1].lines[1:])  # it was said, and stands on record


def question(told: dict[str, Any]) -> dict[str, Any]:
    """The part that asks."""
    (part,) = [part for part in told["messages"][-1]["parts"] if part["type"] == "dynamic-tool"]
    assert isinstance(part, dict)
    return part


@newer
@pytest.mark.parametrize("approved", [True, False])
async def test_a_question_is_answered_and_the_reply_goes_on_in_the_same_message(
    version: str, approved: bool
) -> None:
    setup, personas, done = booking()
    replies = (["[SEND: one moment]", *CALLED], "[SEND: so be it]", "[SEND: bye]")
    async with page(version, *replies, addons=[setup], personas=personas) as (_, chat):
        told = await say(chat, "monday please")
        asked = question(told)
        assert (asked["state"], asked["toolName"], done) == ("approval-requested", "book", [])
        assert "monday" in str(asked["input"])
        await chat.do("approve", chat="a", id=asked["approval"]["id"], approved=approved)
        told = await chat.do("settle", chat="a")
        assert done == (["monday"] if approved else [])
        assert (talk(told), told["error"]) == ([["monday please"], ["one moment", "so be it"]], "")
        assert question(told)["state"] == ("output-available" if approved else "output-denied")
        assert talk(await say(chat, "thanks"))[-1] == ["bye"]


@newer
async def test_a_question_is_still_there_on_a_page_that_is_loaded_anew(version: str) -> None:
    setup, personas, done = booking()
    async with page(version, CALLED, "[SEND: so be it]", addons=[setup], personas=personas) as (_, chat):
        told = await say(chat, "monday please")
        await chat.do("reload", chat="a", messages=told["messages"][:1])
        await chat.do("resume", chat="a")
        asked = question(await chat.do("settle", chat="a"))
        assert asked["state"] == "approval-requested"
        await chat.do("approve", chat="a", id=asked["approval"]["id"], approved=True)
        told = await chat.do("settle", chat="a")
        assert (done, talk(told)) == (["monday"], [["monday please"], ["so be it"]])


@pytest.mark.parametrize("version", ["ai5"])
async def test_an_older_page_answers_by_a_request_of_its_own(version: str) -> None:
    setup, personas, done = booking()
    async with page(version, CALLED, "[SEND: so be it]", addons=[setup], personas=personas) as (here, chat):
        await chat.do("send", chat="a", text="monday please")

        async def asked() -> list[dict[str, Any]]:
            parts = (await chat.do("peek", chat="a"))["data"]
            return [part for part in parts if part["type"] == "data-approval"]

        (part,) = await until(asked)
        path = f"/api/chat/a/approvals/{part['id']}"
        assert await here.post(path, {"approved": True}) == (200, {"done": True})
        told = await chat.do("settle", chat="a")
        assert (done, talk(told)) == (["monday"], [["monday please"], ["so be it"]])
