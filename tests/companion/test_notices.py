"""What the companion notices by itself: what became of drafts, until a reply stands, and links."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from pixi.addons.loading import AddonSource, load_addon
from pixi.companion import addon as companion
from pixi.companion.data import NewDraft
from pixi.companion.maps import MapLink
from pixi.companion.tables import CompanionTables
from pixi.core.errors import ModelError
from pixi.core.llm import UserLine
from pixi.core.persona import Persona
from pixi.store.sqlite import SqliteStore
from pixi.testing import ScriptedModel
from pixi.toolbox.addon import Addon, AddonExtras
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox
from tests.engine.scene import Scene, scene, until

MO = "author:Mo"
KIT = Persona("Kit", "You skate.", tools=("companion",))


@dataclass
class Told:
    here: Scene
    data: CompanionTables

    async def decided(self, *names: str, why: str = "") -> None:
        """Mo submitted these spots, and they were rejected."""
        for name in names:
            draft = await self.data.create_draft(MO, NewDraft(name, "street", "Wexcombe"), name)
            await self.data.reject(draft.id, "web:staff", why)

    def lines(self, request: int = -1) -> str:
        """The message that the model was asked with last."""
        (*_, last) = (line for line in self.here.history(request) if isinstance(line, UserLine))
        return last.text


@asynccontextmanager
async def telling(*replies: Any) -> AsyncGenerator[Told, None]:
    brought = AddonExtras()

    def load(addon: Addon) -> None:
        tools = Toolbox()
        load_addon(AddonSource("companion", lambda: companion), CommandRegistry(), tools, brought)
        for tool in tools:
            addon._tools.add(tool)
        for notice in tools.notices:
            addon.notice(notice)

    store = await SqliteStore.open(":memory:")
    async with scene(ScriptedModel(*replies), persona=KIT, addons=[load], store=store) as here:
        (tables,) = brought.tables
        await store.open_tables(tables)
        yield Told(here, CompanionTables(tables))
    for close in brought.closing:
        await close()
    await store.close()


async def test_a_decision_is_told_again_until_a_reply_to_it_stands() -> None:
    broken = ModelError("The model is down.", permanent=True)
    async with telling([broken], "[SEND: sorry]", "[SEND: hm]") as play:
        await play.decided("Nook", why="It is\nprivate\u202e ground.")
        await play.here.talk("hi", "hello?", "and?")
        told = "'Nook' that they submitted was rejected. Tell them so. The reason: It is private ground."
        assert [told in play.lines(number) for number in range(3)] == [True, True, False]


async def test_a_decision_is_told_where_another_message_comes_before_the_reply() -> None:
    never = asyncio.Event()
    async with telling([never], "[SEND: sorry]", "[SEND: hm]") as play:
        await play.decided("Nook")
        await play.here.say("hi")
        await until(lambda: len(play.here.model.requests) == 1)
        await play.here.talk("hello?", "and?")
        assert ["'Nook'" in play.lines(number) for number in range(3)] == [True, True, False]
        assert play.lines(1).count("'Nook'") == 1, "it is told once, though two messages are answered"


async def test_of_many_decisions_none_is_lost() -> None:
    async with telling(*["[SEND: ok]"] * 3) as play:
        await play.decided("A", "B", "C", "D")
        await play.here.talk("hi", "and?", "more?")
        assert [play.lines(number).count("was rejected") for number in range(3)] == [3, 1, 0]


async def test_a_slow_link_costs_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(link: str, web: object) -> MapLink:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr("pixi.companion.addon.resolve_map_link", never)
    monkeypatch.setattr("pixi.engine.reminding.NOTICE_SECONDS", 0.2)
    async with telling("[SEND: ok]") as play:
        await play.decided("Nook")
        await play.here.talk("see https://maps.app.goo.gl/abc")
        assert "'Nook'" in play.lines()
