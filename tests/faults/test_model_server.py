"""What a model's server can do to us: each fault over sockets, through the whole engine."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pixi.core.spending import Limits
from pixi.models.deadlines import Deadlines
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.faults.promise import QUICK, SORRY, in_turn, nobody_holds, the_promise_is_kept, trouble, well
from tests.servers.model_faults import BEFORE_ANY_WORD, FAULTS, SAID, Fault, served
from tests.servers.scripted_openai import (
    Hang,
    Json,
    Reply,
    Reset,
    Seen,
    Step,
    Wait,
    call,
    error,
    finish,
    stream,
)

pytestmark = pytest.mark.nightly

BROKEN_OFF = "broke the connection off"
WITH_PATIENCE = Deadlines(first=20.0, gap=20.0, turn=60.0)
"""For what is not to end at a deadline, however busy this machine is."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.name) for fault in FAULTS],
)
async def test_a_server_in_trouble(tmp_path: Path, fault: Fault) -> None:
    said = [SORRY] if fault in BEFORE_ANY_WORD else [SAID.removeprefix("[SEND: ").removesuffix("]")]
    deadlines = QUICK if fault.stalls else WITH_PATIENCE
    async with served(fault) as faulty:
        async with trouble(tmp_path, well, base_url=faulty.base_url, deadlines=deadlines) as scene:
            remembered = [] if fault in BEFORE_ANY_WORD else said
            await the_promise_is_kept(scene, said=said, notice=fault.says, asked=0, remembered=remembered)
            assert len(faulty.requests) == fault.asked
        await nobody_holds(faulty.requests)


@dataclass(frozen=True, slots=True)
class Case:
    """A reply that goes wrong in a way that only the commands in it tell.

    Attributes:
        said: all that people see.
        notice: what the one notice says; empty: there is none.
        remembered: what the history says of it.
        asked: how often the model is: once more where nobody has seen anything.
    """

    reply: Reply
    said: tuple[str, ...]
    notice: str
    remembered: tuple[str, ...]
    asked: int = 1


ENDLESS: list[str | Json | Step] = [" so on", Wait(0.05)] * 100

