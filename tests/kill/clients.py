"""A person who talks over HTTP, to whichever of several servers answers, and who sees what others see.

A message is sent with its key until there is an answer: as a whole, as a stream that is gone on with at
another server where it breaks off, or by reading the talk. Beside that, a window of the talk stands open all
the time. In the end, what was seen is compared with what stands in the talk.
"""

import asyncio
import random
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp

from pixi.channels.http.access import LOCAL, address_of
from tests.channels.http.served import Event, events_in
from tests.kill.questions import PARTS, SORRY, Report, parts_of
from tests.waiting import until, within

_PATIENCE = aiohttp.ClientTimeout(total=None, sock_connect=1.0, sock_read=4.0)
"""Of a person who waits for an answer: a server that stands still is silent for longer."""
_WINDOW = aiohttp.ClientTimeout(total=None, sock_connect=1.0, sock_read=20.0)
_PAUSE = 0.1  # seconds until a request is made again
_AWAY = (aiohttp.ClientError, TimeoutError, OSError)
"""What a client meets where a server ended, stands still, or is not there yet."""


@dataclass(frozen=True, slots=True)
class Said:
    """What stands in a talk: by the persona, or by the person."""

    id: str
    by_persona: bool
    content: str
    turn: int = 0


@dataclass(slots=True)
class Answer:
    """What came in answer to a message: the messages of turns by their ids, and the turns that came whole."""

    texts: dict[tuple[int, str], str] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)


