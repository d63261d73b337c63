"""Requests as chat programs send them: Open WebUI 0.12 and LibreChat's agents 3.2, recorded.

Only long instructions, and all tools but one, are left out.
"""

import json
from typing import Any

import pytest

from tests.channels.http.test_completions import shown, talks, v1

TOOL = {
    "type": "function",
    "function": {
        "name": "get_current_timestamp",
        "description": "Get the current Unix timestamp in seconds.",
        "parameters": {"properties": {}, "type": "object"},
    },
}
CHAT = {"X-OpenWebUI-Chat-Id": "3ac9fb72-11f5-4aad-a236-418139f16052", "X-OpenWebUI-Task": ""}
USER = {"X-OpenWebUI-User-Id": "930f3e81-7d46-42d5-84e6-63bf1775d289", "X-OpenWebUI-User-Name": "Ann"}
NAMED = pytest.mark.parametrize("headers", [{}, {**CHAT, **USER}])

LIBRE = {"x-conversation-id": "5b0d", "x-stainless-lang": "js", "x-stainless-retry-count": "0"}

PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1A"
    "AAAABJRU5ErkJggg=="
)
FILE = '<file type="file" id="{0}" url="{0}" content_type="{1}" name="{2}"/>'
PACKING = f"<attached_files>\n{FILE.format('0a3d8805', 'text/plain', 'packing.txt')}\n</attached_files>\n\n"
BUOY = f"<attached_files>\n{FILE.format('d9686d9d', 'image/png', 'buoy.png')}\n</attached_files>\n\n"
PASSAGES = (
    "### Task:\nRespond to the user query using the provided context, incorporating inline citations in "
    "the format [id] **only when the <source> tag includes an explicit id attribute** (e.g., "
    '<source id="1">).\n\n'
    "### Output:\nProvide a clear and direct response to the user's query.\n\n<context>\n"
    '<source id="1" name="packing.txt" resource-type="file" resource-id="0a3d8805">rope, lamp, oilskin'
    "</source>\n</context>\n\n"
)

_Content = str | list[dict[str, Any]]


