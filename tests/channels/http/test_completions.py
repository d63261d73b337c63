"""`/v1` as programs use it: bad requests, names of talks, retries, tasks; and the clients openai and llm."""

import asyncio
import importlib.util
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pixi.channels.http import reconciliation
from pixi.channels.http.completions import ModelsAnswer
from pixi.channels.http.faces.chat_completions import ChatCompletion
from pixi.core.errors import ModelError
from pixi.core.llm import Finished, Usage
from pixi.core.message import words_of
from pixi.core.persona import Persona
from pixi.settings.rules import HttpRules
from tests.channels.http.served import PERSONAS, Served, served
from tests.waiting import until

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CAST = {**PERSONAS, "mathilde": Persona("Mathilde", "You are Mathilde."), "hidden": Persona("H", "You hide.")}
USER = {"role": "user", "content": "hi"}


@asynccontextmanager
async def v1(*replies: Any, **rules: Any) -> AsyncGenerator[tuple[Served, dict[str, str]], None]:
    """A server, and the headers of a program that may talk to Mathilde alone, for whomever it names."""
    async with served(*replies, personas=CAST, rules=HttpRules(max_body_bytes=500_000, **rules)) as here:
        yield here, await here.key("app", "chat", "chat:on-behalf", personas=("mathilde",))


async def post(server: tuple[Served, dict[str, str]], body: Any, **headers: str) -> tuple[int, Any]:
    here, key = server
    data = body if isinstance(body, bytes) else None
    async with here.http.post(
        f"{here.url}/v1/chat/completions",
        json=None if data else body,
        data=data,
        headers={**key, **({"Content-Type": "application/json"} if data else {}), **headers},
    ) as answer:
        return answer.status, await answer.json()


async def talks(server: tuple[Served, dict[str, str]], person: str = "web:app") -> list[str]:
    """The names of the program's talks, latest first."""
    return [talk.name for talk in await server[0].backend.store.talks(person, "mathilde", 100)]


def shown(server: tuple[Served, dict[str, str]], turn: int = -1) -> str:
    """What the model was shown of the talk."""
    return str(server[0].model.requests[turn].lines[1:])


def ask(*texts: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "mathilde", "messages": messages, **fields}


BAD: tuple[tuple[Any, int, str | None], ...] = (
    (b"{", 400, None),
    (b"[]", 400, None),
    (b"[" * 100_000, 400, None),
    (b'"' + b"x" * 600_000 + b'"', 413, None),
    ({"messages": [USER]}, 400, "model"),
    ({"model": "mathilde"}, 400, "messages"),
    ({"model": "mathilde", "messages": []}, 400, "messages"),
    ({"model": "mathilde", "messages": ["hi"]}, 400, "messages[0]"),
    ({"model": "mathilde", "messages": [{"content": "hi"}]}, 400, "messages[0].role"),
    ({"model": "mathilde", "messages": [{"role": "robot", "content": "hi"}]}, 400, "messages[0].role"),
    ({"model": "mathilde", "messages": [{"role": "user", "content": []}]}, 400, "messages"),
    ({"model": "mathilde", "messages": [{"role": "assistant", "content": "a"}]}, 400, "messages"),
    ({"model": "nobody", "messages": [USER]}, 404, "model"),
    ({"model": "hidden", "messages": [USER]}, 404, "model"),
    (ask("hi", stop=[1]), 400, "stop[0]"),
    (ask("hi", max_tokens=0), 400, "max_tokens"),
    (ask("hi", max_completion_tokens=True), 400, "max_completion_tokens"),
    (ask("hi", stream_options=[]), 400, "stream_options"),
    (ask("hi", metadata={"conversation": 5}), 400, "metadata.conversation"),
    (ask("hi", user=5), 400, "user"),
    (ask("hi", stream="false"), 400, "stream"),
    (ask("hi", stream_options={"include_usage": "no"}), 400, "stream_options.include_usage"),
    (ask("hi", temperature="hot"), 400, "temperature"),
    (ask("hi", response_format="json"), 400, "response_format"),
    (ask("hi", metadata={"conversation": "x" * 129}), 400, "conversation"),
    (ask("hi", metadata={"conversation": "a\nb"}), 400, "conversation"),
    (ask("hi", response_format={"type": "json_object"}), 400, "response_format"),
)


async def test_a_bad_request_is_refused_in_openais_form() -> None:
    async with v1() as server:
        for body, status, param in BAD:
            got, answer = await post(server, body)
            assert (got, answer["error"]["param"]) == (status, param), str(body)[:200]
            assert answer["error"]["message"]
        assert not server[0].model.requests


