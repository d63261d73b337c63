"""Many people in one channel: who is answered with whom, who interrupts, and that nobody is forgotten."""

import asyncio
import re

import pytest
from msgspec.structs import replace

from pixi.core.llm import Finished, Line, Request, UserLine
from pixi.core.message import Message
from pixi.core.spending import Limits
from pixi.core.stamps import BROKE_OFF, STILL_WAITS
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Step
from tests.engine.scene import PIXI, Scene, scene
from tests.waiting import until

_MEANT = re.compile(r"^#(\d+)(?! overheard)[^\n]*:\n> (.+)$", re.MULTILINE)
_ROOMY = Traits(context_tokens=200_000)


async def ask(here: Scene, who: str, text: str, *, reply_to: str | None = None) -> Message:
    """Somebody writes to the persona in a channel; returns once it is on record."""
    message = here.channel.message(text, author=who, group=True, reply_to=reply_to)
    await here.engine.receive(message, here.channel)
    return message


async def chat(here: Scene, who: str, text: str) -> None:
    """Somebody writes to somebody else."""
    message = here.channel.message(text, author=who, group=True, addressed=False)
    await here.engine.receive(message, here.channel)


def newest(lines: tuple[Line, ...]) -> str:
    """The line that a request asks about."""
    return next(line.text for line in reversed(lines) if isinstance(line, UserLine))


def told(here: Scene, request: int = -1) -> str:
    """The newest line of a request."""
    return newest(here.model.requests[request].lines)


def asked(here: Scene) -> list[list[str]]:
    """What was meant for the persona in the newest line, request by request."""
    return [[text for _, text in _MEANT.findall(newest(one.lines))] for one in here.model.requests]


def answering(request: Request) -> str:
    """Answer each message of the newest line by its number."""
    return "\n".join(
        f"[REPLY #{number}: re {text}]" for number, text in _MEANT.findall(newest(request.lines))
    )


def slowly(request: Request) -> list[Step]:
    """The same, as slowly as a model writes: newer questions come before the first answer."""
    return [0.8, *(step for row in answering(request).splitlines() for step in (0.7, f"{row}\n"))]


# Who is answered together.


async def test_a_turn_answers_so_many_the_oldest_first_and_the_next_one_the_others() -> None:
    async with scene(ScriptedModel(*[answering] * 9), gather_seconds=0.05) as here:
        here.engine.settings.gather_messages = 3
        for number in range(7):
            await ask(here, f"P{number}", f"question {number}")
        await here.engine.settled()
        questions = [f"question {number}" for number in range(7)]
        assert asked(here) == [questions[:3], questions[3:6], questions[6:]]
        assert here.channel.sent == [f"re {question}" for question in questions]


async def test_what_was_said_between_them_comes_along() -> None:
    async with scene(ScriptedModel(*[answering] * 9), gather_seconds=0.05) as here:
        here.engine.settings.gather_messages = 2
        await ask(here, "Ann", "naps?")
        await chat(here, "Eve", "she never naps")
        await ask(here, "Bob", "pancakes?")
        await chat(here, "Eve", "always")
        await ask(here, "Cy", "tea?")
        await here.engine.settled()
        assert asked(here) == [["naps?", "pancakes?"], ["tea?"]]
        assert "> she never naps" in told(here, 0)
        assert sum("> always" in told(here, request) for request in (0, 1)) == 1


async def test_as_long_as_nobody_saw_anything_anybody_joins() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel([never], answering)) as here:
        await ask(here, "Ann", "naps?")
        await until(lambda: here.model.streaming == 1)
        await ask(here, "Bob", "pancakes?")
        await here.engine.settled()
        assert asked(here) == [["naps?"], ["naps?", "pancakes?"]]
        assert here.channel.sent == ["re naps?", "re pancakes?"]


async def test_nobody_joins_where_there_is_no_room_for_more() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel([go_on, "[SEND: re naps?]"], answering, answering)) as here:
        here.engine.settings.gather_messages = 1
        await ask(here, "Ann", "naps?")
        await until(lambda: here.model.streaming == 1)
        await ask(here, "Bob", "pancakes?")
        await ask(here, "Cy", "tea?")
        go_on.set()
        await here.engine.settled()
        assert asked(here) == [["naps?"], ["pancakes?"], ["tea?"]]
        assert here.channel.sent == ["re naps?", "re pancakes?", "re tea?"]


