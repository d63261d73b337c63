"""The far ends of a bot, in a process of their own: a Discord full of people, and a model that streams.

Answers each line of JSON on standard input with one.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from aiohttp import web

from benchmarks.contenders import new_event_loop
from pixi.testing.discord import FakeChannel, LoopbackDiscord, User

_WORDS = ("well", "i", "was", "thinking", "about", "pancakes", "and", "then", "it", "got", "really", "foggy")
_MESSAGES = 3
_MARK = re.compile(r"\bmark(\d+)\b")
_SECONDS = 60.0  # for all replies to come, once their streams should have ended


@dataclass(slots=True)
class Stage:
    """What is asked and what came of it.

    Attributes:
        chunks: how many a reply has; 0: replies come at once, and name what they answer.
        rate: chunks a second.
        closed: when the closing bracket of each message was written, by the message's first words.
        late: seconds by which chunks were written late.
        ended: how many streams were written to their end.
    """

    chunks: int = 0
    rate: float = 30.0
    closed: dict[str, float] = field(default_factory=dict)
    late: list[float] = field(default_factory=list)
    ended: int = 0


def pieces(mark: int, chunks: int) -> list[tuple[str, str]]:
    """A reply in pieces; with each, the name of the message that it closes or ""."""
    length = chunks // (_MESSAGES + 1)
    note = ["[NOTE: ", *(f"{word} " for word in _filler(length - 2)), "]\n"]
    found = [(piece, "") for piece in note]
    for number in range(_MESSAGES):
        name = f"c{mark} m{number}"
        found += [(f"[SEND: {name} ", "")]
        found += [(f"{word} ", "") for word in _filler(length - 2)]
        found += [("]\n", name)]
    return found


def _filler(count: int) -> list[str]:
    return [_WORDS[number % len(_WORDS)] for number in range(max(count, 1))]


class FarEnds:
    """Both servers, and the people."""

    def __init__(self, discord: LoopbackDiscord) -> None:
        self.discord = discord
        self.stage = Stage()
        self._channels: list[FakeChannel] = []
        self._people: list[User] = []
        self._base_url = ""

    async def listen(self) -> web.AppRunner:
        """Open the model's door."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._reply)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    async def do(self, job: dict[str, Any]) -> dict[str, Any]:
        """One job."""
        match job["do"]:
            case "open":
                return self._open(job["channels"])
            case "ready":
                await self.discord.ready(timeout=30)
                return {}
            case "talk":
                return await self._talk(job["first"], job["count"], job["chunks"], job["rate"])
            case "posted":
                return self._posted()
            case "stage":
                self.stage = Stage(job["chunks"], job["rate"])
                return {}
            case "flow":
                return await self._flow(job["channels"], job["rate"], job["seconds"])
        raise ValueError(job["do"])

    def _open(self, channels: int) -> dict[str, Any]:
        guild = self.discord.guild("Benchmark")
        self._channels = [guild.channel(f"room-{number}") for number in range(channels)]
        self._people = [self.discord.person(f"person-{number}") for number in range(50)]
        return {
            "api_url": self.discord.api_url,
            "token": self.discord.token,
            "base_url": self._base_url,
            "channels": [channel.id for channel in self._channels],
        }

    # Many replies at once.

    def _posted(self) -> dict[str, Any]:
        """Give when each message was asked for since the last time, on the monotonic clock."""
        asked = [call.at for call in self.discord.asked("POST", r"/messages$")]
        self.discord.requests.clear()
        return {"asked": asked}

    async def _talk(self, first: int, count: int, chunks: int, rate: float) -> dict[str, Any]:
        """A question in each of so many channels; gives the delays of what was posted, in seconds."""
        self.stage = stage = Stage(chunks, rate)
        self.discord.requests.clear()
        rooms = self._channels[first : first + count]
        for number, room in enumerate(rooms):
            person = self._people[number % len(self._people)]
            await room.say(person, f"{self.discord.bot.mention} mark{number}")
        wanted = count * _MESSAGES
        await self._until(lambda: len(self._posts(rooms)) >= wanted, chunks / rate + _SECONDS)
        delays = [
            call.at - stage.closed[name]
            for call in self.discord.asked("POST", r"/messages$")
            if isinstance(call.body, dict)
            if (name := _name_of(str(call.body.get("content", "")))) in stage.closed
        ]
        posts = self._posts(rooms)
        complete = sum(
            [post for post in posts if post.startswith(f"c{number} ")] == self._wanted(number, chunks)
            for number in range(count)
        )
        stage.late.sort()
        return {
            "asked": count,
            "complete": complete,
            "delays": delays,
            "late_p99": stage.late[len(stage.late) * 99 // 100] if stage.late else 0.0,
        }

    def _wanted(self, mark: int, chunks: int) -> list[str]:
        whole = "".join(piece for piece, _ in pieces(mark, chunks))
        return [said.strip() for said in re.findall(r"\[SEND: ([^]]*)\]", whole)]

    def _posts(self, rooms: Sequence[FakeChannel]) -> list[str]:
        bot = self.discord.bot.id
        return [each.content for room in rooms for each in room.messages if each.author.id == bot]

    # A steady flow.

    async def _flow(self, channels: int, rate: float, seconds: float) -> dict[str, Any]:
        """So many messages a second; gives what was not answered, answered twice, or out of order."""
        self.stage = Stage()
        rooms = self._channels[-channels:]
        asked: dict[int, list[int]] = {room.id: [] for room in rooms}
        began, count = time.monotonic(), int(rate * seconds)
        for mark in range(count):
            await asyncio.sleep(max(0.0, began + mark / rate - time.monotonic()))
            room = rooms[mark % channels]
            asked[room.id].append(mark)
            await room.say(self._people[mark % len(self._people)], f"{self.discord.bot.mention} mark{mark}")
        await self._until(lambda: self._answered(rooms) >= count, _SECONDS)
        lost = twice = disorder = 0
        for room in rooms:
            marks = self._marks(room)
            lost += len(set(asked[room.id]) - set(marks))
            twice += len(marks) - len(set(marks))
            disorder += sum(a > b for a, b in pairwise(marks))
        return {"asked": count, "lost": lost, "twice": twice, "disorder": disorder}

    def _answered(self, rooms: Sequence[FakeChannel]) -> int:
        return sum(len(set(self._marks(room))) for room in rooms)

    def _marks(self, room: FakeChannel) -> list[int]:
        bot = self.discord.bot.id
        return [
            int(mark)
            for each in room.messages
            if each.author.id == bot
            for mark in _MARK.findall(each.content)
        ]

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - looking costs time here
            await asyncio.sleep(0.1)

    # The model.

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        last = next(line["content"] for line in reversed(asked["messages"]) if line["role"] == "user")
        marks = [int(mark) for mark in _MARK.findall(str(last))]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        stage = self.stage
        if stage.chunks:
            await self._write_paced(response, stage, marks[-1])
        else:
            text = f"[SEND: {' '.join(f'mark{mark}' for mark in marks)}]"  # one, however many came together
            await response.write(_event({"content": text}))
        await response.write(_event({}, finish="stop") + b"data: [DONE]\n\n")
        await response.write_eof()
        stage.ended += 1
        return response

    async def _write_paced(self, response: web.StreamResponse, stage: Stage, mark: int) -> None:
        began = time.monotonic()
        for number, (piece, closed) in enumerate(pieces(mark, stage.chunks)):
            due = began + number / stage.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            stage.late.append(now - due)
            if closed:
                stage.closed[closed] = now
            await response.write(_event({"content": piece}))


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "1", "object": "chat.completion.chunk", "model": "paced", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _name_of(content: str) -> str:
    return " ".join(content.split(" ", 2)[:2])


async def main() -> None:
    """Answer until standard input closes."""
    async with LoopbackDiscord() as discord:
        ends = FarEnds(discord)
        runner = await ends.listen()
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await ends.do(json.loads(line))), flush=True)
        await runner.cleanup()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=lambda: new_event_loop()[0]) as run:
        run.run(main())
