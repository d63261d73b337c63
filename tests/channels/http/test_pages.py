"""Pages that talk by AI SDK or AG-UI, with a real server, a real engine and a real store."""

import asyncio
import json
from typing import Any

import pytest

from pixi.settings.rules import HttpRules
from tests.channels.http.booking import CALLED, booking
from tests.channels.http.served import Served, served
from tests.waiting import until


def ui(*texts: str, talk: str = "a", **more: Any) -> dict[str, Any]:
    """The body of AI SDK's transport: a talk of which these are the user's messages, `u0`, `u1`, …"""
    messages = [
        {"id": f"u{n}", "role": "user", "parts": [{"type": "text", "text": text}]}
        for n, text in enumerate(texts)
    ]
    return {"id": talk, "messages": messages, "trigger": "submit-message", **more}


def run(*texts: str, run_id: str = "r0", **more: Any) -> dict[str, Any]:
    """The body of AG-UI's client."""
    messages = [{"id": f"u{n}", "role": "user", "content": text} for n, text in enumerate(texts)]
    state: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": "a", "runId": run_id, "messages": messages, **state, **more}


async def chunks_of(here: Served, path: str, body: object = None, **headers: str) -> list[dict[str, Any]]:
    """Ask, and read the stream to its end."""
    method = "GET" if body is None else "POST"
    async with here.http.request(method, here.url + path, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        text = await answer.text()
    frames = [frame for frame in text.split("\n\n") if frame.startswith("data: {")]
    return [json.loads(frame[6:]) for frame in frames]


def said(chunks: list[dict[str, Any]]) -> str:
    return "".join(
        chunk["delta"] for chunk in chunks if chunk["type"] in ("text-delta", "TEXT_MESSAGE_CONTENT")
    )


def heard(here: Served, request: int) -> str:
    """What the model was shown of the talk."""
    return str(here.model.requests[request].lines[1:])


async def test_ai_sdk_talks() -> None:
    async with served("[SEND: one]", "[SEND: two]") as here:
        async with here.http.post(here.url + "/api/chat", json=ui("hi")) as answer:
            assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
            assert (await answer.text()).endswith("data: [DONE]\n\n")
        second = await chunks_of(here, "/api/chat", ui("hi", "more"))
        assert (second[0]["messageId"], said(second)) == ("turn-2", "two")
        assert "one" in heard(here, 1)
        _, told = await here.get("/api/chat/a/messages")
        assert [each["text"] for each in told["messages"]] == ["hi", "one", "more", "two"]


async def test_the_same_message_again_is_the_same_reply() -> None:
    async with served("[SEND: one]") as here:
        first = await chunks_of(here, "/api/chat", ui("hi"))
        again = await chunks_of(here, "/api/chat", ui("hi"))
        assert (said(again), again[0]) == ("one", first[0])
        async with here.http.post(here.url + "/api/chat", json=ui("other")) as answer:
            assert (answer.status, answer.content_type) == (422, "text/plain")
            assert "came before with other words" in await answer.text()


async def test_ai_sdk_has_a_reply_anew() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: other two]") as here:
        await chunks_of(here, "/api/chat", ui("hi"))
        await chunks_of(here, "/api/chat", ui("hi", "more"))
        body = ui("hi", "more", trigger="regenerate-message", messageId="turn-2")
        anew = await chunks_of(here, "/api/chat", body)
        assert (anew[0]["messageId"], said(anew)) == ("turn-3", "other two")
        assert "two" not in heard(here, 2)
        assert "one" in heard(here, 2)
        # What was set aside is the person's still.
        assert "two" in str(await here.backend.engine.export("web:local"))


async def test_ai_sdk_edits_an_earlier_message() -> None:
    async with served("[SEND: one]", "[SEND: two]", "[SEND: three]") as here:
        await chunks_of(here, "/api/chat", ui("hi"))
        await chunks_of(here, "/api/chat", ui("hi", "more"))
        edited = await chunks_of(here, "/api/chat", ui("hello", messageId="u0"))
        assert said(edited) == "three"
        assert not {"hi", "more", "one", "two"} & set(heard(here, 2).split())
        _, told = await here.get("/api/chat/a/messages")
        assert [each["text"] for each in told["messages"]] == ["hello", "three"]


