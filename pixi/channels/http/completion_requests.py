"""Requests for chat completions, checked; and the background tasks that programs send by the same way."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from pixi.channels.http.access import Problem
from pixi.channels.http.attachments import attachments_in
from pixi.channels.http.bodies import Attachment
from pixi.channels.http.reconciliation import ClientLine
from pixi.channels.http.requests import decode_body, texts_in

_MESSAGES = 2_000
_STOPS = 16
_SYSTEM_LETTERS = 16_000
_MISSING = re.compile(r"missing required field `(\w+)`")


# Passed over, as they mean nothing to a persona: `n`, `tools`, `tool_choice`, `parallel_tool_calls`,
# `temperature`, `top_p`, `seed`, `logit_bias`, penalties, and fields that are not known. So is `store`: each
# talk is kept, for the next request finds it by what is kept of it.


class SentMessage(Struct):
    """A message as a program sends it; `content` is a text or a list of parts."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Any] | None = None


class StreamOptions(Struct):
    """How a stream is wanted. `include_usage`: with what was used, at its end."""

    include_usage: bool | None = None


class CompletionMetadata(Struct):
    """What a program adds. `conversation`: the name of the talk."""

    conversation: str | None = None


class CompletionBody(Struct):
    """A request of OpenAI's chat completions. Fields that are not known here are passed over.

    Attributes:
        model: the persona that answers, by the name of its file or its own.
        messages: the talk as the program has it; the last one of a user is answered.
        stream: whether the answer comes as it is written.
        stop: texts before which the answer ends; the first 16 count.
        max_tokens, max_completion_tokens: how long the answer may be; the second counts before the first.
        temperature: counts for nothing.
        response_format: wanted by background tasks alone.
        user: for whom this is sent; needs a key with `chat:on-behalf`.
    """

    model: Annotated[str, Meta(min_length=1)]
    messages: Annotated[list[SentMessage], Meta(min_length=1, max_length=_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: float | None = None
    response_format: dict[str, Any] | None = None
    metadata: CompletionMetadata | None = None
    user: str | None = None


def refused(status: int, detail: str, *, param: str = "", code: str = "") -> Problem:
    """Make the problem of a request. `param`: the path to the field in which it is, e.g. `messages/0`."""
    errors = ({"pointer": f"/{param}", "detail": detail},) if param else ()
    return Problem(status, "", detail, errors=errors, code=code)


class ChatCompletionRequest(Struct, frozen=True):
    """The fields of a request that count, checked.

    Attributes:
        model: the persona that answers, as the program names it.
        last: the words of the person that are answered.
        files: that go with them.
        history: the lines before them.
        system: the program's instructions.
        stream: the answer comes as it is written.
        usage: the stream ends with what was used.
        stop: texts before which the answer ends.
        max_tokens: how long the answer may be; None: as long as it is.
        json: JSON is asked for, as background tasks do.
        talk: the name of the talk; "": none is given.
        user: for whom this is sent; "": for the owner of the key.
    """

    model: str
    last: str
    files: tuple[Attachment, ...]
    history: tuple[ClientLine, ...]
    system: str
    stream: bool
    usage: bool
    stop: tuple[str, ...]
    max_tokens: int | None
    json: bool
    talk: str
    user: str


def read_request(data: bytes) -> ChatCompletionRequest:
    """Check the fields of a request.

    Raises:
        Problem: 400, it is no JSON, a field is of a wrong type, or there is nothing to answer.
    """
    try:
        body = _decoded(data)
    except Problem as problem:
        place = problem.errors[0]["pointer"] if problem.errors else ""
        missing = _MISSING.search(problem.detail)
        param = f"{place}/{missing[1]}"[1:] if missing else place[1:]
        raise refused(400, problem.detail, param=param) from None
    last, files, history, system = _said(body.messages)
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return ChatCompletionRequest(
        model=body.model,
        last=last,
        files=files,
        history=history,
        system=system,
        stream=bool(body.stream),
        usage=bool(body.stream_options and body.stream_options.include_usage),
        stop=tuple(filter(None, stops))[:_STOPS],
        max_tokens=body.max_completion_tokens or body.max_tokens,
        json=str((body.response_format or {}).get("type")).startswith("json"),
        talk=(body.metadata and body.metadata.conversation) or "",
        user=body.user or "",
    )


def _decoded(data: bytes) -> CompletionBody:
    """Read a body. Half a surrogate pair, of a program that cut a text, becomes a question mark."""
    if b"\\ud" in data.lower():
        with suppress(ValueError, RecursionError):
            data = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
    return decode_body(data, CompletionBody)


def _said(messages: Sequence[SentMessage]) -> tuple[str, tuple[Attachment, ...], tuple[ClientLine, ...], str]:
    """Return the person's last message, its files, the lines before, and the program's instructions."""
    lines: list[ClientLine] = []
    contents: list[Any] = []
    system: list[str] = []
    for message in messages:
        content = message.content
        text = content if isinstance(content, str) else "\n".join(texts_in(content))
        match message.role:
            case "user" | "assistant" as role:
                lines.append(ClientLine(role, text))
                contents.append(content)
            case "system" | "developer":
                system.append(text)
    at = len(lines) - 1  # the last message of a person
    while at >= 0 and lines[at].role != "user":
        at -= 1
    files = attachments_in(contents[at]) if at >= 0 else ()
    if at < 0 or not (files or lines[at].text.strip()):
        raise refused(400, "messages has no user message with text to answer.", param="messages")
    return lines[at].text, files, tuple(lines[:at]), "\n\n".join(filter(None, system))[:_SYSTEM_LETTERS]


# Background tasks of chat programs: titles, tags, suggestions. They never reach the persona.
#
# A program asks the model it talks to for them, in a request like any other. They are known by a header
# that the program was told to send, by their templates (which change from version to version, so a few
# words of each are looked for, never one phrase alone), or by `response_format`, which no talk has.


Task = Literal[
    "title", "tags", "follow_ups", "queries", "emoji", "autocomplete", "image_prompt", "summary", "other"
]

TASK_HEADERS = ("X-OpenWebUI-Task", "X-Pixi-Task")
"""Sent with what the program is at, e.g. `title_generation`; empty for a message of a person."""

_TITLE_LETTERS = 48
_TEMPLATES: tuple[tuple[Task, tuple[str, ...]], ...] = (
    # Open WebUI. Its template for documents begins with "### Task:" too, and is a person's message.
    ("title", (r"### Task:", r"\btitle\b", r"<chat_history>")),
    ("title", (r"\A\s*### Task:\s*Generate a concise title", r"<content>")),  # of a note
    ("tags", (r"### Task:", r"\btags\b", r"<chat_history>")),
    ("follow_ups", (r"### Task:", r"follow[-_ ]?ups?\b", r"<chat_history>")),
    ("queries", (r"### Task:", r"\bqueries\b", r"<chat_history>")),
    ("image_prompt", (r"### Task:", r"prompt for \w+ image generation", r"<chat_history>")),  # it says "am"
    ("summary", (r"### Task:\s*Summarize the conversation history", r"### Messages Being Compacted:")),
    ("other", (r"\AReview the completed conversation turn", r"Existing memories:", r"\boperations\b")),
    ("autocomplete", (r"### Task:", r"autocompletion", r"<(?:chat_history|text)>")),
    ("emoji", (r"reflect the speaker.s likely facial expression", r"fitting emoji")),
    # LibreChat.
    ("title", (r"5-word-or-less title", r"conversation")),
    ("title", (r"Analyze this conversation and provide", r"detected language", r"title")),
    ("title", (r"concise title for this conversation", r"5 words or less")),
    ("title", (r"generate a concise title", r"conversation that starts with")),
)
_TASKS_BY_NAME: tuple[tuple[str, Task], ...] = (
    ("title", "title"),
    ("tag", "tags"),
    ("follow", "follow_ups"),
    ("query", "queries"),
    ("emoji", "emoji"),
    ("autocomplet", "autocomplete"),
    ("image", "image_prompt"),
    ("compact", "summary"),
)
_SEARCHED = 60_000
"""Characters of a message that are looked at: a template's own words stand at its two ends."""

_HISTORY = re.compile(r"<(chat_history|content)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_SPEAKER = re.compile(r"^\s*(?:user|human)\s*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_AFTER_CONVERSATION = re.compile(
    r"\bconversation(?: that starts with)?:?\s*\n+(.+)\Z", re.IGNORECASE | re.DOTALL
)


def task_of(headers: Mapping[str, str], last: str, *, as_json: bool) -> Task | None:
    """Return the task that a request is; None: it holds words of a person.

    Args:
        headers: of the request, by names in any case.
        last: the last message of a person.
        as_json: whether `response_format` asks for JSON.
    """
    for name in TASK_HEADERS:
        named = str(headers.get(name, "")).strip().lower()
        if named and "{{" not in named:  # a program too old for the template sends it as it stands
            for part, task in _TASKS_BY_NAME:
                if part in named:
                    return task
            return "other"
    text = last if len(last) <= _SEARCHED else last[: _SEARCHED // 2] + last[-_SEARCHED // 2 :]
    own = _HISTORY.sub(r"<\1>", text)  # the talk may be about titles
    for task, signs in _TEMPLATES:
        if all(re.search(sign, own, re.IGNORECASE) for sign in signs):
            return task
    return "other" if as_json and _is_about_talk(text) else None


def answer_by_rule(task: Task, last: str, *, as_json: bool = False) -> str:
    """Return an answer to a task without a model, in the form that the program reads.

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
        case "summary":
            return ""  # the program has a rule of its own
        case "other":
            return "{}"


def _is_about_talk(text: str) -> bool:
    """Return True if a request for JSON is one about a talk, not a person's own wish."""
    return re.search(r"<chat_history>|\b(?:conversation|chat history)\b", text, re.IGNORECASE) is not None


def _title(text: str) -> str:
    """Return the first words of the talk that a template holds."""
    history = _HISTORY.search(text)
    inside = history[2] if history else text
    if spoken := _SPEAKER.search(inside):
        begin = spoken[1]
    elif history:
        begin = inside
    else:
        after = _AFTER_CONVERSATION.search(inside)
        begin = after[1] if after else ""
    words = begin.split()
    title = ""
    for word in words[:7]:
        if len(title) + len(word) + 1 > _TITLE_LETTERS:
            break
        title = f"{title} {word}".strip()
    return (title or " ".join(words)[:_TITLE_LETTERS]).strip(" \"'#*`") or "Chat"
