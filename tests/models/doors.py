"""The doors to models' servers, side by side: how each is opened, and what its server says of it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from pixi.core.deltas import Delta, Request, Text, ToolSchema
from pixi.core.errors import ModelError
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolCall, ToolLine, UserLine
from pixi.models.anthropic.door import AnthropicMessages
from pixi.models.chat.door import OpenAIChat
from pixi.models.faults import Retries
from pixi.models.gemini.door import Gemini
from pixi.models.model import Model
from pixi.models.packaged.model import PackagedModel, _is_installed
from pixi.models.responses.door import Responses
from pixi.models.server_model import ServerModel
from tests.servers.dialects import ANTHROPIC, CHAT, GEMINI, RESPONSES, Dialect
from tests.servers.scripted_openai import Seen

HI = Request((SystemLine("You are Pixi."), UserLine("mo: hi")))
LOOK = ToolSchema("look", "look at something", {"type": "object", "properties": {"at": {"type": "string"}}})
HI_WITH_TOOLS = Request(HI.lines, tools=(LOOK,))
ROUND: tuple[Line, ...] = (
    AssistantLine("[NOTE: hm]", (ToolCall("c1", "look", '{"at": "cat"}'), ToolCall("c2", "look", "no"))),
    ToolLine("c1", "look", "asleep"),
    ToolLine("c2", "look", "gone"),
)
KEY = "sk-canary-7f3a"
QUICK = Retries(base=0.001)

AnyModel = ServerModel | PackagedModel[Any, Any]


@dataclass(frozen=True, slots=True)
class Door:
    """A door, and what is particular to it in what is alike for all.

    Attributes:
        opens: the model's class.
        speaks: how its server speaks.
        path: what is asked for.
        key_name: where its key comes from.
        example: an address as it is told to who wrote a wrong one.
        package: that must be installed; "": none.
        no_schema: a refusal of the form of a reply.
        no_search: a refusal to search; "": it knows no search of its own.
    """

    opens: type[AnyModel]
    speaks: Dialect
    path: str
    key_name: str
    example: str
    package: str = ""
    no_schema: str = ""
    no_search: str = ""

    def __str__(self) -> str:
        return self.speaks.name

    def make(self, base_url: str | None, **settings: Any) -> AnyModel:
        """A model at an address. It is for the test to close."""
        opens: Any = self.opens  # only the packaged ones know an address of their own
        made: AnyModel = opens("scripted-8b", base_url=base_url, **({"retries": QUICK} | settings))
        return made

    @asynccontextmanager
    async def open(self, base_url: str, **settings: Any) -> AsyncGenerator[AnyModel, None]:
        """A model at an address, closed at the end."""
        model = self.make(base_url, **settings)
        try:
            yield model
        finally:
            await model.close()


DOORS = (
    Door(
        OpenAIChat,
        CHAT,
        "/v1/chat/completions",
        "OPENAI_API_KEY",
        r"https://api\.openai\.com/v1",
        no_schema="This response_format type is unavailable now",
    ),
    Door(
        Responses,
        RESPONSES,
        "/v1/responses",
        "OPENAI_API_KEY",
        r"https://api\.openai\.com/v1",
        no_schema="Unsupported parameter: 'text.format' is not supported.",
        no_search="Hosted tool 'web_search' is not supported with scripted-8b.",
    ),
    Door(
        AnthropicMessages,
        ANTHROPIC,
        "/v1/messages",
        "ANTHROPIC_API_KEY",
        r"https://api\.anthropic\.com",
        package="anthropic",
        no_schema="output_config.format: For 'array' type, 'items' is required",
        no_search="Web search is not enabled for this organization.",
    ),
    Door(
        Gemini,
        GEMINI,
        "/v1/models/scripted-8b:streamGenerateContent?alt=sse",
        "GEMINI_API_KEY",
        r"https://generativelanguage\.googleapis\.com",
        package="google.genai",
        no_schema='Unknown name "responseJsonSchema"',
        no_search="Search Grounding is not supported.",
    ),
)


def marks_of(door: Door) -> tuple[pytest.MarkDecorator, ...]:
    """That a door is left out where its package is not installed."""
    if not door.package or _is_installed(door.package):
        return ()
    return (pytest.mark.skip(reason=f"{door.package} is not installed"),)


def _every(*doors: Door) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "door", [pytest.param(door, id=str(door), marks=marks_of(door)) for door in doors]
    )


EVERY_DOOR = _every(*DOORS)
EVERY_PACKAGED_DOOR = _every(*(door for door in DOORS if door.package))
EVERY_SEARCHING_DOOR = _every(*(door for door in DOORS if door.no_search))


async def ask(model: AnyModel, request: Request = HI) -> list[Delta]:
    """All deltas of a reply."""
    return [delta async for delta in model.stream(request)]


def text_of(deltas: list[Delta]) -> str:
    """What was said."""
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


async def heard(model: Model, request: Request = HI) -> tuple[str, ModelError | None]:
    """What was said, and the error that it ended with."""
    said = ""
    try:
        async for delta in model.stream(request):
            said += delta.text if isinstance(delta, Text) else ""
    except ModelError as fault:
        return said, fault
    return said, None


def in_json(text: str) -> bytes:
    """A text as it stands in a body."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def offers_tools(seen: Seen) -> bool:
    """Return True if tools of ours are offered natively."""
    return b'"look at something"' in seen.body