async def test_what_is_no_json_or_has_no_key_is_refused_in_openais_form_too() -> None:
    async with v1() as (here, key):
        url, body = f"{here.url}/v1/chat/completions", json.dumps(ask("hi"))
        wrong = {"Authorization": "Bearer pixi_sk_wrong", "Content-Type": "application/json"}
        for headers, status, code in (
            ({**key, "Content-Type": "text/plain"}, 415, None),
            (wrong, 401, "invalid_api_key"),
        ):
            async with here.http.post(url, data=body, headers=headers) as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (status, code)
    assert not here.model.requests


async def test_half_of_an_emoji_is_no_hindrance() -> None:
    async with v1("[SEND: Hello.]") as server:
        status, _ = await post(server, json.dumps(ask("hi", "cut \ud83d", "and \\ud83d")).encode())
        assert status == 200
        assert "cut ?" in shown(server)


async def test_answers_are_as_they_are_described() -> None:
    async with v1("[SEND: Hello.]") as server:
        _, answer = await post(server, ask("hi"))
        _, models = await server[0].get("/v1/models", **server[1])
    assert msgspec.to_builtins(msgspec.convert(answer, ChatCompletion)) == answer
    assert msgspec.to_builtins(msgspec.convert(models, ModelsAnswer)) == models


async def test_an_unknown_path_is_json() -> None:
    async with v1() as (here, key):
        status, answer = await here.post("/v1/embeddings", **key)
        assert (status, answer["error"]["code"]) == (404, "unknown_url")
        status, answer = await here.post("/v1/models", **key)
        assert (status, answer["error"]["type"]) == (405, "invalid_request_error")
        _, models = await here.get("/models", **key)
        assert [each["id"] for each in models["data"]] == ["mathilde"]


async def test_a_talk_goes_on_is_branched_or_is_told_by_the_program() -> None:
    async with v1("[SEND: Hello.]", "[SEND: Tea.]", "[SEND: Rain.]", "[SEND: d]") as server:
        await post(server, ask("hi"))
        await post(server, ask("hi", "Hello.", "tea?"))
        assert len(await talks(server)) == 1
        await post(server, ask("hi", "Hello.", "rain?"))
        assert "Hello." in shown(server)
        assert "tea?" not in shown(server), "the program took that back"
        await post(server, ask("geese?", "South.", "storks?"))
        assert len(await talks(server)) == 2
        assert "Hello." not in shown(server)
        assert shown(server).index("geese?") < shown(server).index("South.") < shown(server).index("storks?")


async def test_a_program_that_stops_an_answer_goes_on_with_the_talk() -> None:
    on = asyncio.Event()
    async with v1(["[SEND: Hello. Are we", on, " friends?]"], "[SEND: Fine.]") as server:
        here, key = server
        url, body = f"{here.url}/v1/chat/completions", ask("hi", stream=True)
        async with here.http.post(url, json=body, headers=key) as answer:
            await answer.content.readuntil(b"e we")
        second = asyncio.create_task(post(server, ask("hi", "Hello. Are w", "well?")))
        (talk,) = await here.backend.store.talks("web:app", "mathilde", 2)
        await until(lambda: here.backend.engine.waiting(talk.address))
        on.set()
        assert (await second)[1]["choices"][0]["message"]["content"] == "Fine."
        assert "Hello. Are we friends?" in shown(server)
        assert len(await talks(server)) == 1


async def test_words_that_are_edited_after_a_stop_take_the_place_of_the_old() -> None:
    async with v1("[SEND: Hello.]", ["[SEND: Tea is hot!!!", asyncio.Event()], "[SEND: Fine.]") as server:
        here, key = server
        await post(server, ask("hi"))
        url, body = f"{here.url}/v1/chat/completions", ask("hi", "Hello.", "tea?", stream=True)
        async with here.http.post(url, json=body, headers=key) as answer:
            await answer.content.readuntil(b"t!!!")
        await here.get("/healthz")  # by then the server knows that the program has gone away
        _, told = await post(server, ask("hi", "Hello.", "coffee?"))
        assert told["choices"][0]["message"]["content"] == "Fine."
        assert ("Hello." in shown(server), "tea" in shown(server).lower()) == (True, False)
        assert len(await talks(server)) == 1