async def test_who_comes_when_a_reply_was_begun_anew_often_enough_is_answered_next() -> None:
    go_on = asyncio.Event()
    waits: list[list[Step]] = [[go_on, "[SEND: all of you]"] for _ in range(4)]
    async with scene(ScriptedModel(*waits, answering)) as here:
        for number in range(5):
            await ask(here, f"P{number}", f"question {number}")
            await until(lambda number=number: len(here.model.requests) == min(number + 1, 4))  # type: ignore[misc]
        await asyncio.sleep(0.01)
        go_on.set()
        await here.engine.settled()
        assert asked(here)[3:] == [[f"question {number}" for number in range(4)], ["question 4"]]
        assert here.channel.sent == ["all of you", "re question 4"]


# Who interrupts.


async def test_somebody_else_waits_until_a_reply_has_ended() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]\n", go_on, "[SEND: b]"], answering)) as here:
        await ask(here, "Ann", "tell me all")
        await until(lambda: here.channel.sent == ["a"])
        await ask(here, "Bob", "pancakes?")
        await asyncio.sleep(0.02)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["a", "b", "re pancakes?"]
        assert [ended.finish for ended in here.channel.ended] == ["stop", "stop"]
        assert asked(here) == [["tell me all"], ["pancakes?"]]


async def test_whoever_is_answered_interrupts() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]\n", never], answering)) as here:
        await ask(here, "Ann", "tell me all")
        await until(lambda: here.channel.sent == ["a"])
        await ask(here, "Ann", "no, wait")
        await here.engine.settled()
        assert here.channel.sent == ["a", "re no, wait"]


async def test_whoever_replies_to_this_reply_interrupts() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]\n", never], answering)) as here:
        await ask(here, "Ann", "tell me all")
        await until(lambda: here.channel.sent == ["a"])
        await ask(here, "Bob", "that is wrong", reply_to=here.channel.posts[0].id)
        await here.engine.settled()
        assert here.channel.sent[0] == "a"
        assert here.channel.sent[-1] == "re that is wrong"
        assert here.channel.ended[0].finish == "cancelled"


async def test_whoever_replies_to_an_earlier_reply_waits() -> None:
    go_on = asyncio.Event()
    model = ScriptedModel("[SEND: hi]", ["[SEND: a]\n", go_on, "[SEND: b]"], answering)
    async with scene(model) as here:
        await ask(here, "Bob", "hello")
        await here.engine.settled()
        await ask(here, "Ann", "tell me all")
        await until(lambda: here.channel.sent == ["hi", "a"])
        await ask(here, "Bob", "hi!", reply_to=here.channel.posts[0].id)
        await asyncio.sleep(0.02)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["hi", "a", "b", "re hi!"]


# Nobody is forgotten.


async def gathered(here: Scene, *people: str) -> None:
    """Each of these people asks something, and one turn answers them all: its first word was heard."""
    here.engine.settings.gather_seconds = 0.05
    for number, who in enumerate(people, 1):
        await ask(here, who, f"question {number}")
    await until(lambda: here.channel.sent)
    here.engine.settings.gather_seconds = 0.0


