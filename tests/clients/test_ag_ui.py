"""AG-UI's own client, strict in the order of events, talks to a persona."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pixi.core.errors import ModelError
from tests.channels.http.booking import CALLED, booking
from tests.channels.http.served import Served, served
from tests.clients.client import Client, client, with_node
from tests.waiting import until

pytestmark = [pytest.mark.nightly, with_node]


@asynccontextmanager
async def page(*replies: Any, **given: Any) -> AsyncGenerator[tuple[Served, Client], None]:
    """A server, and an agent of AG-UI's."""
    async with served(*replies, **given) as here, client("ag_ui.mjs", here.url) as agent:
        yield here, agent


async def run(agent: Client, run_id: str, **given: object) -> Any:
    """Run once; gives what the client has then."""
    await agent.do("send", thread="a", runId=run_id, **given)
    told = await agent.do("settle", thread="a")
    assert told["warned"] == []
    return told


def said(told: dict[str, Any]) -> list[str]:
    return [message["content"] for message in told["messages"]]


def last(told: dict[str, Any]) -> Any:
    return told["events"][-1]


async def test_two_runs_with_several_messages_and_a_reaction() -> None:
    async with page("[NOTE: pondering][REACT: 🥞][SEND: hey][SEND: you]", "[SEND: two]") as (here, agent):
        told = await run(agent, "r1", id="u1", text="hi")
        assert (said(told), told["failed"]) == (["hi", "hey", "you"], "")
        (reaction,) = [event for event in told["events"] if event["type"] == "CUSTOM"]
        assert (reaction["name"], reaction["value"]["emoji"]) == ("reaction", "🥞")
        assert last(told)["outcome"] == {"type": "success"}
        assert "pondering" not in str(told)
        told = await run(agent, "r2", id="u2", text="more")
        assert said(told) == ["hi", "hey", "you", "more", "two"]
        assert "hey" in str(here.model.requests[1].lines[1:])


async def test_silence_is_a_run_without_messages() -> None:
    async with page("[NOTE: not for me]") as (_, agent):
        told = await run(agent, "r1", id="u1", text="hi")
        assert (said(told), told["failed"], last(told)["type"]) == (["hi"], "", "RUN_FINISHED")


async def test_a_turn_that_fails_is_an_error_of_the_run_and_the_talk_goes_on() -> None:
    async with page() as (here, agent):
        told = await run(agent, "r1", id="u1", text="hi")
        assert last(told)["type"] == "RUN_ERROR"
        assert last(told)["message"]
        here.model.add("[SEND: back]")
        assert said(await run(agent, "r2", id="u2", text="and now?"))[-1] == "back"


async def test_what_was_said_before_a_failure_stays() -> None:
    async with page(["[SEND: one]", ModelError("gone", permanent=True)]) as (_, agent):
        told = await run(agent, "r1", id="u1", text="hi")
        assert (said(told)[1], last(told)["type"]) == ("one", "RUN_ERROR")


async def test_a_client_that_goes_back_is_answered_anew() -> None:
    async with page(*(f"[SEND: answer{n}]" for n in range(4))) as (here, agent):
        first = await run(agent, "r1", id="u1", text="hi")
        second = await run(agent, "r2", id="u2", text="more")
        await agent.do("set", thread="a", messages=second["messages"][:-1])
        assert said(await run(agent, "r3")) == ["hi", "answer0", "more", "answer2"]
        assert "answer1" not in str(here.model.requests[2].lines[1:])
        await agent.do("set", thread="a", messages=first["messages"])
        assert said(await run(agent, "r4", id="u3", text="other")) == ["hi", "answer0", "other", "answer3"]
        assert "more" not in str(here.model.requests[3].lines[1:])


async def test_what_is_refused_is_told() -> None:
    async with page() as (_, agent):
        told = await run(agent, "r1", id="u1", text="x" * 40_000)
        assert told["failed"].startswith("HTTP 422")


async def test_who_leaves_a_run_ends_nothing_and_finds_it_by_the_same_run() -> None:
    go_on = asyncio.Event()
    async with page(["[SEND: one]", go_on, "[SEND: two]"]) as (here, agent):
        await agent.do("send", thread="a", runId="r1", id="u1", text="hi")

        async def one() -> bool:
            return "one" in said(await agent.do("peek", thread="a"))

        await until(one)
        await agent.do("stop", thread="a")
        assert (await agent.do("settle", thread="a"))["failed"] == ""
        assert here.model.streaming == 1
        await agent.do("send", thread="a", runId="r1")
        await until(one)
        go_on.set()
        told = await agent.do("settle", thread="a")
        assert "two" in said(told)
        assert len(here.model.requests) == 1


@pytest.mark.parametrize("approved", [True, False])
async def test_a_question_interrupts_the_run_and_the_answer_goes_on_with_it(approved: bool) -> None:
    setup, personas, done = booking()
    replies = ["[SEND: one moment]", *CALLED], "[SEND: so be it]", "[SEND: bye]"
    async with page(*replies, addons=[setup], personas=personas) as (_, agent):
        told = await run(agent, "r1", id="u1", text="monday please")
        (asked,) = told["pendingInterrupts"]
        assert (last(told)["outcome"]["type"], done) == ("interrupt", [])
        assert asked["metadata"]["tool"] == "book"
        answer = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": approved}}
        told = await run(agent, "r2", resume=[answer])
        assert (done, told["pendingInterrupts"]) == (["monday"] if approved else [], [])
        assert said(told) == ["monday please", "one moment", "so be it"]
        assert said(await run(agent, "r3", id="u2", text="thanks"))[-1] == "bye"


async def test_a_question_that_is_called_off_is_answered_no() -> None:
    setup, personas, done = booking()
    async with page(CALLED, "[SEND: so be it]", addons=[setup], personas=personas) as (_, agent):
        told = await run(agent, "r1", id="u1", text="monday please")
        (asked,) = told["pendingInterrupts"]
        told = await run(agent, "r2", resume=[{"interruptId": asked["id"], "status": "cancelled"}])
        assert (done, said(told)[-1]) == ([], "so be it")