async def test_requests_side_by_side_that_begin_alike_do_not_stop_one_another() -> None:
    on = asyncio.Event()
    async with v1("[SEND: Hello.]", [on, "[SEND: one]"], "[SEND: two]") as server:
        await post(server, ask("hi"))
        first = asyncio.create_task(post(server, ask("hi", "Hello.", "tea?")))
        await until(lambda: server[0].model.streaming)
        _, second = await post(server, ask("hi", "Hello.", "rain?"))
        on.set()
        told = [each["choices"][0]["message"]["content"] for each in (second, (await first)[1])]
        assert told == ["two", "one"]


async def test_requests_at_the_same_moment_that_begin_alike_get_their_own_answers() -> None:
    async with v1("[SEND: Hello.]", "[SEND: one]", "[SEND: two]") as server:
        await post(server, ask("hi"))
        both = [post(server, ask("hi", "Hello.", drink)) for drink in ("tea?", "milk?")]
        told = [answer["choices"][0]["message"]["content"] for _, answer in await asyncio.gather(*both)]
        assert sorted(told) == ["one", "two"]
        assert all(("tea?" in shown(server, turn)) != ("milk?" in shown(server, turn)) for turn in (1, 2))


async def test_a_retry_is_read_also_when_the_first_request_has_gone() -> None:
    on, end = asyncio.Event(), asyncio.Event()
    tea = ["[SEND: Tea is hot!!!", on, " indeed", " it is", end, ".]"]
    async with v1("[SEND: Hello.]", tea, "[SEND: other]") as server:
        here, key = server
        await post(server, ask("hi"))
        url, body = f"{here.url}/v1/chat/completions", ask("hi", "Hello.", "tea?")
        async with here.http.post(url, json={**body, "stream": True}, headers=key) as answer:
            await answer.content.readuntil(b"t!!!")
            retry = asyncio.create_task(post(server, body))
            (talk,) = await here.backend.store.talks("web:app", "mathilde", 2)
            channel = here.server._talks.channels.at(talk.address)
            await until(lambda: channel.feed.followers == 2)
        await here.get("/healthz")  # by then the server knows that the first has gone
        on.set()
        await until(lambda: channel.feed.followers == 1)
        _, third = await post(server, ask("hi", "Hello.", "coffee?"))
        end.set()
        told = [each["choices"][0]["message"]["content"] for each in ((await retry)[1], third)]
        assert told == ["Tea is hot!!! indeed it is.", "other"]


async def test_a_talk_that_was_begun_elsewhere_is_told_once() -> None:
    begun = ("who are you?", "A model.")
    async with v1(*(f"[SEND: {word}]" for word in ("one", "two", "other", "three", "new"))) as server:
        await post(server, ask(*begun, "hi"))
        await post(server, ask(*begun, "hi", "one", "more"))
        await post(server, ask(*begun, "hi", "one", "more"))
        assert "two" not in shown(server), "the program wants another answer"
        await post(server, ask(*begun, "hi", "one", "more", "other", "and more"))
        assert shown(server).count("A model.") == 1
        assert len(await talks(server)) == 1
        name = {"X-OpenWebUI-Chat-Id": (await talks(server))[0]}
        await post(server, ask(*begun, "hello"), **name)
        assert (shown(server).count("A model."), "one" in shown(server)) == (1, False)
        assert len(await talks(server)) == 1


@pytest.mark.parametrize("name", [{}, {"X-OpenWebUI-Chat-Id": "T"}])
@pytest.mark.parametrize("others", [False, True])
async def test_a_person_goes_back_to_an_earlier_answer(name: dict[str, str], others: bool) -> None:
    words = ("Hello.", "Tea.", "Cocoa.", "Milk.", "Sugar.", "Cups.", "Spoons.")
    async with v1(*(f"[SEND: {word}]" for word in words)) as server:
        if others:
            server[0].peers.connect(lambda data: None, lambda: 0.0)
            server[0].peers.receive("b", b'{"type":"hello"}')

        async def say(*texts: str) -> str:
            """Say the last with what stands before; gives the answers that the model was shown."""
            await post(server, ask(*texts), **name)
            return " ".join(word for word in words if word in shown(server))

        begun = ("hi", "Hello.", "what now?")
        assert await say("hi") == ""
        assert await say(*begun) == "Hello."
        assert await say(*begun) == "Hello.", "another answer, Cocoa"
        assert await say(*begun, "Tea.", "with?") == "Hello. Tea."
        assert await say(*begun, "Cocoa.", "with?") == "Hello. Cocoa."
        assert await say(*begun, "Tea.", "with?", "Milk.", "and?") == "Hello. Tea. Milk."
        assert await say(*begun, "Tea.", "with?") == "Hello. Tea.", "another answer, Spoons"
        assert len(await talks(server)) == 1


