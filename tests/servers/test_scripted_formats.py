"""The scripted OpenAI speaks as its package reads, and is asked as that would ask."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pydantic
import pytest

from pixi.core.llm import AssistantLine, Request, SystemLine, ToolCall, ToolLine, ToolSchema, UserLine
from pixi.core.message import Image
from pixi.models.dialects.chat import chat_fields
from pixi.models.dialects.prompt import Style, encoded
from pixi.models.dialects.responses import ResponseReader, Sealed, response_fields
from tests.models.doors import SERVER
from tests.servers import scripted_responses
from tests.servers.scripted_openai import Json, Reply

PAGE = ("https://pancakes.example/", "Pancakes")
UNTYPED = {"obfuscation", "store"}
"""What the documentation of a stream has, and the types of its package have not."""

PICTURE = Image("image/png", b"...")
LOOK = ToolSchema("look", "look at something", {"type": "object", "properties": {"at": {"type": "string"}}})
CALLS = (ToolCall("call_1", "look", '{"at": "cat"}'), ToolCall("call_2", "look", "{}"))
LINES = (
    SystemLine("You are Pixi."),
    UserLine("mo: hi", (PICTURE,)),
    AssistantLine("[NOTE: hm]", CALLS),
    ToolLine("call_1", "look", "asleep", (PICTURE,)),
    ToolLine("call_2", "look", ""),
    AssistantLine("[SEND: a cat]"),
    UserLine("mo: aw"),
)
REQUESTS = (
    Request(LINES, tools=(LOOK,), search=True),
    Request(LINES, schema={"type": "object", "properties": {}, "additionalProperties": False}),
)
STYLE = Style("scripted", vision=True, temperature=0.5, max_tokens=50, search="web_search")


def events_in(*replies: Reply) -> Iterator[Json]:
    for reply in replies:
        written = b"".join(step for step in reply.steps if isinstance(step, bytes))
        for line in written.split(b"\n"):
            if line.startswith(b"data: {"):
                yield json.loads(line.removeprefix(b"data: "))


def unknown_in(model: pydantic.BaseModel) -> Iterator[str]:
    """The fields that came along and are none of the type's, here and below."""
    yield from model.model_extra or ()
    for name in type(model).model_fields:
        value = getattr(model, name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, pydantic.BaseModel):
                yield from unknown_in(each)


def by_type(classes: Iterable[object]) -> dict[str, type[pydantic.BaseModel]]:
    """The classes of events, by the word in their `type`."""
    found = {}
    for each in classes:
        if isinstance(each, type) and issubclass(each, pydantic.BaseModel) and "type" in each.model_fields:
            for word in getattr(each.model_fields["type"].annotation, "__args__", ()):
                found[word] = each
    return found


def test_responses() -> None:
    from openai.types import responses as openai_responses  # large, and of this file alone

    made = scripted_responses
    known = by_type(each for name, each in vars(openai_responses).items() if name.endswith("Event"))
    replies = (
        made.responses(
            made.thought("hm", sealed="sealed"),
            made.searched("pancakes"),
            made.searched(PAGE[0], action="open_page", item="ws_2"),
            made.message("pan", "cakes", cited=[PAGE]),
            made.call("look", '{"at":', ' "cat"}'),
        ),
        made.responses(made.failed("boom")),
        made.responses(made.incomplete()),
    )
    seen = set()
    for event in events_in(*replies):
        read = known[event["type"]].model_validate(event)
        assert set(unknown_in(read)) <= UNTYPED, event
        seen.add(event["type"])
    assert len(seen) == 18


def taken(asked: bytes, params: Any) -> None:
    """See that what is asked is what the package of the provider would ask."""
    fields = json.loads(asked)
    pydantic.TypeAdapter(params).validate_python(fields)
    assert fields.keys() <= params.__required_keys__ | params.__optional_keys__


def thoughts_before(call: ToolCall) -> list[Json]:
    """What led to a call, as it was handed out."""
    reader = ResponseReader(SERVER, sealed := Sealed())
    reply = (*scripted_responses.thought("hm", sealed="sealed"), *scripted_responses.call(call.name, "{}"))
    reader.feed([json.dumps(event).encode() for event in reply])
    reader.close()
    return list(sealed.get(CALLS[0].id) or ())


@pytest.mark.parametrize("asked", REQUESTS)
def test_what_openai_is_asked(asked: Request) -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    taken(encoded(chat_fields(asked, STYLE)), CompletionCreateParamsStreaming)
    assert thoughts_before(CALLS[0])
    taken(encoded(response_fields(asked, STYLE, thoughts=thoughts_before)), ResponseCreateParamsStreaming)
