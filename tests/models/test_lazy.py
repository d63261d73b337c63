"""A model that is opened when it is first wanted."""

import asyncio

import pytest

from pixi.core.errors import ConfigError, ModelError
from pixi.core.llm import Finished, Request, Text, UserLine
from pixi.models.model import LazyModel, Model, Traits
from pixi.testing import ScriptedModel
from tests.waiting import until

HI = Request((UserLine("mo: hi"),))
EXPECTED = Traits(4_096, small=True)


class Opening:
    """Opens a model when the test lets it, or fails."""

    def __init__(self, *models: Model | Exception) -> None:
        self.may = asyncio.Event()
        self.may.set()
        self.begun = self.ended = 0
        self.was_cancelled = False
        self._models = list(models)

    async def __call__(self) -> Model:
        self.begun += 1
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        self.ended += 1
        model = self._models.pop(0)
        if isinstance(model, Exception):
            raise model
        return model


class Closing(ScriptedModel):
    closed = 0

    async def close(self) -> None:
        self.closed += 1


def lazy(opening: Opening) -> LazyModel:
    return LazyModel("local", EXPECTED, opening)


async def said(model: Model) -> str:
    return "".join([delta.text async for delta in model.stream(HI) if isinstance(delta, Text)])


async def test_it_is_opened_once_when_it_is_wanted() -> None:
    inner = Closing("a", "b", "c", traits=Traits(2_048))
    opening = Opening(inner)
    opening.may.clear()
    model = lazy(opening)
    assert (model.name, model.traits, opening.begun) == ("local", EXPECTED, 0)
    both = asyncio.gather(said(model), said(model))
    await asyncio.sleep(0)
    opening.may.set()
    assert sorted(await both) == ["a", "b"]
    assert opening.begun == 1
    assert (model.name, model.traits) == ("scripted", Traits(2_048))
    assert [delta async for delta in model.stream(HI)][-1] == Finished()
    await model.close()
    assert inner.closed == 1


async def test_one_that_was_never_wanted_is_never_opened() -> None:
    opening = Opening()
    await lazy(opening).close()
    assert opening.begun == 0


async def test_what_fails_is_told_and_tried_again() -> None:
    inner = Closing("a")
    opening = Opening(ConfigError("No runtime.\nInstall it."), ModelError("Nothing answers."), inner)
    model = lazy(opening)
    with pytest.raises(ModelError, match=r"No runtime\. Install it\.") as caught:
        await said(model)
    assert caught.value.permanent
    with pytest.raises(ModelError, match="Nothing answers"):
        await said(model)
    assert await said(model) == "a"
    await model.close()


async def test_who_stops_waiting_leaves_what_was_begun_to_others() -> None:
    opening = Opening(Closing("a"))
    opening.may.clear()
    model = lazy(opening)
    impatient = asyncio.create_task(said(model))
    await until(lambda: opening.begun == 1)
    impatient.cancel()
    await asyncio.wait([impatient])
    assert impatient.cancelled()
    opening.may.set()
    assert await said(model) == "a"
    assert opening.begun == 1
    await model.close()


async def test_a_failure_that_nobody_waits_for_any_more_is_forgotten() -> None:
    opening = Opening(ModelError("Nothing answers."), Closing("a"))
    opening.may.clear()
    model = lazy(opening)
    impatient = asyncio.create_task(said(model))
    await until(lambda: opening.begun == 1)
    impatient.cancel()
    await asyncio.wait([impatient])
    opening.may.set()
    await until(lambda: opening.ended == 1)
    assert await said(model) == "a"
    await model.close()


async def test_closing_ends_what_is_being_opened() -> None:
    opening = Opening(Closing("a"))
    opening.may.clear()
    model = lazy(opening)
    waiting = asyncio.create_task(said(model))
    await until(lambda: opening.begun == 1)
    await model.close()
    with pytest.raises(ModelError, match="The model local is closed") as caught:
        await waiting
    assert caught.value.permanent
    assert opening.was_cancelled
    with pytest.raises(ModelError, match="is closed"):
        await said(model)
