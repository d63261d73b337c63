"""A service whose turns are watched: one talk with a word in it that must not get outside."""

import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.app.metrics import monitoring_port
from pixi.app.service import BotService
from pixi.core.message import Author, Message
from pixi.testing import RecordingChannel
from tests.app.scene import address, persona_file, service_in, settings_file
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, call, error, finish, stream, usage

WORD = "zebrafinch"
"""Stands in the name and the id of the person, in what everybody says, thinks and remembers, in the arguments
and results of tools, and in the names of a tool and of a command that the model makes up."""

WREN = "---\nname: Wren\ntools: [remember, recall]\n---\n\nYou are Wren.\n"
HERE = address("wren")


def answers(seen: Seen) -> Reply:
    """Remember something with a tool, and ask for one that there is not; then answer. Fail on `break`."""
    last = seen.json()["messages"][-1]
    if "break" in str(last["content"]):
        return error(400, f"no {WORD} here")
    if last["role"] == "user":
        return stream(
            f"[NOTE: a {WORD}]\n[SEND: a {WORD}? ",
            "let me write that down]",
            call("remember", f'{{"fact": "has a {WORD}"}}', index=0, call_id="c1"),
            call(f"{WORD}_tool", "{}", index=1, call_id="c2"),
            finish("tool_calls"),
            usage(100, 10, prompt_tokens_details={"cached_tokens": 60}),
        )
    return stream(f"[SEND: your {WORD} it is]\n[REACT: 🥞]\n[{WORD.upper()}: flies]", finish(), usage(150, 8))


@asynccontextmanager
async def watched(
    folder: Path, more: str = "", choose: Callable[[Seen], Reply] = answers
) -> AsyncGenerator[BotService, None]:
    """A service with Wren in it, whose turns cost a dollar for a million tokens."""
    persona_file(folder, "wren", WREN)
    async with ScriptedOpenAI(choose=choose) as server:
        settings_file(folder, server, f"[prices]\nfirst = {{ prompt = 1.0, completion = 1.0 }}\n{more}")
        async with (
            service_in(folder) as service,
            monitoring_port(service.settings.monitoring, service.metrics, service.unready),
        ):
            yield service


async def talk(
    service: BotService, *texts: str, start: int = 1, channel: RecordingChannel | None = None
) -> RecordingChannel:
    """Let somebody say things, each once the one before is answered; numbered from `start` on."""
    channel = channel or RecordingChannel(HERE)
    for number, text in enumerate(texts, start):
        author = Author(f"5{WORD}", WORD.title())
        await service.receive(Message(str(number), HERE, author, text, 1.7e9 + number), channel)
        await service.engine.settled(HERE)
    return channel


def port_of(caplog: pytest.LogCaptureFixture) -> str:
    """The address of the port for metrics, as the log told it."""
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    (url,) = (found[1] for line in told if (found := re.match(r"metrics and health checks at (\S+)", line)))
    return url
