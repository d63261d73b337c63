"""Discord's REST is away in mid-reply: what was to come comes when it is back, in order and once."""

from pathlib import Path

import pytest

from pixi.channels.discord import requests
from pixi.testing.discord import ApiCall, DropConnection
from tests.end_to_end.bot import Scene, scene


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_FIRST_PAUSE", 0.005)


def away_after_the_first_post(here: Scene, requests: int) -> None:
    """Drop so many requests to the channel's messages, from the second post on."""
    posts, dropped = [0], [0]

    def away(call: ApiCall) -> None:
        posts[0] += call.method == "POST"
        if posts[0] >= 2 and dropped[0] < requests:
            dropped[0] += 1
            raise DropConnection

    here.discord.before("*", r"/messages|/webhooks/\d+/", away)


@pytest.mark.parametrize("faces", ["off", "webhook"])
async def test_an_outage_in_mid_reply_leaves_no_hole(tmp_path: Path, faces: str) -> None:
    async with scene(tmp_path, "[SEND: one]\n[SEND: two]\n[SEND: three]") as here:
        async with here.bot(discord__faces=faces) as service:
            away_after_the_first_post(here, 14)
            await here.ask()
            await here.said("one", "two", "three")
            await service.engine.settled()
        assert here.posts() == ["one", "two", "three"]


async def test_an_outage_beyond_the_patience_holds_the_rest_until_it_is_over(tmp_path: Path) -> None:
    """Nothing later of a reply is posted before it is known what became of the earlier."""
    async with (
        scene(tmp_path, "[SEND: one]\n[SEND: two]\n[SEND: three]", "[SEND: four]") as here,
        here.bot(discord__patience_seconds=0) as service,
    ):
        away_after_the_first_post(here, 6)
        await here.ask()
        await here.said("one", "two", "three")
        await service.engine.settled()
        await here.ask("and then?")
        await here.said("one", "two", "three", "four")
        said = [line["content"] for line in here.prompt() if line["role"] == "assistant"]
        assert said[-1] == "[SEND: one]\n[SEND: two]\n[SEND: three]"
