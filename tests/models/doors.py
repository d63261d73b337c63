"""The doors to models' servers, side by side: how each is opened, and what its server says of it."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from pixi.core.errors import ModelError
from pixi.core.llm import (
    AssistantLine,
    Delta,
    Line,
    Request,
    SystemLine,
    Text,
    ToolCall,
    ToolLine,
    ToolSchema,
    UserLine,
)
from pixi.models.dialects.anthropic import Anthropic
from pixi.models.dialects.chat import Chat
from pixi.models.dialects.dialect import Dialect
from pixi.models.dialects.gemini import Gemini
from pixi.models.dialects.responses import Responses
from pixi.models.faults import Retries, Server
from pixi.models.model import Model
from pixi.models.server_model import ServerModel
from tests.servers.dialects import ANTHROPIC, CHAT, GEMINI, RESPONSES, Speech
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
MakeModel = Callable[..., ServerModel]

SERVER = Server("models.example:443", "https://models.example/v1", "scripted-8b")


@dataclass(frozen=True, slots=True)
class Door:
    """A door, and what is particular to it in what is alike for all.

    Attributes:
        dialect: of the model.
        speaks: how its server speaks.
        path: what is asked for.
        key_name: where its key comes from.
        example: an address as it is told to who wrote a wrong one.
        no_schema: a refusal of the form of a reply.
        no_search: a refusal to search; "": it knows no search of its own.
    """

    dialect: type[Dialect]
    speaks: Speech
    path: str
    key_name: str
    example: str
    no_schema: str = ""
    no_search: str = ""

    def __str__(self) -> str:
        return self.speaks.name

    def make(self, base_url: str | None, **settings: Any) -> ServerModel:
        """A model at an address. It is for the test to close."""
        return ServerModel(
            "scripted-8b", self.dialect(), base_url=base_url, **({"retries": QUICK} | settings)
        )

    @asynccontextmanager
    async def open(self, base_url: str, **settings: Any) -> AsyncGenerator[ServerModel, None]:
        """A model at an address, closed at the end."""
        model = self.make(base_url, **settings)
        try:
            yield model
        finally:
            await model.close()


DOORS = (
    Door(
        Chat,
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
        Anthropic,
        ANTHROPIC,
        "/v1/messages",
        "ANTHROPIC_API_KEY",
        r"https://api\.anthropic\.com",
        no_schema="output_config.format: For 'array' type, 'items' is required",
        no_search="Web search is not enabled for this organization.",
    ),
    Door(
        Gemini,
        GEMINI,
        "/v1/models/scripted-8b:streamGenerateContent?alt=sse",
        "GEMINI_API_KEY",
        r"https://generativelanguage\.googleapis\.com",
        no_schema='Unknown name "responseJsonSchema"',
        no_search="Search Grounding is not supported.",
    ),
)


def _every(*doors: Door, by_day: int = len(DOORS)) -> pytest.MarkDecorator:
    params = [
        pytest.param(door, id=str(door), marks=() if at < by_day else pytest.mark.nightly)
        for at, door in enumerate(doors)
    ]
    return pytest.mark.parametrize("door", params)


EVERY_DOOR = _every(*DOORS)
EVERY_SEARCHING_DOOR = _every(*(door for door in DOORS if door.no_search))
ANY_DOOR = _every(*DOORS, by_day=1)
"""For what is no matter of the dialect: chat completions by day, every door at night."""


async def ask(model: ServerModel, request: Request = HI) -> list[Delta]:
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
