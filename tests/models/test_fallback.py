"""A list of models as one: who is asked, who answers, and what is told of it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from msgspec import structs
from msgspec.structs import replace

from pixi.core.errors import ModelError
from pixi.core.language import Thought
from pixi.core.llm import AssistantLine, Delta, Finished, Prices, Request, SystemLine, Text, Usage, UserLine
from pixi.models.fallback import FallbackModel
from pixi.models.faults import Complaint, Server, refusal
from pixi.models.model import Model, Traits
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Scripted

HI = Request((SystemLine("You are Pixi."), UserLine("mo: hi")))
DOWN = ModelError("first:80 failed (500).")
DEAR = Prices(10, 20, 1)


class Named(ScriptedModel):
    """A scripted model that goes by a name, and is closed once at most."""

    def __init__(self, name: str, *replies: Scripted, traits: Traits | None = None) -> None:
        super().__init__(*replies, piece=0, traits=traits)
        self._name = name
        self.closed = 0

    @property
    def name(self) -> str:
        return self._name

    async def close(self) -> None:
        self.closed += 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


def listed(*models: Model, seconds: float = 5.0) -> FallbackModel:
    context = min(model.traits.context_tokens for model in models)
    return FallbackModel(models, context_tokens=context, seconds=seconds, clock=CLOCK)


async def ask(model: Model, request: Request = HI) -> list[Delta]:
    return [delta async for delta in model.stream(request)]


async def said(model: Model) -> str:
    return "".join(delta.text for delta in await ask(model) if isinstance(delta, Text))


async def fault(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pixi.models")


async def test_the_first_answers_while_it_can(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Named("first", "one", "two"), Named("second")
    model = listed(first, second)
    assert await ask(model) == [Text("one"), Finished()]
    assert await said(model) == "two"
    assert second.requests == []
    assert caplog.messages == []


@pytest.mark.parametrize(
    "why", [DOWN, ModelError("first:80 refused the key: check OPENAI_API_KEY.", permanent=True)]
)
async def test_the_next_is_asked_before_anything_was_said(
    why: ModelError, caplog: pytest.LogCaptureFixture
) -> None:
    first = Named("first", [why])
    second = Named("second", [Text("hello"), Finished(usage=Usage(5, 0, 2))], traits=Traits(prices=DEAR))
    deltas = await ask(listed(first, second))
    assert deltas == [Text("hello"), Finished(usage=Usage(5, 0, 2), model="second", prices=DEAR)]
    assert caplog.messages == [f"second answers instead of first: {why}"]


@pytest.mark.parametrize("begun", [Text("hel"), Thought("hm")])
async def test_nobody_else_is_asked_after_the_first_word(begun: Delta) -> None:
    first, second = Named("first", [begun, DOWN]), Named("second", "no")
    model = listed(first, second)
    deltas = model.stream(HI)
    assert await anext(deltas) == begun
    with pytest.raises(ModelError, match=r"failed \(500\)"):
        await anext(deltas)
    assert second.requests == []


async def test_the_next_of_the_next(caplog: pytest.LogCaptureFixture) -> None:
    also = ModelError("second:80 sent no words for 30 s.")
    model = listed(Named("first", [DOWN]), Named("second", [also]), Named("third", "me"))
    assert await said(model) == "me"
    assert caplog.messages == [f"third answers instead of first: {DOWN}; {also}"]


async def test_who_failed_rests_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    first = Named("first", [DOWN], [DOWN], "back")
    second = Named("second", "a", "b", "c", "d")
    model = listed(first, second)
    told = []
    for seconds in (0, 9, 1, 19, 1, 0):
        CLOCK.now += seconds
        told.append(await said(model) if len(first.requests) < 3 else "")
    assert told == ["a", "b", "c", "d", "back", ""]
    assert len(first.requests) == 3
    assert caplog.messages == [f"second answers instead of first: {DOWN}", "first answers again"]


async def test_whoever_wants_to_know_is_told_when_another_answers(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Named("first", [DOWN], "back"), Named("second", "a", "b")
    told: list[str] = []
    model = FallbackModel([first, second], context_tokens=8_000, seconds=5, clock=CLOCK, told=told.append)
    for _ in range(2):
        await said(model)
    assert told == [f"second answers instead of first: {DOWN}"]
    CLOCK.now += 10
    await said(model)
    assert told[1:] == ["first answers again"]
    assert told == caplog.messages


async def test_only_one_request_finds_out_whether_it_is_back() -> None:
    go_on = asyncio.Event()
    first, second = Named("first", [DOWN], [go_on, "back"]), Named("second", "a", "b", "c")
    model = listed(first, second)
    assert await said(model) == "a"
    CLOCK.now += 10
    trying = asyncio.create_task(said(model))
    await asyncio.sleep(0)
    assert await said(model) == "b"
    assert await said(model) == "c"
    go_on.set()
    assert await trying == "back"


async def test_what_was_wrong_with_one_request_is_no_reason_to_rest() -> None:
    too_long = refusal(Server("first:80", "http://first/v1", "first"), Complaint(400, "maximum context"))
    first, second = Named("first", [too_long], "short"), Named("second", "long")
    model = listed(first, second)
    assert await said(model) == "long"
    assert await said(model) == "short"


async def test_where_all_rest_they_are_asked_all_the_same() -> None:
    first, second = Named("first", [DOWN], "one"), Named("second", [DOWN])
    model = listed(first, second)
    await fault(model)
    assert await said(model) == "one"


async def test_who_rested_is_asked_again_and_rests_again() -> None:
    first, second = Named("first", [DOWN], "rested"), Named("second", [DOWN], "two", "three")
    model = listed(first, second)
    await fault(model)
    CLOCK.now += 100
    first.add([DOWN])
    assert await said(model) == "rested"
    assert await said(model) == "two"
    assert await said(model) == "three"


async def test_the_end_of_all_is_one_error() -> None:
    down = [ModelError("a:80 failed (500).", retry_after=9), ModelError("b:80 failed (500).", retry_after=4)]
    error = await fault(listed(Named("a", [down[0]]), Named("b", [down[1]])))
    assert str(error) == "No model could answer. a:80 failed (500). b:80 failed (500)."
    assert (error.permanent, error.retry_after) == (False, 4)
    same = await fault(listed(Named("a", [DOWN]), Named("b", [DOWN])))
    assert str(same) == str(DOWN)
    wrong = ModelError("refused the key", permanent=True)
    assert (await fault(listed(Named("a", [wrong]), Named("b", [wrong])))).permanent


async def test_the_whole_is_bounded() -> None:
    stalls: Sequence[object] = [asyncio.Event()]
    first, second = Named("first", stalls), Named("second", "late")  # type: ignore[arg-type]
    assert str(await fault(listed(first, second, seconds=0.05))) == "first was not done within 0.05 s."
    assert first.streaming == 0
    assert second.requests == [], "there is no time left"


async def test_one_that_writes_without_end_is_cut() -> None:
    first = Named("first", ["a", asyncio.Event()])
    deltas = listed(first, Named("second"), seconds=0.05).stream(HI)
    assert await anext(deltas) == Text("a")
    with pytest.raises(ModelError, match="not done within"):
        await anext(deltas)
    assert first.streaming == 0


async def test_whoever_stops_listening_closes_the_stream() -> None:
    first = Named("first", ["a", asyncio.Event()])
    model = listed(first, Named("second"))
    async with aclosing(model.stream(HI)) as deltas:
        assert await anext(deltas) == Text("a")
        assert first.streaming == 1
    assert first.streaming == 0


async def test_it_goes_by_the_first_and_by_the_smallest_context() -> None:
    first = Named("first", traits=Traits(8_000, vision=True, prices=DEAR))
    second = Named("second", traits=Traits(4_000, small=True))
    model = listed(first, second)
    assert model.name == "first"
    assert model.first is first
    assert model.traits == Traits(4_000, vision=True, prices=DEAR)
    await model.close()
    await model.close()
    assert (first.closed, second.closed) == (2, 2)


async def test_one_that_holds_less_is_given_less() -> None:
    talk = [
        line for n in range(40) for line in (UserLine(f"mo: {n} " + "x" * 300), AssistantLine("[SEND: y]"))
    ]
    request = replace(HI, lines=(HI.lines[0], *talk, HI.lines[1]))
    first = Named("first", [DOWN], traits=Traits(8_000))
    small = Named("small", "hm", traits=Traits(1_000, small=True))
    model = FallbackModel([first, small], context_tokens=8_000, seconds=5)
    await ask(model, request)
    assert first.requests == [request]
    (given,) = small.requests
    assert given.lines[0] == HI.lines[0]
    assert given.lines[-1] == HI.lines[1]
    assert isinstance(given.lines[1], UserLine)
    assert 3 < len(given.lines) < 30


class Nested(Named):
    """Says itself who wrote."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        async with aclosing(super().stream(request)) as deltas:
            async for delta in deltas:
                yield (
                    structs.replace(delta, model="inner", prices=DEAR)
                    if isinstance(delta, Finished)
                    else delta
                )


async def test_who_wrote_is_told_by_who_knows_it_best() -> None:
    deltas = await ask(listed(Named("first", [DOWN]), Nested("second", "x", traits=Traits())))
    assert deltas[-1] == Finished(model="inner", prices=DEAR)
