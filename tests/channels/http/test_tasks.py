"""Requests of programs for titles, tags and suggestions, and what they are answered."""

import json
from typing import Any

import pytest

from pixi.channels.http.streams import Task, answer_by_rule, task_of

HISTORY = "<chat_history>\nUSER: where do the geese go in winter?\nASSISTANT: South.\n</chat_history>"
TITLE = (
    "### Task:\nGenerate a concise title. 2-4 words is best.\n### Output:\n"
    f'JSON format: {{ "title": "x" }}\n{HISTORY}'
)
TITLE_OLD = (
    f"### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n{HISTORY}"
)
TAGS = f"### Task:\nGenerate 1-3 broad tags categorizing the main themes.\n{HISTORY}"
FOLLOW_UPS = f"### Task:\nSuggest 3-5 relevant follow-up questions.\n{HISTORY}"
QUERIES = (
    f"### Task:\nAnalyze the chat history to determine the necessity of generating search queries.\n{HISTORY}"
)
DOCUMENTS = (
    "### Task:\nRespond to the user query using the provided context.\n<context>title, tags</context>\nhi"
)
LIBRE = (
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. "
    "Only return the title itself.\n\nConversation:\nUser: where do the geese go?"
)
LIBRE_JSON = (
    "Analyze this conversation and provide:\n1. The detected language\n2. A concise title\n\nUser: where to?"
)
JSON: dict[str, Any] = {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("headers", "last", "body", "task"),
    [
        ({}, TITLE, {}, "title"),
        ({}, TITLE_OLD, {}, "title"),
        ({}, TAGS, {}, "tags"),
        ({}, FOLLOW_UPS, {}, "follow_ups"),
        ({}, QUERIES, {}, "queries"),
        ({}, LIBRE, {}, "title"),
        ({}, LIBRE_JSON, JSON, "title"),
        ({"X-OpenWebUI-Task": "tags_generation"}, "hi", {}, "tags"),
        ({"X-OpenWebUI-Task": "moa_response_generation"}, "hi", {}, "other"),
        ({"X-OpenWebUI-Task": "{{TASK}}"}, "hi", {}, None),
        ({"X-OpenWebUI-Task": ""}, "hi", {}, None),
        ({}, DOCUMENTS, {}, None),
        ({}, "Write a short title for my poem, and tags.", {}, None),
        ({}, "Give me a person as JSON.", JSON, None),
        ({}, "Rate this conversation.", JSON, "other"),
        ({}, "hi", {"response_format": "json"}, None),
    ],
)
def test_a_task_is_known(headers: dict[str, str], last: str, body: dict[str, Any], task: Task | None) -> None:
    assert task_of(headers, last, body) == task


def test_a_title_is_the_first_words_of_the_talk() -> None:
    assert json.loads(answer_by_rule("title", TITLE)) == {"title": "where do the geese go in winter?"}
    assert answer_by_rule("title", TITLE_OLD) == "where do the geese go in winter?"
    assert answer_by_rule("title", LIBRE) == "where do the geese go?"
    assert json.loads(answer_by_rule("title", LIBRE_JSON, as_json=True)) == {"title": "where to?"}
    assert answer_by_rule("title", "") == "Chat"
    assert len(answer_by_rule("title", f"<chat_history>USER: {'x' * 5000}</chat_history>")) <= 48


@pytest.mark.parametrize("task", ["tags", "follow_ups", "queries"])
def test_lists_are_empty(task: Task) -> None:
    assert json.loads(answer_by_rule(task, TAGS)) == {task: []}
