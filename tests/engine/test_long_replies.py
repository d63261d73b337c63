"""Long replies, as hostile as they can be: reading one holds up nobody else, counted in calls."""

import asyncio
import gc
from collections import Counter, deque

import pytest

from pixi.core.control_words import broken
from pixi.core.errors import ModelError
from pixi.core.language import CommandStream
from pixi.core.spending import Limits
from pixi.testing import ScriptedModel
from tests.engine.scene import scene, until
from tests.steps import Calls

LENGTH = 20_000
MOST_CALLS = 40_000  # of functions, in one turn of the loop

HOSTILE = {
    "commands without an end": "[NOTE: a [SEND: b :] " + "[NOTE]" * LENGTH,
    "a fence that never closes": "[SEND: ```" + "[REPLY #12: " * LENGTH,
    "openings alone": "[REPLY #3-" * LENGTH,
    "names that are none": "[NOTE: a [SEND: b :] " + "[REAKT: " * LENGTH,
    "lines": "[SEND: " + "\n" * LENGTH,
    "plain words": "[SEND: " + "words and words " * LENGTH,
}

DAILY = "commands without an end"  # of those whose stream breaks; the others are read nightly


@pytest.mark.parametrize(
    ("reply", "fails"),
    [
        pytest.param(
            reply,
            fails,
            id=f"{name}, broken" if fails else name,
            marks=[pytest.mark.nightly] if fails and name != DAILY else [],
        )
        for fails in (False, True)
        for name, reply in HOSTILE.items()
    ],
)
async def test_others_come_in_between(reply: str, fails: bool) -> None:
    broken(reply)  # its pattern is made once for all replies
    end = [ModelError("The stream broke.")] if fails else []
    async with scene(ScriptedModel([reply[: LENGTH - 1], *end])) as here:
        with Calls() as calls:
            await here.talk("hi")
        assert calls.most < MOST_CALLS
        assert calls.turns > 19


@pytest.mark.parametrize("unit", ["[REAKT: ", pytest.param("[REPLY #12: ", marks=pytest.mark.nightly)])
async def test_openings_in_code_that_a_command_ends_are_read_a_few_times(unit: str) -> None:
    end = "\n\n[SEND: ok]"
    reply = ("[SEND: `" + unit * LENGTH)[: LENGTH - len(end)] + end
    async with scene(ScriptedModel(reply)) as here:
        with Calls() as calls:
            await here.talk("hi")
    assert calls.most < 20 * LENGTH


@pytest.mark.parametrize("reply", HOSTILE.values(), ids=HOSTILE)
def test_read_in_steps_it_is_the_same(reply: str) -> None:
    whole, steps = CommandStream(), CommandStream()
    events = [*whole.feed(reply[:4_000]), *whole.close()]
    read = steps.feed(reply[:4_000])
    for number, step in enumerate(steps.closing()):
        read += step
        if number == 1:
            break  # and begun anew
    assert read + steps.close() == events
    assert steps.close() == []


async def test_a_turn_under_way_keeps_little_besides_what_it_said() -> None:
    def alive() -> Counter[type]:
        gc.collect()
        return Counter(map(type, gc.get_objects()))

    end = asyncio.Event()
    limits = Limits(commands=100, messages=100)
    async with scene(ScriptedModel(["[SEND: well]" * 40, end]), limits=limits) as here:
        before = alive()
        await here.say("hi")
        await until(lambda: len(here.channel.sent) == 40, "forty messages")
        more = alive() - before
        end.set()
        await here.engine.settled()
    assert more[asyncio.Future] < 10  # a command that is on record keeps none
    assert more[deque] <= 2  # the script's own; an empty one takes 760 bytes
    assert more[asyncio.Event] <= 1
