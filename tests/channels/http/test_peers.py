"""What servers on one store tell each other, without a database between them; with one: `app/cluster`."""

import asyncio
import json
from typing import Any, cast

import pytest

from pixi.channels.http import peers
from pixi.channels.http.backend import Backend
from pixi.channels.http.feed import Channels
from pixi.channels.http.peers import Peers
from pixi.core.errors import StoreError
from tests.waiting import until

TALK = "http:local:pixi:a"
NOTHING = cast(Backend, object())  # which is not asked


async def _nothing() -> None:
    pass


def connected() -> tuple[Peers, Channels, list[dict[str, Any]]]:
    """Peers with one talk open, and what they say."""
    channels, said = Channels(), list[dict[str, Any]]()
    here = Peers(NOTHING, channels, _nothing)
    here.connect(lambda data: said.append(json.loads(data)))
    channels.at(TALK)
    return here, channels, said


async def test_who_is_known_already_is_told_nothing_again() -> None:
    here, _, said = connected()
    here.heard("b", b'{"type":"here"}')
    here.heard("b", b'{"type":"here"}')
    assert [each["type"] for each in said] == ["follow"]


async def test_what_did_not_reach_the_others_is_told_anew() -> None:
    here, _, said = connected()
    here.heard("b", b'{"type":"here"}')
    said.clear()
    here.unheard()
    assert said == [{"type": "hello"}, {"type": "follow", "talks": [TALK], "ask": ""}]


@pytest.mark.parametrize(
    "message",
    [
        b'{"type":"events","talk":"http:local:pixi:a","forms":[{"event":"send"}]}',
        b'{"type":"events","talk":"http:local:pixi:a","forms":[{"event":"send","turn":"x"}]}',
        b'{"type":"later","talk":1}',
        b"[" * 100_000,
        b"\xff",
    ],
)
async def test_a_message_that_is_not_understood_does_no_harm(
    message: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    here, _, said = connected()
    here.heard("b", b'{"type":"hello"}')
    here.heard("b", message)
    here.heard("c", b'{"type":"here"}')
    assert set(here.others) == {"b", "c"}
    assert [each["type"] for each in said] == ["here", "follow", "follow"]


async def test_half_a_surrogate_pair_passes_as_a_replacement() -> None:
    here, _, said = connected()
    here.heard("b", json.dumps({"type": "follow", "talks": [TALK]}).encode())
    here._pass_on(TALK, {"event": "said", "turn": 0, "id": 0, "text": "a\ud83d"})
    assert said[-1]["forms"][0]["text"] == "a\ufffd"


async def test_what_a_server_left_is_taken_up_once_the_database_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "BACK_SECONDS", 0.0)
    tries = 0

    async def resume() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StoreError("away")

    here = Peers(NOTHING, Channels(), resume)
    here.heard("b", b'{"type":"hello"}')
    here.gone("b")
    await until(lambda: tries == 3, "three tries")
    await asyncio.sleep(0)
    await here.close()
    assert tries == 3
