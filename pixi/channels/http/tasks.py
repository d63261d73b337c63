"""Background tasks of chat programs: titles, tags, suggestions. They never reach the persona.

A program asks the model it talks to for them, in a request like any other. They are known by a header that
the program was told to send, by their templates (which change from version to version, so a few words of
each are looked for, never one phrase alone), or by `response_format`, which no talk has.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

Task = Literal["title", "tags", "follow_ups", "queries", "emoji", "autocomplete", "image_prompt", "other"]

TASK_HEADERS = ("X-OpenWebUI-Task", "X-Pixi-Task")
"""Sent with what the program is at, e.g. `title_generation`; empty for a message of a person."""

_TITLE_LETTERS = 48
_TEMPLATES: tuple[tuple[Task, tuple[str, ...]], ...] = (
    # Open WebUI. Its template for documents begins with "### Task:" too, and is a person's message.
    ("title", (r"### Task:", r"\btitle\b", r"<chat_history>")),
    ("tags", (r"### Task:", r"\btags\b", r"<chat_history>")),
    ("follow_ups", (r"### Task:", r"follow[-_ ]?ups?\b", r"<chat_history>")),
    ("queries", (r"### Task:", r"\bqueries\b", r"<chat_history>")),
    ("image_prompt", (r"### Task:", r"prompt for an? image generation", r"<chat_history>")),
    ("autocomplete", (r"### Task:", r"autocompletion", r"<(?:chat_history|text)>")),
    (
        "emoji",
        (r"fitting emoji|emoji that represents|reflect the speaker.s likely facial expression", r"emoji"),
    ),
    # LibreChat.
    ("title", (r"5-word-or-less title", r"conversation")),
    ("title", (r"Analyze this conversation and provide", r"detected language", r"title")),
    ("title", (r"concise title for this conversation", r"5 words or less")),
    ("title", (r"generate a concise title", r"conversation that starts with")),
)
_NAMES: tuple[tuple[str, Task], ...] = (
    ("title", "title"),
    ("tag", "tags"),
    ("follow", "follow_ups"),
    ("query", "queries"),
    ("emoji", "emoji"),
    ("autocomplet", "autocomplete"),
    ("image", "image_prompt"),
)
_SEARCHED = 60_000
"""Characters of a message that are looked at: a template's own words stand at its two ends."""

_HISTORY = re.compile(r"<chat_history>(.*?)(?:</chat_history>|\Z)", re.DOTALL)
_SPEAKER = re.compile(r"^\s*(?:user|human)\s*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_AFTER_CONVERSATION = re.compile(
    r"\bconversation(?: that starts with)?:?\s*\n+(.+)\Z", re.IGNORECASE | re.DOTALL
)


def task_of(headers: Mapping[str, str], last: str, body: Mapping[str, Any]) -> Task | None:
    """The task that a request is; None for words of a person.

    Args:
        headers: of the request, by names in any case.
        last: the last message of a person.
        body: of the request.
    """
    for name in TASK_HEADERS:
        named = str(headers.get(name, "")).strip().lower()
        if named and "{{" not in named:  # a program too old for the template sends it as it stands
            return next((task for part, task in _NAMES if part in named), "other")
    text = last if len(last) <= _SEARCHED else last[: _SEARCHED // 2] + last[-_SEARCHED // 2 :]
    for task, signs in _TEMPLATES:
        if all(re.search(sign, text, re.IGNORECASE) for sign in signs):
            return task
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    return "other" if isinstance(kind, str) and kind.startswith("json") and _asks(text) else None


def answer_by_rule(task: Task, last: str, *, as_json: bool = False) -> str:
    """An answer without a model, in the form that the program reads.

    Args:
        task: what is asked for.
        last: the last message of a person, with the talk in it.
        as_json: whether `response_format` asks for JSON.
    """
    match task:
        case "title":
            title = _title(last)
            return json.dumps({"title": title}, ensure_ascii=False) if as_json or '"title"' in last else title
        case "tags" | "follow_ups" | "queries":
            return json.dumps({task: []})
        case "autocomplete":
            return json.dumps({"text": ""})
        case "image_prompt":
            return json.dumps({"prompt": _title(last)}, ensure_ascii=False)
        case "emoji":
            return "💬"
        case "other":
            return "{}"


def _asks(text: str) -> bool:
    """Whether a request for JSON is one about a talk, not a person's own wish."""
    return bool(_HISTORY.search(text) or re.search(r"\b(?:conversation|chat history)\b", text, re.IGNORECASE))


def _title(text: str) -> str:
    """The first words that the talk in a template began with."""
    history = _HISTORY.search(text)
    inside = history[1] if history else text
    spoken = _SPEAKER.search(inside)
    after = _AFTER_CONVERSATION.search(inside) if not spoken and not history else None
    words = (spoken[1] if spoken else after[1] if after else inside if history else "").split()
    title = ""
    for word in words[:7]:
        if len(title) + len(word) + 1 > _TITLE_LETTERS:
            break
        title = f"{title} {word}".strip()
    return (title or " ".join(words)[:_TITLE_LETTERS]).strip(" \"'#*`") or "Chat"