@pytest.mark.parametrize(
    ("path", "ask", "answer"), [("/api/chat", ui, "turn-{}"), ("/api/agui", run, "{}.0")]
)
async def test_a_page_goes_back_to_an_earlier_answer(path: str, ask: Any, answer: str) -> None:
    words = ("one", "other", "two", "three", "four")
    async with served(*(f"[SEND: {word}]" for word in words)) as here:

        async def say(*texts: str, after: int = 0, last: str = "", again: bool = False) -> str:
            """Say the last text, behind the answer of a turn; gives the answers that the model was shown."""
            ai_sdk = {"trigger": "regenerate-message"} if again else {}
            body = ask(*texts, **(ai_sdk if ask is ui else {"run_id": f"r{len(here.model.requests)}"}))
            body["messages"][-1]["id"] = last or body["messages"][-1]["id"]
            if after:
                body["messages"].insert(1, {"id": answer.format(after), "role": "assistant"})
            assert said(await chunks_of(here, path, body))
            return " ".join(word for word in words if word in heard(here, -1))

        assert await say("hi") == ""
        assert await say("hi", again=True) == ""
        assert await say("hi", "more", after=1) == "one"
        assert await say("hi", "more", after=1, again=True) == "one"
        assert await say("hi", "something else", after=2, last="new") == "other"


async def test_a_page_that_was_reloaded_goes_on_in_its_protocol() -> None:
    go_on = asyncio.Event()
    async with served(["[SEND: one]", go_on, "[SEND: two]"]) as here:
        asking = asyncio.create_task(chunks_of(here, "/api/chat", ui("hi")))
        await until(lambda: here.model.streaming)
        native = here.stream("/api/chat/a/stream?protocol=native")
        async with native as events, here.http.get(here.url + "/api/chat/a/stream") as answer:
            assert (await anext(events))["event"] == "turn_start"
            first = await answer.content.readuntil(b"\n\n")
            go_on.set()
            rest = await answer.text()
        frames = [frame for frame in [first.decode(), *rest.split("\n\n")] if "{" in frame]
        followed = [json.loads(frame[6:]) for frame in frames]
        whole = await asking
        # Pieces of messages that are whole come as one.
        assert (followed[0], said(followed), followed[-1]) == (whole[0], said(whole), whole[-1])
        assert (await here.get("/api/chat/a/stream"))[0] == 204
        assert (await here.get("/api/chat/a/stream?protocol=soap"))[0] == 400


@pytest.mark.parametrize("approved", [True, False])
async def test_ai_sdk_answers_a_question_by_its_next_request(approved: bool) -> None:
    setup, personas, done = booking()
    async with served(CALLED, "[SEND: so be it]", addons=[setup], personas=personas) as here:
        newer = {"X-Pixi-Protocol": "ai-sdk-6"}
        first = await chunks_of(here, "/api/chat", ui("monday please"), **newer)
        (asked,) = (chunk for chunk in first if chunk["type"] == "tool-approval-request")
        assert (done, here.model.streaming) == ([], 0)
        part: dict[str, Any] = {"type": "dynamic-tool", "state": "approval-responded"}
        part |= {"approval": {"id": asked["approvalId"], "approved": approved}}
        body = ui("monday please")
        body["messages"].append({"id": first[0]["messageId"], "role": "assistant", "parts": [part]})
        rest = await chunks_of(here, "/api/chat", body, **newer)
        assert done == (["monday"] if approved else [])
        assert said(rest) == "so be it"
        outcome = "tool-output-available" if approved else "tool-output-denied"
        assert rest[2] == rest[2] | {"type": outcome, "toolCallId": asked["toolCallId"]}
        async with here.http.post(here.url + "/api/chat", json=body, headers=newer) as answer:
            assert answer.status == 404


