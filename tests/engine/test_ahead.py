"""What is done ahead of a command: begun when the model opens it, ended where it is dropped or was used."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from pixi.core.errors import ConfigError, PixiError
from pixi.core.events import Failed, Performed
from pixi.core.spending import Limits
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CameToNothing
from pixi.toolbox.context import Context, Draft
from tests.engine.scene import scene
from tests.waiting import until


@dataclass
class Oven:
    """Bakes ahead; tells how often it began, was used, and was put out."""

    begun: int = 0
    out: int = 0
    seen: list[str] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    fails: Exception | None = None

    def setup(self, addon: Addon) -> None:
        @addon.command
        async def bake(context: Context, what: str, *, ahead: asyncio.Task[str] | None = None) -> None:
            """bake something"""
            if what == "nothing":
                raise CameToNothing("There is nothing.")
            baked = await ahead if ahead else f"cold {what}"
            await context.send(baked)

        @bake.ahead
        async def heat(context: Context, draft: Draft) -> str:
            self.begun += 1
            try:
                self.seen.append(await draft.settled(0.01))
                if self.fails:
                    raise self.fails
                await self.ready.wait()
                return f"warm {await draft.ended()}"
            except asyncio.CancelledError:
                self.out += 1
                raise


async def test_it_is_begun_when_the_command_opens_and_used_when_it_closes() -> None:
    oven, close = Oven(), asyncio.Event()
    model = ScriptedModel(["[BAKE: a", " cake", close, "]\n[SEND: bye]"], piece=0)
    async with scene(model, addons=[oven.setup]) as here:
        await here.say("hungry")
        await until(lambda: oven.seen == ["a cake"])  # the model has not closed it yet
        assert here.channel.events == []
        oven.ready.set()
        close.set()
        await here.engine.settled()
        assert here.channel.sent == ["warm a cake", "bye"]
        assert (oven.begun, oven.out) == (1, 0)


async def test_it_goes_on_while_what_stands_before_is_still_performed() -> None:
    oven, channel = Oven(), RecordingChannel()
    channel.hold = asyncio.Event()
    async with scene(
        ScriptedModel("[SEND: one]\n[BAKE: cake]\n[SEND: two]"), addons=[oven.setup], channel=channel
    ) as here:
        await here.say("hungry")
        await until(lambda: oven.seen == ["cake"])
        assert channel.sent == []  # the first message is on its way yet
        oven.ready.set()
        channel.hold.set()
        await here.engine.settled()
        assert channel.sent == ["one", "warm cake", "two"]


async def test_all_that_is_opened_together_is_begun_side_by_side_and_no_more_than_four() -> None:
    oven, channel = Oven(), RecordingChannel()
    channel.hold = asyncio.Event()
    reply = "[SEND: x]" + "".join(f"[BAKE: {number}]" for number in range(6))
    async with scene(ScriptedModel(reply), addons=[oven.setup], channel=channel) as here:
        await here.say("hungry")
        await until(lambda: len(oven.seen) == 4)
        oven.ready.set()
        channel.hold.set()
        await here.engine.settled()
        assert channel.sent == ["x", "warm 0", "warm 1", "warm 2", "warm 3", "cold 4", "cold 5"]
        assert oven.begun == 4


@pytest.mark.parametrize("how", ["stop", "limit", "newer", "close"])
async def test_what_was_begun_for_a_command_that_is_dropped_is_ended(how: str) -> None:
    oven, go_on, channel = Oven(), asyncio.Event(), RecordingChannel()
    channel.hold = asyncio.Event()
    model = ScriptedModel(["[SEND: one][SEND: two][BAKE: cake]", go_on, "[SEND: end]"], "[SEND: fine]")
    async with scene(model, addons=[oven.setup], channel=channel, limits=Limits(messages=1)) as here:
        await here.say("hungry")
        await until(lambda: oven.seen == ["cake"])
        stopping: asyncio.Task[Any] | None = None
        match how:
            case "stop":
                stopping = asyncio.create_task(here.engine.stop(channel.conversation))
            case "newer":
                await here.say("wait")
            case "close":
                stopping = asyncio.create_task(here.engine.close())
            case _:
                pass  # two messages are one too many
        channel.hold.set()
        go_on.set()
        await until(lambda: oven.out == 1)
        if stopping:
            await stopping
        await here.engine.settled()
        assert not any("cake" in text for text in channel.sent)


async def test_an_opening_that_breaks_off_and_one_that_the_model_leaves_are_ended() -> None:
    oven = Oven()
    async with scene(ScriptedModel("[SEND: hi]\n[BAKE: "), addons=[oven.setup]) as here:
        await here.talk("hungry")
        assert here.channel.sent == ["hi"]
        assert oven.begun == oven.out


async def test_a_reply_that_is_begun_again_begins_anew_ahead() -> None:
    oven, never = Oven(), asyncio.Event()
    model = ScriptedModel(["[BAKE: ca", never], "[BAKE: pie]")
    async with scene(model, addons=[oven.setup]) as here:
        await here.say("hungry")
        await until(lambda: oven.seen == ["ca"])
        oven.ready.set()
        await here.say("quick")
        await here.engine.settled()
        assert here.channel.sent == ["warm pie"]
        assert (oven.begun, oven.out) == (2, 1)


@pytest.mark.parametrize("error", [ValueError("boom"), PixiError("The oven is cold.")])
async def test_what_goes_wrong_ahead_is_told_where_it_is_awaited_and_the_turn_goes_on(
    error: Exception,
) -> None:
    oven = Oven(fails=error)
    async with scene(ScriptedModel("[BAKE: cake]\n[SEND: ok]", "x"), addons=[oven.setup]) as here:
        await here.talk("hungry", "more")
        told = [event.text for event in here.channel.events if isinstance(event, Failed)]
        assert told[0] == (
            "The oven is cold." if isinstance(error, PixiError) else "command 'bake' failed with ValueError."
        )
        assert here.replies() == ["[SEND: ok]"]


async def test_a_command_that_comes_to_nothing_is_told_to_nobody() -> None:
    oven = Oven()
    async with scene(ScriptedModel("[BAKE: nothing]\n[SEND: ok]", "x"), addons=[oven.setup]) as here:
        await here.talk("hungry", "more")
        assert here.replies() == ["[SEND: ok]"]
        assert not [event for event in here.channel.events if isinstance(event, Failed | Performed)]


async def test_what_is_done_ahead_is_written_as_it_should_be() -> None:
    async with scene(ScriptedModel()) as here:

        @here.engine.command
        async def plain(context: Context, text: str) -> None:
            """plain"""

        async def begin(context: Context, draft: Draft) -> None:
            """It does nothing."""

        with pytest.raises(ConfigError, match=r"give its function `\*, ahead=None`"):
            plain.ahead(begin)

        @here.engine.command
        async def waits(context: Context, text: str, *, ahead: object = None) -> None:
            """waits"""

        async def alone(context: Context) -> None:
            """It takes no draft."""

        with pytest.raises(ConfigError, match=r"as `async def alone\(context, draft\)`"):
            waits.ahead(alone)  # type: ignore[arg-type]

        with pytest.raises(ConfigError, match="all that it may have by name"):

            @here.engine.command
            async def odd(context: Context, text: str, *, behind: object = None) -> None:
                """odd"""


async def test_a_draft_settles_when_it_rests_and_never_while_it_is_empty() -> None:
    draft = Draft()
    settled = asyncio.create_task(draft.settled(0.02))
    draft.grow("  ")
    await asyncio.sleep(0.06)
    assert not settled.done()
    draft.grow("cat")
    assert await settled == "  cat"
    ended = asyncio.create_task(draft.ended())
    draft.grow(" food")
    await asyncio.sleep(0)
    assert not ended.done()
    draft.end("cat food")
    assert await ended == await draft.settled(9) == "cat food"
