"""Requests of programs for titles, tags and suggestions, and what they are answered."""

import json

import pytest

from pixi.channels.http.completion_requests import Task, answer_by_rule, task_of

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
COMPACTION = (
    "### Task:\nSummarize the conversation history that will be compacted out of the active chat context.\n\n"
    "### Previous Summary:\n\n\n### Messages Being Compacted:\nUSER: where do the geese go?\n\n"
    "### Recent Messages Kept In Context:\nUSER: and the ducks?"
)
MEMORIES = (
    "Review the completed conversation turn and decide whether long-term memory should change.\n\nRules:\n"
    '- Return only JSON in this shape:\n  {"operations":[]}\n\nExisting memories:\n\nConversation:\n'
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


@pytest.mark.parametrize(
    ("headers", "last", "as_json", "task"),
    [
        ({}, TITLE, False, "title"),
        ({}, TITLE_OLD, False, "title"),
        ({}, TAGS, False, "tags"),
        ({}, FOLLOW_UPS, False, "follow_ups"),
        ({}, QUERIES, False, "queries"),
        ({}, NOTE, False, "title"),
        ({}, IMAGE, False, "image_prompt"),
        ({}, AUTOCOMPLETE, False, "autocomplete"),
        ({}, MEMORIES, False, "other"),
        ({}, COMPACTION, False, "summary"),
        ({"X-OpenWebUI-Task": "context_compaction"}, "hi", False, "summary"),
        ({}, EMOJI, False, "emoji"),
        ({}, "What is a fitting emoji for my goose?", False, None),
        ({}, LIBRE, False, "title"),
        ({}, LIBRE_JSON, True, "title"),
        ({"X-OpenWebUI-Task": "tags_generation"}, "hi", False, "tags"),
        ({"X-OpenWebUI-Task": "moa_response_generation"}, "hi", False, "other"),
        ({"X-OpenWebUI-Task": "{{TASK}}"}, "hi", False, None),
        ({"X-OpenWebUI-Task": ""}, "hi", False, None),
        ({}, DOCUMENTS, False, None),
        ({}, "Write a short title for my poem, and tags.", False, None),
        ({}, "Give me a person as JSON.", True, None),
        ({}, "Rate this conversation.", True, "other"),
    ],
)
def test_a_task_is_known(headers: dict[str, str], last: str, as_json: bool, task: Task | None) -> None:
    assert task_of(headers, last, as_json=as_json) == task


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
    assert answer_by_rule("summary", COMPACTION) == ""
