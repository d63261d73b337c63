"""Runs inside pixi-bot's own environment, where `pixi` is pixi-bot: one job a line in, one answer out.

Only the standard library and pixi-bot may be imported here. It is driven where it does its work: the
characters of a reply through `stream_completion` and the command consumer, a whole streamed request, a talk
that is saved.
"""

import asyncio
import gc
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any


def put_in_what_is_missing() -> None:
    """Python before 3.13 has no `asyncio.QueueShutDown`, which pixi-bot names at the end of every reply."""
    if not hasattr(asyncio, "QueueShutDown"):
        setattr(asyncio, "QueueShutDown", type("QueueShutDown", (Exception,), {}))  # noqa: B010


put_in_what_is_missing()
chatting: Any = import_module("pixi.chatting")
configuration: Any = import_module("pixi.model.config")
callbacks: Any = import_module("pixi.model.chatting.callbacks")


class Performed:
    """The commands that were performed, and how long after the moment that each told."""

    def __init__(self) -> None:
        self.count = 0
        self.latencies: list[int] = []

    async def silently(self, context: Any, value: str | None) -> None:
        """A command that does nothing."""
        self.count += 1

    async def timed(self, context: Any, value: str | None) -> None:
        """A message that ends with the moment at which its bracket was written."""
        now = time.monotonic_ns()
        last = (value or "").rpartition(" ")[2]
        if last.isdigit() and len(last) == 20:
            self.latencies.append(now - int(last))


def manager(performed: Performed) -> Any:
    """A command consumer that knows send, note and react."""
    made = chatting.AsyncActionManager()
    made.add_action("send", "message", performed.timed, "a message")
    made.add_action("note", "thought", performed.silently, "a thought")
    made.add_action("react", "emoji", performed.silently, "an emoji")
    return made


def chat_client(base_url: str) -> Any:
    """A client of the server, which is asked one question."""
    client = chatting.AsyncChatClient(
        auth=configuration.OpenAIAuthConfig(base_url=base_url, api_key="none"),
        model=configuration.OpenAILanguageModelConfig(id="benchmark", max_context=8192),
    )
    client.set_system("You are a friend.")
    client.add_message(chatting.ChatMessageMeta(role="user", content="hi"))
    return client


async def consume(client: Any, commands: Any) -> None:
    """What `stream_call` does with one reply."""
    context = callbacks.ActionContext(reference_message=client.messages[-1], parent_instance=None)
    async for _ in commands.consume(client.stream_completion(), context):
        pass


async def parse(replies: list[list[str]], repeat: int) -> dict[str, float]:
    """Processor time for the replies, given in chunks, `repeat` times over."""
    client = chat_client("http://127.0.0.1:9/v1")
    performed = Performed()
    performed.timed = performed.silently  # type: ignore[method-assign]
    commands = manager(performed)
    chunks: list[str] = []

    async def stream_request(**_: Any) -> AsyncIterator[str]:
        for chunk in chunks:
            for character in chunk:
                yield character

    client.stream_request = stream_request
    gc.collect()
    before = time.process_time_ns()
    for _ in range(repeat):
        for chunks in replies:  # noqa: B007  (read by `stream_request`)
            await consume(client, commands)
    spent = time.process_time_ns() - before
    return {"ns": spent, "chunks": repeat * sum(map(len, replies)), "performed": performed.count}


def resident_kilobytes() -> float:
    """Memory of this process, where /proc tells it; otherwise 0."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
    except FileNotFoundError:
        return 0.0


async def latency(base_url: str, streams: int, seconds: float) -> dict[str, Any]:
    """Delays of so many simultaneous replies, and what each stream holds of memory halfway."""
    gc.collect()
    before = resident_kilobytes()
    performed = Performed()
    spent = time.process_time()
    running = [
        asyncio.create_task(consume(chat_client(base_url), manager(performed))) for _ in range(streams)
    ]
    await asyncio.sleep(seconds / 2)
    during = resident_kilobytes()
    share = (time.process_time() - spent) / (seconds / 2)
    await asyncio.gather(*running)
    return {
        "latencies_ns": performed.latencies,
        "kb_per_stream": (during - before) / streams,
        "cpu_share": share,
    }


def save(messages: int, turns: int) -> dict[str, Any]:
    """Seconds of processor time for each turn of a talk of so many messages: two more, and all are saved.

    It is done on the loop, which stands still meanwhile.
    """
    instance = chatting.AsyncChatbotInstance
    kept = instance.__new__(instance)  # a whole one reads files that the package leaves out
    kept.id, kept.prefix, kept.is_notes_visible, kept.bot = "benchmark", "benchmark", False, object()
    kept.path = instance.get_save_path(id=kept.id, hash_prefix=kept.prefix)
    said = "well i was thinking about pancakes and then it got really foggy so we stayed in"
    kept.messages = [
        chatting.ChatMessageMeta(role=("user", "assistant")[number % 2], content=said)
        for number in range(messages)
    ]
    seconds = []
    for _ in range(turns):
        before = time.process_time()
        kept.messages.append(chatting.ChatMessageMeta(role="user", content=said))
        kept.messages.append(chatting.ChatMessageMeta(role="assistant", content=f"[SEND: {said}]"))
        kept.save()
        seconds.append(time.process_time() - before)
    return {"seconds": seconds}


async def do(job: dict[str, Any]) -> dict[str, Any]:
    """One job by name."""
    match job.pop("do"):
        case "parse":
            return await parse(**job)
        case "latency":
            return await latency(**job)
        case "save":
            return save(**job)
        case other:
            raise ValueError(f"unknown job {other!r}")


def main() -> None:
    """Answer until standard input closes."""
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        print(json.dumps(asyncio.run(do(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
