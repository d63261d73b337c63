"""The bot whole, on a Discord in this process: what its webhooks say, seen as people see it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pixi.core.persona import Persona
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.room import Room, room_of
from tests.waiting import until

PERSONAS = Path(__file__).parents[3] / "personas"


@pytest.fixture
async def faces() -> AsyncIterator[Room]:
    """Two personas that speak by webhooks."""
    backend = RecordingBackend()
    backend.obey(faces="webhook")
    backend.personas = {
        "pixi": Persona("Pixi", "", avatar=str(PERSONAS / "pixi.png")),
        "dan": Persona("Discord Dan", "", avatar="https://example.org/dan.png"),
    }
    async with room_of(backend) as room:
        yield room


async def test_a_persona_speaks_by_its_webhook_with_its_picture(faces: Room) -> None:
    channel, asked = await faces.asked()
    posted = await channel.send("@everyone @Mo hi", nonce="1", answers=asked)
    spoken = faces.general.messages[-1]
    assert (str(spoken.id), spoken.shown) == (posted, "Pixi")
    assert spoken.content == f"@\u200beveryone {faces.mo.mention} hi"
    assert spoken.pinged == {faces.mo.id}
    assert spoken.webhook is not None
    assert spoken.webhook.avatar
    assert await channel.sent_before("nothing", nonce="2", after=asked) is None


async def test_who_answers_it_is_heard_and_its_own_words_are_not(faces: Room) -> None:
    channel, asked = await faces.asked()
    posted = await channel.send("I, Pixi, talk to myself: Pixi!", nonce="1", answers=asked)
    answer = await faces.general.say(faces.ana, "and then?", reply_to=faces.general.messages[-1])
    await until(lambda: len(faces.backend.received) == 2)
    heard, _ = faces.backend.received[-1]
    assert (heard.id, heard.reply_to, heard.addressed) == (str(answer.id), posted, True)
