"""`/v1` as programs use it: bad requests, names of talks, retries, tasks; and the clients openai and llm."""

import asyncio
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from openai import APIError, AsyncOpenAI, BadRequestError, InternalServerError, NotFoundError

from pixi.channels.http.reconciling import KeptTurn, Said
from pixi.channels.http.rules import HttpRules
from tests.channels.http.chat_server import Backend, said, serving
from tests.waiting import until

USER = {"role": "user", "content": "hi"}


async def post(address: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else None
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{address}/v1/chat/completions", json=None if data else body, data=data, headers=headers
        ) as answer,
    ):
        return answer.status, await answer.json()


def ask(*texts: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "mathilde", "messages": messages, **fields}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"{", 400, None),
        (b"[]", 400, None),
        (b"[" * 100_000, 400, None),
        (b'"' + b"x" * 600_000 + b'"', 413, None),
        ({"messages": [USER]}, 400, "model"),
        ({"model": "mathilde"}, 400, "messages"),
        ({"model": "mathilde", "messages": []}, 400, "messages"),
        ({"model": "mathilde", "messages": ["hi"]}, 400, "messages[0]"),
        ({"model": "mathilde", "messages": [{"role": "user", "content": []}]}, 400, "messages"),
        ({"model": "mathilde", "messages": [{"role": "assistant", "content": "a"}]}, 400, "messages"),
        ({"model": "nobody", "messages": [USER]}, 404, "model"),
        ({"model": "hidden", "messages": [USER]}, 404, "model"),
        (ask("hi", stop=[1]), 400, "stop"),
        (ask("hi", max_tokens=0), 400, "max_tokens"),
        (ask("hi", max_completion_tokens=True), 400, "max_completion_tokens"),
        (ask("hi", stream_options=[]), 400, "stream_options"),
        (ask("hi", metadata={"conversation": 5}), 400, "user"),
        (ask("hi", metadata={"conversation": "x" * 129}), 400, "conversation"),
        (ask("hi", metadata={"conversation": "a\nb"}), 400, "conversation"),
        (ask("hi", response_format={"type": "json_object"}), 400, "response_format"),
    ],
)
async def test_a_bad_request_is_refused_in_openais_form(body: Any, status: int, param: str | None) -> None:
    backend = Backend()
    async with serving(backend) as address:
        got, answer = await post(address, body)
    assert (got, answer["error"]["param"]) == (status, param)
    assert answer["error"]["message"]
    assert not backend.turns


async def test_an_unknown_path_is_json() -> None:
    async with serving(Backend()) as address, aiohttp.ClientSession() as session:
        async with session.post(f"{address}/v1/embeddings") as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["code"] == "unknown_url"
        async with session.get(f"{address}/models") as answer:
            assert [each["id"] for each in (await answer.json())["data"]] == ["mathilde"]


async def test_a_talk_goes_on_is_branched_or_is_told_by_the_program() -> None:
    backend = Backend()
    async with serving(backend) as address:
        await post(address, ask("hi"))
        await post(address, ask("hi", "You said hi.", "tea?"))
        await post(address, ask("hi", "You said hi.", "rain?"))
        await post(address, ask("a", "b", "c"))
    first, second, third, foreign = backend.turns
    assert first.talk == second.talk == third.talk != foreign.talk
    assert backend.branched == [(first.talk, 2)]
    assert foreign.told == (Said("user", "a"), Said("assistant", "b"))
    assert len({turn.message_id for turn in backend.turns}) == 4


async def test_a_named_talk_is_taken_by_its_name() -> None:
    backend = Backend(talks={"T": [KeptTurn(1, "old", "Old.")], "U": [KeptTurn(1, "old", "Old.")]})
    async with serving(backend) as address:
        await post(address, ask("hi"), {"X-Pixi-Conversation": "T"})
        await post(address, ask("hi", metadata={"conversation": "T"}))
        await post(address, ask("hi"), {"X-OpenWebUI-Chat-Id": "U"})
        await post(address, ask("hi"), {"X-OpenWebUI-Chat-Id": "{{CHAT_ID}}"})
        await post(address, ask("hi"), {"X-Conversation-Id": "new"})
    assert [turn.talk for turn in backend.turns[:3]] == ["T", "T", "U"]
    assert not {turn.talk for turn in backend.turns[3:]} & {"T", "U", "new"}
    assert backend.branched == [("U", 1)]