async def test_a_history_is_read_once_however_many_talks_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[str]()

    def counted(text: str) -> str:
        read[text] += 1
        return words_of(text)

    monkeypatch.setattr(reconciliation, "words_of", counted)
    async with v1(*["[SEND: a]"] * 4) as server:
        for text in ("hi", "ho", "hu"):
            await post(server, ask(text))
        await post(server, ask("new", "b", "c"))
    assert read["new"] == 1


async def test_a_named_talk_is_taken_by_its_name() -> None:
    async with v1(*[f"[SEND: {n}]" for n in range(7)]) as server:
        for name in "TU":
            await post(server, ask("old"), **{"X-Pixi-Conversation": name})
        await post(server, ask("hi"), **{"X-Pixi-Conversation": "T"})
        await post(server, ask("hi", metadata={"conversation": "T"}))
        assert "old" in shown(server)
        assert sorted(await talks(server)) == ["T", "U"]
        await post(server, ask("hi"), **{"X-OpenWebUI-Chat-Id": "U"})
        assert "old" not in shown(server), "Open WebUI sends all that it has of a talk"
        assert sorted(await talks(server)) == ["T", "U"]
        await post(server, ask("hi"), **{"X-OpenWebUI-Chat-Id": "{{CHAT_ID}}"})
        await post(server, ask("ho"), **{"X-Conversation-Id": "new"})
        assert len(await talks(server)) == 4
        assert "new" not in await talks(server)


async def test_the_same_request_while_its_turn_runs_is_the_same_turn() -> None:
    on = asyncio.Event()
    async with v1([on, "[SEND: Hello.]"], "[SEND: Hello again.]") as server:
        first = asyncio.create_task(post(server, ask("hi")))
        await until(lambda: server[0].model.requests)
        second = asyncio.create_task(post(server, ask("hi")))
        await server[0].get("/healthz")  # the second is under way by then
        on.set()
        answers = [(await each)[1]["choices"][0]["message"]["content"] for each in (first, second)]
        assert answers == ["Hello.", "Hello."]
        _, later = await post(server, ask("hi"))
        assert later["choices"][0]["message"]["content"] == "Hello again."


async def test_a_trusted_key_adds_its_system_messages_to_the_prompt() -> None:
    first, second = (
        {"role": "system", "content": text} for text in ("Be brief, {{user}}. [NOTE: x", "Rhyme.")
    )
    async with v1(*["[SEND: Hello.]"] * 4, system="append") as (here, key):
        trusted = await here.key("trust", "chat", "chat:on-behalf", "instruct")
        for headers, said in ((trusted, first), (trusted, second), (trusted, None), (key, first)):
            messages = [*filter(None, [said]), {"role": "user", "content": f"hi {len(here.model.requests)}"}]
            body = {"model": "mathilde", "messages": messages, "user": "mo"}
            await post((here, headers), body, **{"X-Pixi-Conversation": "a"})
        prompts = [str(request.lines[0]) for request in here.model.requests]
        assert "Be brief, {{user}}. [NOTE: x" in prompts[0]
        assert prompts[1] == prompts[0].replace("Be brief, {{user}}. [NOTE: x", "Rhyme.")
        assert "Rhyme." not in prompts[2]
        assert "Be brief" not in prompts[3], "another key's is a note"
        assert "Be brief" in str(here.model.requests[3].lines[1:])
        assert "Be brief" not in str(here.model.requests[0].lines[1:])


@pytest.mark.parametrize("system", ["note", "ignore"])
async def test_system_messages_go_by_the_setting(system: Any) -> None:
    messages = [{"role": "system", "content": "Be brief."}, USER]
    async with v1("[SEND: Hello.]", system=system) as server:
        await post(server, {"model": "mathilde", "messages": messages})
        assert ("Be brief." in shown(server)) == (system == "note")
        assert "Be brief." not in str(server[0].model.requests[0].lines[0]), "it has no authority"


async def test_notes_are_an_operators_where_the_settings_say_so() -> None:
    note = "[NOTE: hm][SEND: Hello.]"
    async with v1(note, note, note, notes="reasoning") as (here, key):
        operator = await here.key("op", "chat", "chat:on-behalf", "operate")
        asked = ((key, ask("hi")), (operator, ask("hi", user="mo")), (operator, ask("hi")))
        told = [(await post((here, headers), body))[1]["choices"][0]["message"] for headers, body in asked]
    hidden = {"role": "assistant", "content": "Hello."}
    assert told == [hidden, hidden, {**hidden, "reasoning_content": "hm"}]