class Program:
    """A program that sends all that it has of a chat."""

    def __init__(self, server: Any, headers: dict[str, str], **fields: Any) -> None:
        self._server, self._headers, self._fields = server, headers, fields

    async def say(self, *texts: _Content, system: str = "", **headers: str) -> str:
        """Send words and answers in turn; gives the answer to the last ones."""
        roles = ("user", "assistant")
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        messages += [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        body = {"stream": True, "model": "mathilde", "messages": messages, **self._fields}
        here, key = self._server
        sent = {**key, "Content-Type": "application/json", **self._headers, **headers}
        data = json.dumps(body, separators=(",", ":")).encode()
        async with here.http.post(f"{here.url}/v1/chat/completions", data=data, headers=sent) as answer:
            text = await answer.text()
            assert answer.status == 200, text
        if not body["stream"]:
            return str(json.loads(text)["choices"][0]["message"]["content"])
        chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        return "".join(
            chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"]
        )


def replies(count: int) -> list[str]:
    return [f"[REACT: 🥞]\n[SEND: Reply number {n}.]\n[SEND: **Tea?**]" for n in range(1, count + 1)]


def reply(number: int) -> str:
    return f"Reply number {number}.\n\n**Tea?**"


@NAMED
async def test_open_webui_answers_again_more_concisely_and_edits(headers: dict[str, str]) -> None:
    async with v1(*replies(6)) as server:
        chat = Program(server, headers, tools=[TOOL])
        assert await chat.say("Hello there.") == reply(1)
        await chat.say("Hello there.", reply(1), "More Concise")
        await chat.say("Hello there.", reply(2), "And now?")
        assert "More Concise" in shown(server)
        await chat.say("Hello there.", reply(2), "And now?")
        assert shown(server).count("And now?") == 1, "the answer is given again"
        await chat.say("Hello there.", reply(2), "And now?", reply(3), "I liked that.")
        assert (reply(3)[:15] in shown(server), reply(4)[:15] in shown(server)) == (True, False), (
            "it went back"
        )
        await chat.say("Hello there.", reply(2), "And tea?")
        assert ("And now?" in shown(server), "And tea?" in shown(server)) == (False, True), "it was edited"
        person = f"web:app:{headers['X-OpenWebUI-User-Id']}" if headers else "web:app"
        assert len(await talks(server, person)) == 1


@NAMED
async def test_a_chat_of_open_webui_with_documents_goes_on_and_is_answered_again(
    headers: dict[str, str],
) -> None:
    async with v1(*replies(3)) as server:
        chat = Program(server, headers, tools=[TOOL])
        await chat.say(f"{PASSAGES}{PACKING}what do I pack?")
        assert "rope, lamp, oilskin" in shown(server)
        for _ in range(2):
            await chat.say(f"{PACKING}what do I pack?", reply(1), f"{PASSAGES}Thanks.")
            told = shown(server)
            assert (told.count("what do I pack?"), told.count("Thanks.")) == (1, 1)


@NAMED
async def test_a_picture_of_open_webui_stays_in_the_chat(headers: dict[str, str]) -> None:
    picture = {"type": "image_url", "image_url": {"url": PICTURE}}
    asked: _Content = [
        {"type": "text", "text": BUOY},
        {"type": "text", "text": "what is in the picture?"},
        picture,
    ]
    async with v1(*replies(3)) as server:
        chat = Program(server, headers, tools=[TOOL])
        await chat.say(asked)
        for _ in range(2):
            await chat.say(asked, reply(1), "Thanks.")
            told = shown(server)
            assert (told.count("what is in the picture?"), told.count("Thanks.")) == (1, 1)


async def test_a_chat_that_open_webui_sums_up_goes_on() -> None:
    async with v1(*replies(2)) as server:
        chat = Program(server, {**CHAT, **USER}, tools=[TOOL])
        await chat.say("Hello there.")
        await chat.say("And tea?", system="[CONVERSATION SUMMARY]\n- user: Hello there.")
        assert reply(1)[:15] in shown(server)


TASKS = (
    (
        "title_generation",
        "### Task:\nGenerate a concise title summarizing the chat history.\n### Guidelines:\n- The title "
        "should clearly represent the main theme or subject of the conversation.\n### Output:\nJSON "
        'format: { "title": "your concise title here" }\n### Chat History:\n<chat_history>\nUSER: '
        "Hello there.\n</chat_history>",
        '{"title": "Hello there."}',
    ),
    (
        "follow_up_generation",
        "### Task:\nPredict 3-5 useful messages this user might naturally send next to advance their "
        "current objective.\n### Guidelines:\n- Write from the user's point of view, directed to the "
        'assistant.\n### Output:\nJSON format: { "follow_ups": ["Message 1"] }\n### Chat History:\n'
        "<chat_history>\nUSER: Hello there.\nASSISTANT: Reply number 1.\n</chat_history>",
        '{"follow_ups": []}',
    ),
    (
        "tags_generation",
        "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, along with "
        '1-3 more specific subtopic tags.\n\n### Output:\nJSON format: { "tags": ["tag1"] }\n\n### Chat '
        "History:\n<chat_history>\nUSER: Hello there.\n</chat_history>",
        '{"tags": []}',
    ),
    (
        "query_generation",
        "### Task:\nAnalyze the chat history to determine the necessity of generating search queries, in "
        "the given language.\n\n### Chat History:\n<chat_history>\nUSER: Hello there.\n</chat_history>",
        '{"queries": []}',
    ),
)


@NAMED
async def test_a_task_of_open_webui_never_reaches_the_persona(headers: dict[str, str]) -> None:
    async with v1() as server:
        for task, prompt, answer in TASKS:
            named = {"X-OpenWebUI-Task": task} if headers else {}
            program = Program(server, headers, stream=False, max_tokens=1000)
            assert await program.say(prompt, **named) == answer
        assert not server[0].model.requests


async def test_librechat_goes_on_answers_again_and_sends_a_picture() -> None:
    async with v1(*replies(4)) as server:
        chat = Program(server, LIBRE, user="66f0c0ffee", stream_options={"include_usage": True})
        assert await chat.say("Good morning") == reply(1)
        for _ in range(2):
            await chat.say("Good morning", reply(1), "And tea?")
            assert shown(server).count("And tea?") == 1
        picture = {"type": "image_url", "image_url": {"url": PICTURE, "detail": "auto"}}
        await chat.say("Good morning", reply(1), [{"type": "text", "text": "What is it?"}, picture])
        assert ("And tea?" in shown(server), "What is it?" in shown(server)) == (False, True)
        assert await talks(server, "web:app:66f0c0ffee") == ["5b0d"]


async def test_a_title_of_librechat_never_reaches_the_persona() -> None:
    talk = "User: Good morning\nAI: Reply number 1.\n\n**Tea?**"
    by_completion = (
        "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only "
        f"return the title itself.\n\nConversation:\n{talk}"
    )
    by_schema = (
        "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise "
        f"title in the detected language (5 words or less, no punctuation or quotation)\n\n{talk}"
    )
    schema = {
        "name": "extract",
        "schema": {"type": "object", "properties": {"language": {}, "title": {}}, "required": ["language"]},
    }
    async with v1() as server:
        program = Program(server, LIBRE, user="66f0c0ffee", stream=False)
        assert await program.say(by_completion) == "Good morning"
        form = {"type": "json_schema", "json_schema": schema}
        program = Program(server, LIBRE, user="66f0c0ffee", stream=False, response_format=form)
        assert json.loads(await program.say(by_schema)) == {"title": "Good morning"}
        assert not server[0].model.requests
