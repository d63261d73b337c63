"""Requests of programs for titles, tags and suggestions, and what they are answered."""

import json
from typing import Any

import pytest

from pixi.channels.http.streams import Task, answer_by_rule, task_of

HISTORY = (
    "<chat_history>\nUSER: where do the geese go in winter? And what is the title of that film?\n"
    "ASSISTANT: South.\n</chat_history>"
)
# As Open WebUI has them, in short.
TITLE = (
    "### Task:\nGenerate a concise title summarizing the chat history.\n### Guidelines:\n"
    "- Keep it short: 2-4 words is best.\n### Output:\n"
    'JSON format: { "title": "your concise title here" }\n### Chat History:\n' + HISTORY
)
TITLE_OLD = (
    f"### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n{HISTORY}"
)
NOTE = (
    "### Task:\nGenerate a concise title summarizing the content in the content's primary language.\n"
    '### Output:\nJSON format: { "title": "your concise title here" }\n### Content:\n'
    "<content>\nEggs, flour and milk.\n</content>"
)
TAGS = (
    "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, along with 1-3 "
    'more specific subtopic tags.\n\n### Output:\nJSON format: { "tags": ["tag1", "tag2", "tag3"] }\n\n'
    f"### Chat History:\n{HISTORY}"
)
FOLLOW_UPS = (
    "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next "
    "in this conversation as a **user**, based on the chat history.\n"
    f"### Chat History:\n{HISTORY}"
)
QUERIES = (
    "### Task:\nAnalyze the chat history to determine the necessity of generating search queries, in the "
    f"given language.\n\n### Chat History:\n{HISTORY}"
)
IMAGE = (
    "### Task:\nGenerate a detailed prompt for am image generation task based on the given language and "
    "context.\n\n### Output:\nStrictly return in JSON format:\n{\n"
    f'    "prompt": "Your detailed description here."\n}}\n\n### Chat History:\n{HISTORY}'
)
AUTOCOMPLETE = (
    "### Task:\nYou are an autocompletion system. Continue the text in `<text>` based on the **completion "
    f"type** in `<type>` and the given language.\n\n---\n### Context:\n{HISTORY}\n<type>General</type>\n"
    "<text>Where do the</text>\n#### Output:\n"
)
EMOJI = (
    "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret "
    "emotions from the message and reflect their facial expression using fitting, diverse emojis (e.g., 😊)."
    "\n\nMessage: ```geese!```"
)
DOCUMENTS = (
    "### Task:\nRespond to the user query using the provided context, incorporating inline citations in the "
    "format [id].\n<context>Generate a concise title, tags <content>x</content></context>\nhi"
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
        ({}, NOTE, {}, "title"),
        ({}, IMAGE, {}, "image_prompt"),
        ({}, AUTOCOMPLETE, {}, "autocomplete"),
        ({}, EMOJI, {}, "emoji"),
        ({}, "What is a fitting emoji for my goose?", {}, None),
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
    assert json.loads(answer_by_rule("title", NOTE)) == {"title": "Eggs, flour and milk."}
    assert answer_by_rule("title", LIBRE) == "where do the geese go?"
    assert json.loads(answer_by_rule("title", LIBRE_JSON, as_json=True)) == {"title": "where to?"}
    assert answer_by_rule("title", "") == "Chat"
    assert len(answer_by_rule("title", f"<chat_history>USER: {'x' * 5000}</chat_history>")) <= 48


@pytest.mark.parametrize("task", ["tags", "follow_ups", "queries"])
def test_lists_are_empty(task: Task) -> None:
    assert json.loads(answer_by_rule(task, TAGS)) == {task: []}


def test_other_tasks_are_answered_in_their_forms() -> None:
    assert json.loads(answer_by_rule("image_prompt", IMAGE)) == {"prompt": "where do the geese go in winter?"}
    assert json.loads(answer_by_rule("autocomplete", AUTOCOMPLETE)) == {"text": ""}
    assert answer_by_rule("emoji", EMOJI) == "💬"
