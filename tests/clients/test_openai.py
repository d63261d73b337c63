"""OpenAI's client for JavaScript talks to a persona."""

import pytest

from pixi.core.errors import ModelError
from tests.channels.http.served import served
from tests.clients.client import client, with_node

pytestmark = [pytest.mark.nightly, with_node]


async def test_a_persona_is_talked_to_whole_and_as_a_stream() -> None:
    async with (
        served("[NOTE: hm][SEND: hey][SEND: you]", "[REACT: 🥞]") as here,
        client("openai.mjs", here.url) as program,
    ):
        assert [model["id"] for model in await program.do("models")] == ["pixi", "edda"]
        hi = {"role": "user", "content": "hi"}
        first = await program.do("whole", model="pixi", messages=[hi])
        (choice,) = first["choices"]
        assert choice["message"] == {"role": "assistant", "content": "hey\n\nyou"}
        more = [hi, choice["message"], {"role": "user", "content": "more"}]
        told = await program.do("stream", model="pixi", messages=more, stream_options={"include_usage": True})
        assert (told["content"], told["finish"], told["error"]) == ("🥞", "stop", "")
        assert told["usage"]["total_tokens"] == 0
        assert len(await here.backend.store.talks("web:local", "pixi", 10)) == 1


async def test_what_is_refused_is_told_in_words() -> None:
    async with served() as here, client("openai.mjs", here.url) as program:
        told = await program.do("stream", model="nobody", messages=[{"role": "user", "content": "hi"}])
        assert told["error"].startswith("404 ")
        assert "nobody" in told["error"]


async def test_a_failure_is_an_error_where_the_program_wants_it_so() -> None:
    broken = ["[SEND: one]", ModelError("gone", permanent=True)]
    async with served(broken) as here, client("openai.mjs", here.url) as program:
        hi = {"role": "user", "content": "hi"}
        told = await program.do("stream", model="pixi", messages=[hi], headers={"X-Pixi-Errors": "strict"})
        assert (told["content"], told["finish"], bool(told["error"])) == ("one", None, True)