REPLIES = {
    "reset in a thought": Case(stream("[NOTE: hm]", Reset()), (SORRY,), BROKEN_OFF, (), asked=2),
    "a stall after a thought": Case(
        stream("[NOTE: hm", Hang()), (SORRY,), "stopped in the middle", (), asked=2
    ),
    "reset in a message": Case(
        stream("[SEND: one]\n[SEND: tw", Reset()), ("one", "tw"), BROKEN_OFF, ("one", "tw")
    ),
    "a reply without an end": Case(
        stream("[SEND: one]\n", "[NOTE: and", *ENDLESS), ("one",), "still writing after 1.5 s", ("one",)
    ),
    "cut at the token limit": Case(
        stream("[SEND: one]\n[SEND: and then we", finish("length")),
        ("one", "and then we"),
        "",
        ("one", "and then we"),
    ),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_that_goes_wrong(tmp_path: Path, name: str) -> None:
    case = REPLIES[name]
    async with trouble(tmp_path, in_turn(case.reply)) as scene:
        await the_promise_is_kept(
            scene, said=case.said, notice=case.notice, asked=case.asked, remembered=case.remembered
        )


async def test_a_persona_without_words_for_it(tmp_path: Path) -> None:
    async with trouble(tmp_path, in_turn(error(401, "Incorrect API key")), sorry=()) as scene:
        await the_promise_is_kept(scene, said=[], notice="wants a key", asked=1)


# Tools, as servers send them.

Tools = Callable[[Addon], object]


def scales(weighed: list[str]) -> Tools:
    """A tool that notes what it was given."""

    def setup(addon: Addon) -> None:
        @addon.tool
        async def weigh(context: Context, thing: str) -> str:
            """Weigh something.

            Args:
                thing: what to weigh.
            """
            weighed.append(thing)
            return f"{thing}: 1 kg"

    return setup


FLOUR, MILK = '{"thing": "flour"}', '{"thing": "milk"}'
ENOUGH = stream("[SEND: enough]", finish())
CALLS = {
    "indices out of order": (
        stream(
            call("weigh", '{"thing": ', index=1, call_id="b"),
            call("weigh", '{"thi', index=0, call_id="a"),
            call(None, '"milk"}', index=1),
            call(None, 'ng": "flour"}', index=0),
            finish("tool_calls"),
        ),
        {"flour", "milk"},
    ),
    "no index": (
        stream(call("weigh", FLOUR, call_id="a"), call("weigh", MILK, call_id="b"), finish("tool_calls")),
        {"flour", "milk"},
    ),
    "a reason that says stop": (
        stream(call("weigh", FLOUR, index=0, call_id="a"), finish("stop")),
        {"flour"},
    ),
    "arguments that are no JSON": (stream(call("weigh", '{"thing', index=0), finish("tool_calls")), set()),
    "arguments that are no object": (
        stream(call("weigh", '["flour"]', index=0), finish("tool_calls")),
        set(),
    ),
    "wrong arguments": (stream(call("weigh", '{"weight": 1}', index=0), finish("tool_calls")), set()),
    "an unknown tool": (stream(call("wiegh", FLOUR, index=0), finish("tool_calls")), set()),
}


@pytest.mark.parametrize("name", CALLS)
async def test_calls_that_are_odd(tmp_path: Path, name: str) -> None:
    reply, expected = CALLS[name]
    weighed: list[str] = []
    async with trouble(tmp_path, in_turn(reply, ENOUGH), addons=[scales(weighed)], tools=("weigh",)) as scene:
        await the_promise_is_kept(scene, said=["enough"], asked=2, remembered=["enough"])
        assert set(weighed) == expected
        told = [line for line in scene.server.requests[1].json()["messages"] if line["role"] == "tool"]
        assert len(told) == max(len(expected), 1)
        assert expected or "1 kg" not in str(told)


@pytest.mark.parametrize(("others", "asked"), [(True, 4), (False, 3)])
async def test_an_endless_loop_of_calls(tmp_path: Path, others: bool, asked: int) -> None:
    weighed: list[str] = []

    def reply(seen: Seen) -> Reply:
        thing = f"flour {len(weighed)}" if others else "flour"
        again = stream(call("weigh", json.dumps({"thing": thing}), index=0), finish("tool_calls"))
        return again if seen.json().get("tools") else ENOUGH

    limits = Limits(tool_steps=3)
    async with trouble(tmp_path, reply, addons=[scales(weighed)], tools=("weigh",), limits=limits) as scene:
        await the_promise_is_kept(scene, said=["enough"], asked=asked, remembered=["enough"])
        assert weighed == (["flour 0", "flour 1", "flour 2"] if others else ["flour"])


async def test_a_server_that_takes_no_tools(tmp_path: Path) -> None:
    def reply(seen: Seen) -> Reply:
        if seen.json().get("tools"):
            return error(400, "this model does not support tools")
        if "1 kg" in str(seen.json()["messages"]):
            return ENOUGH
        return stream('<tool-call tool="weigh">{"thing": "flour"}</tool-call>', finish())

    weighed: list[str] = []
    async with trouble(tmp_path, reply, addons=[scales(weighed)], tools=("weigh",)) as scene:
        await the_promise_is_kept(scene, said=["enough"], asked=3, remembered=["enough"])
        assert weighed == ["flour"]


async def test_a_connection_that_breaks_between_call_and_answer(tmp_path: Path) -> None:
    calls = stream("[SEND: wait]\n", call("weigh", FLOUR, index=0), finish("tool_calls"))
    weighed: list[str] = []
    replies = in_turn(calls, Reply((Reset(),)))
    async with trouble(tmp_path, replies, addons=[scales(weighed)], tools=("weigh",)) as scene:
        await the_promise_is_kept(scene, said=["wait"], notice=BROKEN_OFF, asked=4, remembered=["wait"])
        assert weighed == ["flour"]