async def test_ag_ui_talks() -> None:
    async with served("[SEND: one]\n[SEND: 1]", "[SEND: two]") as here:
        first = await chunks_of(here, "/api/agui", run("hi"))
        assert (first[0], said(first)) == ({"type": "RUN_STARTED", "threadId": "a", "runId": "r0"}, "one1")
        assert said(await chunks_of(here, "/api/agui", run("hi"))) == "one1"  # the same run
        assert said(await chunks_of(here, "/api/agui", run("hi", "more", run_id="r1"))) == "two"
        assert "one" in heard(here, 1)


async def test_ag_ui_branches_where_the_client_did() -> None:
    async with served(*(f"[SEND: answer{n}]" for n in range(5))) as here:
        await chunks_of(here, "/api/agui", run("hi", run_id="r0"))
        await chunks_of(here, "/api/agui", run("hi", "more", run_id="r1"))
        anew = await chunks_of(here, "/api/agui", run("hi", "more", run_id="r2"))
        assert said(anew) == "answer2"
        assert ("answer0" in heard(here, 2), "answer1" in heard(here, 2)) == (True, False)
        edited = run("hi", "other", run_id="r3")
        edited["messages"][-1]["id"] = "new"
        assert said(await chunks_of(here, "/api/agui", edited)) == "answer3"
        assert ("hi" in heard(here, 3), "more" in heard(here, 3)) == (True, False)
        trimmed = run("last", run_id="r4")  # a client that sends no history goes on
        trimmed["messages"][-1]["id"] = "newer"
        assert said(await chunks_of(here, "/api/agui", trimmed)) == "answer4"
        assert "answer3" in heard(here, 4)


async def test_ag_ui_branches_whatever_signs_are_in_its_ids() -> None:
    async with served(*(f"[SEND: answer{n}]" for n in range(3))) as here:
        for n, texts in enumerate((["hi"], ["hi", "more"], ["hi", "more"])):
            body = run(*texts, run_id=f"run#{n}/é")
            for message in body["messages"]:
                message["id"] = f"#{message['id']}#x"
            assert said(await chunks_of(here, "/api/agui", body)) == f"answer{n}"
        assert ("answer0" in heard(here, 2), "answer1" in heard(here, 2)) == (True, False)


async def test_ag_ui_answers_a_question_by_its_next_run() -> None:
    setup, personas, done = booking()
    first_said = ["[SEND: one moment]", *CALLED]
    async with served(first_said, "[SEND: booked]", addons=[setup], personas=personas) as here:
        first = await chunks_of(here, "/api/agui", run("monday please"))
        assert said(first) == "one moment"  # and it is not told again behind the question
        (interrupt,) = first[-1]["outcome"]["interrupts"]
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        rest = await chunks_of(here, "/api/agui", run("monday please", run_id="r1", resume=[answer]))
        assert (done, said(rest), rest[-1]["outcome"]) == (["monday"], "booked", {"type": "success"})


async def test_a_persona_is_chosen_and_a_user_named_as_elsewhere() -> None:
    async with served("[SEND: flour]", "[SEND: bread]") as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        assert (
            said(await chunks_of(here, "/api/chat", ui("hi", persona="edda", userId="ana"), **key)) == "flour"
        )
        props = {"userId": "bo"}
        told = await chunks_of(here, "/api/agui?persona=edda", run("hi", forwardedProps=props), **key)
        assert said(told) == "bread"
        assert all("You are Edda" in str(request.lines[0]) for request in here.model.requests)
        assert "hi" in str(await here.backend.engine.export("web:app:bo"))