class HttpTalk:
    """One person's talk with the persona.

    Args:
        name: of the talk.
        servers: their addresses.
        http: makes the requests.
        chance: what is left to it.
        report: what was seen, and should not have been, is entered there.

    Attributes:
        said: what stands in the talk, as far as it was seen.
        answers: what came in answer to each message.
    """

    def __init__(
        self,
        name: str,
        servers: Sequence[str],
        http: aiohttp.ClientSession,
        chance: random.Random,
        report: Report,
    ) -> None:
        self.name = name
        self.said: list[Said] = []
        self._servers = servers
        self._http = http
        self._chance = chance
        self._report = report
        self.answers: list[Answer] = []
        self._seen: dict[str, str] = {}  # what the open window shows of the persona, by ids
        self._watching: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """The address of the conversation."""
        return address_of(LOCAL, "pixi", self.name)

    async def ask(self, name: str, how: str) -> None:
        """Ask a question, and return once it is answered, or a notice says that it is not.

        Raises:
            AssertionError: it is not answered.
        """
        text, answer = f"{name} {how}", Answer()
        self.answers.append(answer)
        say = self._chance.choice((self._whole, self._stream, self._heard))
        async with within(f"an answer over HTTP to {name}"):
            while not await self._tried(say(name, text, answer)):  # noqa: ASYNC110 - another process's answer
                await asyncio.sleep(_PAUSE)
            while not self._is_answered(name):
                await asyncio.sleep(_PAUSE)
                await self._tried(self.read(self._chance.choice(self._servers)))
        self._watching = self._watching or asyncio.create_task(self._watch())

    async def _tried(self, work: Awaitable[object]) -> bool:
        try:
            return bool(await work)
        except _AWAY:
            return False

    def _is_answered(self, name: str) -> bool:
        """Whether the talk holds the whole answer, or a notice behind the question."""
        texts = [each.content for each in self.said]
        behind = next((n for n, text in enumerate(texts) if name in text.split()), len(texts))
        return SORRY in texts[behind:] or tuple(dict.fromkeys(parts_of(name, texts))) == PARTS

    # Three ways to send a message.

    async def _whole(self, name: str, text: str, answer: Answer) -> bool:
        async with self._post(name, text) as response:
            if not await self._is_taken(name, response):
                return False
            told = await response.json()
            if not told["turn"] and not told.get("error"):  # with words, it is told, and the talk is read
                self._report.unheard.append(f"{name}: answered with nothing, as {told['finish']!r}")
            answer.texts |= {(told["turn"], each["id"]): each["text"] for each in told["messages"]}
            answer.whole.add(told["turn"])
            return True

    async def _stream(self, name: str, text: str, answer: Answer) -> bool:
        """Follow the turn; where that breaks off, go on behind the last event, at any server."""
        last = ""
        opened = self._post(name, text, Accept="text/event-stream")
        while True:
            try:
                async with opened as response:
                    if not await self._is_taken(name, response):
                        return False
                    async for event in events_in(response):
                        last = event["sse_id"] or last
                        if self._takes(event, answer):
                            return True
            except _AWAY:
                pass
            if not last:  # nothing came: it is sent again
                return False
            self._report.resumed += 1
            path = self._path(self._chance.choice(self._servers), "/stream")
            opened = self._http.get(path, headers={"Last-Event-ID": last}, timeout=_PATIENCE)
            await asyncio.sleep(_PAUSE)

    async def _heard(self, name: str, text: str, answer: Answer) -> bool:
        async with self._post(name, text, Prefer="respond-async") as response:
            return await self._is_taken(name, response)

    def _post(self, name: str, text: str, **headers: str) -> Any:
        server = self._chance.choice(self._servers)
        body = {"message": text, "conversation": self.name}
        headers["Idempotency-Key"] = name
        return self._http.post(f"{server}/api/chat", json=body, headers=headers, timeout=_PATIENCE)

    async def _is_taken(self, name: str, response: aiohttp.ClientResponse) -> bool:
        """Whether it goes on. A refusal that is not for now, but for good, is a fault."""
        if response.status in (200, 202):
            return True
        if response.status == 204:  # no reply is being written: it stands on record
            return False
        told = await response.text()
        if response.status < 500 and "Retry-After" not in response.headers:
            self._report.untrue.append(f"{name}: refused over HTTP with {response.status}: {told}")
        return False

    def _takes(self, event: Event, answer: Answer) -> bool:
        """Take an event of a turn; True for its end."""
        if event["event"] == "send":
            known = answer.texts.setdefault((event["turn"], event["id"]), event["text"])
            if known != event["text"]:
                self._report.untrue.append(
                    f"{self.name}: {event['id']} was {known!r}, then {event['text']!r}"
                )
        if event["event"] == "turn_end":
            answer.whole.add(event["turn"])
        return bool(event["event"] == "turn_end")

    # What stands in the talk.

    async def read(self, server: str) -> str:
        """Read the talk at a server; gives the place from which to follow it."""
        said: list[Said] = []
        place, before, more = "", 0, True
        while more:
            query = {"limit": "100", **({"before": str(before)} if before else {})}
            path = self._path(server, "/messages")
            async with self._http.get(path, params=query, timeout=_PATIENCE) as response:
                if response.status != 200:
                    return ""
                page = await response.json()
            place, more = place or page["place"], page["more"]
            before = page["turns"][0]["turn"] if page["turns"] else 0
            told = page["messages"]
            said = [
                *(Said(each["id"], each["role"] == "assistant", each["text"], each["turn"]) for each in told),
                *said,
            ]
        self.said = said
        return place

    async def _read(self, server: str) -> bool:
        return await self._tried(self.read(server))

    async def _watch(self) -> None:
        """Show the talk in a window, as long as there is one: over servers that end, until cancelled."""
        place = ""
        while True:
            server = self._chance.choice(self._servers)
            await asyncio.sleep(_PAUSE)
            with suppress(*_AWAY):
                if not place:
                    if not (place := await self.read(server)):
                        continue
                    self._seen = self._shown
                params = {"follow": "talk", "after": place}
                path = self._path(server, "/stream")
                async with self._http.get(path, params=params, timeout=_WINDOW) as response:
                    async for event in events_in(response):
                        if event["event"] in ("changed", "error"):
                            break
                        place = event["place"]
                        if event["event"] == "send":
                            self._seen[event["id"]] = event["text"]
                    place = ""

    @property
    def _shown(self) -> dict[str, str]:
        return {each.id: each.content for each in self.said if each.by_persona}

    def _path(self, server: str, what: str) -> str:
        return f"{server}/api/chat/{self.name}{what}"

    async def close(self) -> None:
        """Read the talk at each server once all rests, and compare with it what was seen."""
        pages: list[list[Said]] = []
        for server in self._servers:
            await until(partial(self._read, server), f"the talk {self.name} at {server}")
            pages.append(self.said)
        if any(page != pages[0] for page in pages):
            self._report.untrue.append(f"{self.name}: the servers tell it differently")
        if self._watching is not None:
            with suppress(AssertionError):  # which is told below
                await until(lambda: self._seen == self._shown)
            self._watching.cancel()
            differs = sorted(self._seen.items() ^ self._shown.items())
            if differs:
                self._report.unheard.append(f"{self.name}: a window shows otherwise {differs[:4]}")
        self.compare()

    def compare(self) -> None:
        """Enter what was answered otherwise than it stands in the talk."""
        stands = {(each.turn, each.id): each.content for each in self.said if each.by_persona}
        for answer in self.answers:
            for key, text in answer.texts.items():
                if stands.get(key) != text:
                    told = f"{self.name}: {key} was answered as {text!r}, and stands as {stands.get(key)!r}"
                    self._report.untrue.append(told)
            for key in stands.keys() - answer.texts.keys():
                if key[0] in answer.whole:
                    self._report.untrue.append(f"{self.name}: {key} is missing in an answer that ended")