async def test_the_same_request_while_its_turn_runs_is_the_same_turn() -> None:
    backend = Backend(hold=asyncio.Event())
    async with serving(backend) as address:
        first = asyncio.create_task(post(address, ask("hi")))
        second = asyncio.create_task(post(address, ask("hi")))
        await until(lambda: len(backend.turns) == 2)
        assert backend.hold is not None
        backend.hold.set()
        await asyncio.gather(first, second)
        await post(address, ask("hi"))
    one, two, later = backend.turns
    assert (one.talk, one.message_id) == (two.talk, two.message_id)
    assert later.message_id != one.message_id


async def test_the_same_key_is_the_same_message_also_later() -> None:
    backend = Backend()
    async with serving(backend) as address:
        for _ in range(2):
            await post(address, ask("hi"), {"Idempotency-Key": "k"})
    one, two = backend.turns
    assert (one.talk, one.message_id) == (two.talk, two.message_id)
    assert not backend.branched


@pytest.mark.parametrize(
    ("system", "note"),
    [("note", "Be brief."), ("ignore", "")],
)
async def test_system_messages_go_by_the_setting(system: Any, note: str) -> None:
    backend = Backend()
    messages = [{"role": "system", "content": "Be brief."}, USER]
    async with serving(backend, HttpRules(system=system)) as address:
        await post(address, {"model": "mathilde", "messages": messages})
    assert backend.turns[0].app_says == note


async def test_a_task_never_reaches_the_persona() -> None:
    backend = Backend()
    async with serving(backend) as address:
        headers = {"X-OpenWebUI-Task": "tags_generation"}
        _, by_rule = await post(address, ask("hi"), headers)
        backend.helper = '{"tags": ["birds"]}'
        _, by_model = await post(address, ask("hi"), headers)
    assert by_rule["choices"][0]["message"]["content"] == '{"tags": []}'
    assert by_model["choices"][0]["message"]["content"] == '{"tags": ["birds"]}'
    assert not backend.turns


async def test_a_text_that_is_cut_stops_its_turn() -> None:
    backend = Backend(script=said("one STOP", "two"))
    async with serving(backend) as address:
        _, answer = await post(address, ask("hi", stop="STOP"))
    assert answer["choices"][0]["message"]["content"] == "one "
    assert backend.stopped == [1]


def client(address: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)


async def test_openai_reads_the_models_and_both_kinds_of_answers() -> None:
    async with serving(Backend(script=said("Good morning.", "Tea?"))) as address, client(address) as openai:
        assert [each.id async for each in openai.models.list()] == ["mathilde"]
        assert (await openai.models.retrieve("mathilde")).owned_by == "pixi"
        messages: Any = [USER]
        whole = await openai.chat.completions.create(model="mathilde", messages=messages)
        assert whole.choices[0].message.content == "Good morning.\n\nTea?"
        assert whole.usage is not None
        assert whole.usage.total_tokens == 15
        stream = await openai.chat.completions.create(
            model="mathilde", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Good morning.\n\nTea?"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


async def test_openai_raises_what_is_wrong() -> None:
    backend = Backend(script=[{"event": "error", "text": "No answer."}], finish="error")
    async with serving(backend) as address, client(address) as openai:
        messages: Any = [USER]
        with pytest.raises(NotFoundError, match="no persona 'nobody'"):
            await openai.chat.completions.create(model="nobody", messages=messages)
        with pytest.raises(BadRequestError):
            await openai.chat.completions.create(model="mathilde", messages=[])
        with pytest.raises(InternalServerError, match="No answer"):
            await openai.chat.completions.create(model="mathilde", messages=messages)
        stream = await openai.chat.completions.create(model="mathilde", messages=messages, stream=True)
        with pytest.raises(APIError, match="No answer"):
            _ = [chunk async for chunk in stream]


@pytest.mark.skipif(importlib.util.find_spec("llm") is None, reason="the package llm is not installed")
@pytest.mark.parametrize("flags", [[], ["--no-stream"]])
async def test_llm_talks_to_a_persona(tmp_path: Path, flags: list[str]) -> None:
    async with serving(Backend(script=said("Good morning.", "Tea?"))) as address:
        (tmp_path / "extra-openai-models.yaml").write_text(
            f"- model_id: mathilde\n  model_name: mathilde\n  api_base: {address}/v1\n"
        )
        environment = {
            **os.environ,
            "LLM_LOAD_PLUGINS": "",
            "LLM_USER_PATH": str(tmp_path),
            "OPENAI_API_KEY": "none",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llm", "-m", "mathilde", "-u", *flags, "hi",
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    assert out.decode().strip() == "Good morning.\n\nTea?"
    assert "12 input, 3 output" in told.decode()