async def test_notes_are_an_operators_where_the_settings_say_so() -> None:
    note = "[NOTE: hm]\n[SEND: hey]"
    async with served(note, note, rules=HttpRules(notes="reasoning")) as here:
        key = await here.key("page", "chat")
        theirs = await chunks_of(here, "/api/chat", ui("hi"), **key)
        assert "reasoning" not in str(theirs)
        operator = await here.key("op", "chat", "operate")
        shown = await chunks_of(here, "/api/chat", ui("hi"), **operator)
        assert "".join(each["delta"] for each in shown if each["type"] == "reasoning-delta") == "hm"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("/api/chat", {"id": "a", "messages": []}, "/messages"),
    ("/api/chat", {"id": "", "messages": [{}]}, "/id"),
    ("/api/chat", {"id": "a", "messages": [{}]}, "/messages/0"),
    ("/api/chat", {"id": "a", "messages": [3]}, "/messages"),
    ("/api/chat", {"id": "a", "messages": "hi"}, "/messages"),
    ("/api/chat", {"id": "a", "messages": [{"role": "user", "parts": []}]}, "/messages/0/id"),
    ("/api/chat", {"id": "a", "messages": [{"role": "user", "id": "x", "parts": 3}]}, "/messages/0"),
    ("/api/chat", {"id": "a", "messages": [{"role": "user", "id": "x", "parts": "hello"}]}, "/messages/0"),
    (
        "/api/chat",
        {"id": "a", "messages": [{"role": "user", "id": "x", "parts": [{"type": "text"}]}]},
        "text",
    ),
    ("/api/chat", {"id": "a", "messages": [{"role": "assistant", "id": "x"}]}, "nothing to answer"),
    ("/api/chat", {"id": "a", "trigger": "dance", "messages": [{}]}, "dance"),
    ("/api/agui", {"threadId": "a", "runId": "r", "messages": []}, "/messages"),
    ("/api/agui", {"threadId": "a", "messages": []}, "runId"),
    (
        "/api/agui",
        {"threadId": "a", "runId": "r", "messages": [{"role": "user", "id": "x", "content": {}}]},
        "text",
    ),
    # A user whom nobody knows is not taken for the application itself: all of them would have one talk.
    ("/api/agui", {"threadId": "a", "runId": "r", "forwardedProps": {"userId": 5}}, "/forwardedProps/userId"),
    (
        "/api/agui",
        {"threadId": "a", "runId": "r", "forwardedProps": {"userId": ""}},
        "/forwardedProps/userId",
    ),
    ("/api/agui", {"threadId": "a", "runId": "r", "messages": [{"x": [{"y": 3}]}, 5]}, "/messages"),
]


@pytest.mark.parametrize(("path", "body", "told"), WRONG, ids=[str(n) for n in range(len(WRONG))])
async def test_what_is_wrong_is_told_with_its_place(path: str, body: dict[str, Any], told: str) -> None:
    async with served() as here, here.http.post(here.url + path, json=body) as answer:
        assert (answer.status, told in await answer.text()) == (422, True), await answer.text()


async def test_a_field_deep_in_a_message_is_told_as_far_as_it_is_known() -> None:
    body = b'{"id": "a", "messages": [{"id": "x", "parts": [{"n": 1e999}]}]}'
    headers = {"Content-Type": "application/json"}
    async with served() as here, here.http.post(here.url + "/api/chat", data=body, headers=headers) as answer:
        assert await answer.text() == "Number out of range (at /messages/0)."


async def test_questions_are_answered_by_whom_they_were_put_to() -> None:
    setup, personas, done = booking()
    async with served(CALLED, "[SEND: no]", addons=[setup], personas=personas) as here:
        mine, theirs = await here.key("mine", "chat", "approve"), await here.key("theirs", "chat", "approve")
        weak = await here.key("weak", "chat")
        first = await chunks_of(here, "/api/agui", run("monday please"), **mine)
        (interrupt,) = first[-1]["outcome"]["interrupts"]
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        body = run("monday please", run_id="r1", resume=[answer])
        assert (await here.post("/api/agui", body, **theirs))[0] == 404
        assert (await here.post("/api/agui", body, **weak))[0] == 403
        answer["status"] = "cancelled"
        assert said(await chunks_of(here, "/api/agui", body, **mine)) == "no"
        assert done == []


async def test_a_program_that_knows_talk_alone_is_not_asked() -> None:
    setup, personas, _ = booking()
    async with served("[SEND: one]", "[SEND: two]", addons=[setup], personas=personas) as here:
        body = {"model": "pixi", "messages": [{"role": "user", "content": "monday please"}]}
        headers = {"X-Pixi-Conversation": "a"}
        assert (await here.post("/v1/chat/completions", body, **headers))[0] == 200
        await here.say("monday please", conversation="a")
        assert [[tool.name for tool in asked.tools] for asked in here.model.requests] == [[], ["book"]]