async def test_a_task_never_reaches_the_persona() -> None:
    async with v1() as server:
        headers = {"X-OpenWebUI-Task": "tags_generation"}
        _, by_rule = await post(server, ask("hi"), **headers)
        server[0].backend.helper = '{"tags": ["birds"]}'
        _, by_model = await post(server, ask("hi"), **headers)
        server[0].backend.helper = ModelError("The helper is away.")
        _, without_it = await post(server, ask("hi"), **headers)
    assert by_rule["choices"][0]["message"]["content"] == '{"tags": []}'
    assert by_model["choices"][0]["message"]["content"] == '{"tags": ["birds"]}'
    assert without_it["choices"] == by_rule["choices"]
    assert not server[0].model.requests


async def test_a_text_that_is_cut_stops_its_turn() -> None:
    async with v1(["[SEND: one STOP][SEND: two]", asyncio.Event()]) as server:
        _, answer = await post(server, ask("hi", stop=["", "STOP", *(f"no {n}" for n in range(40))]))
        assert answer["choices"][0]["message"]["content"] == "one "
        await until(lambda: not server[0].model.streaming)


@pytest.mark.parametrize("limit", [{"max_tokens": 3}, {"stop": "three"}])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_that_is_cut_within_a_message_goes_on_as_the_same_talk(
    limit: dict[str, Any], stream: bool
) -> None:
    on = asyncio.Event()
    first = ["[SEND: one two three four five six", on, " seven][SEND: eight", asyncio.Event()]
    async with v1(first, "[SEND: Fine.]") as server:
        here, key = server
        url, body = f"{here.url}/v1/chat/completions", ask("hi", stream=stream, **limit)
        asking = asyncio.create_task(here.http.post(url, json=body, headers=key))
        await until(lambda: here.model.requests)
        on.set()
        async with await asking as answer:
            told = [await answer.json()] if not stream else chunks_in(await answer.text())
        parts = [choice.get("message") or choice["delta"] for each in told for choice in each["choices"]]
        text = "".join(part.get("content", "") for part in parts)
        assert "one two three four five six seven".startswith(text.strip())
        await post(server, ask("hi", text, "more"))
        assert "six seven" in shown(server)
        assert len(await talks(server)) == 1


def chunks_in(stream: str) -> list[Any]:
    lines = (line.removeprefix("data: ") for line in stream.splitlines() if line)
    return [json.loads(line) for line in lines if line != "[DONE]"]


def client(server: tuple[Served, dict[str, str]]) -> "AsyncOpenAI":
    from openai import AsyncOpenAI  # large, and of these tests alone

    here, key = server
    secret = key["Authorization"].removeprefix("Bearer ")
    return AsyncOpenAI(base_url=f"{here.url}/v1", api_key=secret, max_retries=0)


USED = Finished("stop", Usage(12, 8, 3))


async def test_openai_reads_the_models_and_both_kinds_of_answers() -> None:
    reply = ["[SEND: Good morning.][SEND: Tea?]", USED]
    async with v1(reply, reply) as server, client(server) as openai:
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
    from openai import APIError, BadRequestError, InternalServerError, NotFoundError

    gone = ModelError("The model is gone.", permanent=True)
    async with v1([gone], [gone]) as server, client(server) as openai:
        messages: Any = [USER]
        with pytest.raises(NotFoundError, match="no persona 'nobody'"):
            await openai.chat.completions.create(model="nobody", messages=messages)
        with pytest.raises(BadRequestError):
            await openai.chat.completions.create(model="mathilde", messages=[])
        with pytest.raises(InternalServerError, match="The model is gone"):
            await openai.chat.completions.create(model="mathilde", messages=messages)
        stream = await openai.chat.completions.create(model="mathilde", messages=messages, stream=True)
        with pytest.raises(APIError, match="The model is gone"):
            _ = [chunk async for chunk in stream]


@pytest.mark.nightly
@pytest.mark.skipif(importlib.util.find_spec("llm") is None, reason="the package llm is not installed")
@pytest.mark.parametrize("flags", [[], ["--no-stream"]])
async def test_llm_talks_to_a_persona(tmp_path: Path, flags: list[str]) -> None:
    async with v1(["[SEND: Good morning.][SEND: Tea?]", USED]) as (here, key):
        (tmp_path / "extra-openai-models.yaml").write_text(
            f"- model_id: mathilde\n  model_name: mathilde\n  api_base: {here.url}/v1\n"
        )
        environment = {
            **os.environ,
            "LLM_LOAD_PLUGINS": "",
            "LLM_USER_PATH": str(tmp_path),
            "OPENAI_API_KEY": key["Authorization"].removeprefix("Bearer "),
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