async def test_whom_a_cut_reply_left_is_answered_next() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[REPLY #1: to ann]\n", never], answering)) as here:
        await gathered(here, "Ann", "Bob", "Cy")
        await ask(here, "Ann", "and why?")
        await here.engine.settled()
        assert told(here).split("\n")[1:] == [
            f'#2 "Bob" (id author:Bob), {STILL_WAITS}:',
            "> question 2",
            f'#3 "Cy" (id author:Cy), {STILL_WAITS}:',
            "> question 3",
            '#4 "Ann" (id author:Ann):',
            "> and why?",
        ]
        assert here.channel.sent == ["to ann", "re question 2", "re question 3", "re and why?"]
        before, after = (request.lines for request in here.model.requests)
        assert after[: len(before)] == before, "older lines keep their bytes"


async def test_who_was_answered_by_number_and_who_interrupted_do_not_come_again() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[REPLY #1: to ann]\n[REACT #3: 🥞]\n", never], answering)) as here:
        await gathered(here, "Ann", "Bob", "Cy")
        await until(lambda: here.channel.reactions)
        await ask(here, "Bob", "well?")
        await here.engine.settled()
        assert asked(here)[1:] == [["well?"]]
        assert STILL_WAITS not in told(here)


async def test_what_comes_due_again_does_so_once() -> None:
    never = asyncio.Event()
    model = ScriptedModel(["[REPLY #1: to ann]\n", never], "[REPLY #3: to ann again]", answering)
    async with scene(model) as here:
        await gathered(here, "Ann", "Bob")
        await ask(here, "Ann", "and why?")
        await here.engine.settled()
        assert asked(here)[1] == ["question 2", "and why?"]
        await ask(here, "Dee", "hello")
        await here.engine.settled()
        assert asked(here)[2:] == [["hello"]]
        assert here.channel.sent == ["to ann", "to ann again", "re hello"]


async def test_a_reply_to_those_who_were_put_off_is_cut_by_nobody() -> None:
    never, go_on = asyncio.Event(), asyncio.Event()
    second: list[Step] = ["[REPLY #4: because]\n", go_on, "[REPLY #2: to bob]\n[REPLY #3: to cy]"]
    async with scene(ScriptedModel(["[REPLY #1: to ann]\n", never], second, answering)) as here:
        await gathered(here, "Ann", "Bob", "Cy")
        await ask(here, "Ann", "and why?")
        await until(lambda: here.channel.sent == ["to ann", "because"])
        await ask(here, "Ann", "really?")
        await ask(here, "Bob", "hurry", reply_to=here.channel.posts[-1].id)
        await asyncio.sleep(0.02)
        go_on.set()
        await here.engine.settled()
        assert here.channel.sent == ["to ann", "because", "to bob", "to cy", "re really?", "re hurry"]
        assert [ended.finish for ended in here.channel.ended] == ["cancelled", "stop", "stop"]


@pytest.mark.parametrize(
    ("limits", "written", "end"),
    [
        (Limits(messages=2), 4, Finished()),
        (Limits(commands=2), 4, Finished()),
        (Limits(), 2, Finished("length")),
    ],
    ids=["messages", "commands", "tokens"],
)
async def test_whom_a_limit_left_is_answered_next(limits: Limits, written: int, end: Finished) -> None:
    def first(request: Request) -> list[Step]:
        return [*(f"{row}\n" for row in answering(request).splitlines()[:written]), end]

    async with scene(ScriptedModel(first, answering), limits=limits, gather_seconds=0.05) as here:
        for who in ("Ann", "Bob", "Cy", "Di"):
            await ask(here, who, f"from {who}")
        await here.engine.settled()
        assert here.channel.sent == ["re from Ann", "re from Bob", "re from Cy", "re from Di"]
        assert asked(here)[1] == ["from Cy", "from Di"]
        assert STILL_WAITS in told(here)


async def test_a_limit_alone_makes_nobody_come_twice_who_asked_alone() -> None:
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]\n[SEND: c]"), limits=Limits(messages=2)) as here:
        await ask(here, "Ann", "hello")
        await here.engine.settled()
        assert here.channel.sent == ["a", "b"]
        assert len(here.model.requests) == 1


async def test_a_reply_that_ended_by_itself_has_answered_everybody() -> None:
    async with scene(ScriptedModel("[REPLY #2: to bob]", "[SEND]", answering)) as here:
        await gathered(here, "Ann", "Bob", "Cy")
        await here.engine.settled()
        await ask(here, "Dee", "hello")
        await here.engine.settled()
        await ask(here, "Eve", "hi")
        await here.engine.settled()
        assert asked(here)[1:] == [["hello"], ["hi"]]
        assert here.channel.sent == ["to bob", "re hi"]


async def test_a_stop_has_answered_everybody() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[REPLY #1: to ann]\n", never], answering)) as here:
        await gathered(here, "Ann", "Bob")
        await here.engine.stop(here.channel.conversation)
        await ask(here, "Dee", "hello")
        await here.engine.settled()
        assert asked(here)[1:] == [["hello"]]


@pytest.mark.parametrize(("people", "questions", "apart"), [(10, 1, 1.0), (30, 5, 0.0)])
async def test_everybody_in_a_crowd_is_answered_once_and_in_order(
    people: int, questions: int, apart: float
) -> None:
    model = ScriptedModel(*[slowly] * people * questions * 5, piece=0, traits=_ROOMY)
    async with scene(model) as here:
        texts = [f"question {number}" for number in range(people * questions)]
        for number, text in enumerate(texts):
            await ask(here, f"P{number % people}", text)
            await asyncio.sleep(apart)
        await here.engine.settled()
        assert here.channel.sent == [f"re {text}" for text in texts]
        assert max(map(len, asked(here))) <= here.engine.settings.gather_messages


# Too many.


async def test_when_too_many_wait_a_further_one_gets_a_word_and_is_overheard() -> None:
    go_on = asyncio.Event()
    tired = replace(PIXI, when_tired=("so many of you!",))
    model = ScriptedModel(["[SEND: a]\n", go_on, "[SEND: b]"], answering, answering)
    async with scene(model, persona=tired) as here:
        here.engine.settings.waiting_messages = 2
        await ask(here, "Ann", "tell me all")
        await until(lambda: here.channel.sent == ["a"])
        for who in ("Bob", "Cy", "Dee", "Dee"):
            await ask(here, who, f"me too, says {who}")
        await asyncio.sleep(0.02)
        go_on.set()
        await here.engine.settled()
        assert asked(here)[1:] == [["me too, says Bob", "me too, says Cy"]]
        assert 'overheard, "Dee"' in told(here)
        assert sorted(here.channel.sent) == sorted(
            ["a", "so many of you!", "b", "re me too, says Bob", "re me too, says Cy"]
        )
        await ask(here, "Dee", "now?")
        await here.engine.settled()
        assert here.channel.sent[-1] == "re now?"


async def test_a_persona_without_words_for_it_tells_plainly_that_too_many_wait() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a]\n", go_on, "[SEND: b]"], answering)) as here:
        here.engine.settings.waiting_messages = 1
        await ask(here, "Ann", "tell me all")
        await until(lambda: here.channel.sent == ["a"])
        await ask(here, "Bob", "me too")
        await ask(here, "Cy", "and me")
        await asyncio.sleep(0.02)
        go_on.set()
        await here.engine.settled()
        notices = [text for text in here.channel.sent if text not in {"a", "b", "re me too"}]
        assert len(notices) == 1
        assert len(here.channel.sent) == 4


# The end of the program.


async def resumed(here: Scene) -> None:
    """Do what a program does at its start."""
    await here.resume()
    await here.engine.settled()


async def test_a_reply_that_the_end_of_the_program_cut_goes_on_once(store: SqliteStore) -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: once upon a time]\n", never]), store=store) as first:
        await ask(first, "Ann", "tell me a story")
        await until(lambda: first.channel.sent == ["once upon a time"])
        await first.engine.drain(1.0)
    async with scene(ScriptedModel("[SEND: the end]"), store=store) as second:
        await resumed(second)
        assert second.channel.sent == ["the end"]
        assert told(second).split("\n")[1:] == [
            BROKE_OFF,
            f'#1 "Ann" (id author:Ann), {STILL_WAITS}:',
            "> tell me a story",
        ]
        assert second.replies() == ["[SEND: once upon a time]"]
    async with scene(ScriptedModel(), store=store) as third:
        await resumed(third)
        assert third.model.requests == []


async def test_what_a_cut_reply_left_waits_over_the_end_of_the_program(store: SqliteStore) -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[REPLY #1: to ann]\n", never]), store=store) as first:
        await gathered(first, "Ann", "Bob", "Cy")
        await first.engine.drain(1.0)
    async with scene(ScriptedModel(answering), store=store) as second:
        await resumed(second)
        assert second.channel.sent == ["re question 2", "re question 3"]
    async with scene(ScriptedModel(), store=store) as third:
        await resumed(third)
        assert third.model.requests == []
