"""KLIPY and GIPHY over a real socket, in the forms that they document, with pictures that really move."""

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from PIL import Image as Pillow

from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, Seen, Until, Wait, answer

KEY = "k3y-canary-0001"


def moving(colours: Sequence[str] = ("red", "blue"), kind: str = "GIF") -> bytes:
    """A small picture that moves."""
    first, *others = [Pillow.new("RGB", (8, 6), colour) for colour in colours]
    file = io.BytesIO()
    first.save(file, kind, save_all=True, append_images=others, duration=100, loop=0)
    return file.getvalue()


def frames(data: bytes) -> int:
    """How many pictures it is made of."""
    with Pillow.open(io.BytesIO(data)) as picture:
        return int(getattr(picture, "n_frames", 1))


@dataclass
class ScriptedGifs:
    """What both services do, which may be changed at any time.

    Attributes:
        titles: what is found for any words; "{}" stands for the words.
        seconds: how long a search takes.
        until: where set, a search waits for it.
        status: what a search answers, other than 200; `body` goes with it.
        ads: of KLIPY's answers, how many advertisements stand first.
        rating: which GIPHY says its pictures have.
        asked: set with each search that has come.
    """

    titles: list[str] = field(default_factory=lambda: [f"{{}} {number}" for number in range(8)])
    seconds: float = 0.0
    until: asyncio.Event | None = None
    status: int = 200
    body: Any = None
    ads: int = 0
    rating: str = "g"
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    base: str = ""
    server: ScriptedOpenAI | None = None
    picture: bytes = field(default_factory=moving)

    @property
    def searches(self) -> list[dict[str, str]]:
        """The parameters of each search, in order."""
        return [self._parameters(seen) for seen in self._seen("/search")]

    @property
    def words(self) -> list[str]:
        """What was searched for, in order."""
        return [search["q"] for search in self.searches]

    @property
    def times(self) -> list[float]:
        """When each search came, on the loop's clock."""
        return [seen.at for seen in self._seen("/search")]

    @property
    def fetched(self) -> list[str]:
        """The pictures that were fetched, by their paths."""
        return [seen.path for seen in self._seen("/media/")]

    def gone(self, search: int) -> asyncio.Event:
        """Set when whoever made that search has broken it off."""
        return self._seen("/search")[search].gone

    def reply(self, seen: Seen) -> Reply:
        """What is answered to a request."""
        path = urlsplit(seen.path).path
        if path.startswith("/media/"):
            return _file(self.picture)
        if not path.endswith("/gifs/search"):
            return answer(404, {"error": "no such page"})
        self.asked.set()
        whole = self._found(seen, path)
        if self.until is not None:
            return Reply((Until(self.until), *whole.steps))
        return Reply((Wait(self.seconds), *whole.steps)) if self.seconds else whole

    def _found(self, seen: Seen, path: str) -> Reply:
        if self.status != 200:
            return answer(self.status, self.body if self.body is not None else {"message": "no"})
        if self.body is not None:
            return answer(200, self.body)
        parameters = self._parameters(seen)
        titles = [title.format(parameters["q"]) for title in self.titles]
        if path.startswith("/api/v1/"):  # KLIPY
            known = unquote(path.split("/")[3]) == KEY
            return answer(200, self._klipy(titles)) if known else answer(404, {"result": False})
        if parameters.get("api_key") != KEY:
            return answer(401, {"meta": {"status": 401, "msg": "Unauthorized"}})
        return answer(200, self._giphy(titles))

    def _klipy(self, titles: Sequence[str]) -> Json:
        items: list[Json] = [{"type": "ad", "content": "<iframe>", "width": 9, "height": 9}] * self.ads
        for number, title in enumerate(titles):
            sizes = {
                size: {
                    "gif": {
                        "url": f"{self.base}/media/{number}-{size}.gif",
                        "width": 8,
                        "height": 6,
                        "size": 99,
                    }
                }
                for size in ("hd", "md", "sm", "xs")
            }
            item = {"id": 1_000 + number, "slug": f"cat-{number}", "title": title, "file": sizes}
            items.append(item | {"tags": [], "type": "gif", "blur_preview": "data:image/jpeg;base64,"})
        page = {"current_page": 1, "per_page": 8, "has_next": False, "meta": {"item_min_width": 50}}
        return {"result": True, "data": {"data": items} | page}

    def _giphy(self, titles: Sequence[str]) -> Json:
        items = [
            {
                "type": "gif",
                "id": f"Abc{number}",
                "slug": f"a-cat-Abc{number}",
                "url": f"https://giphy.com/gifs/a-cat-Abc{number}",
                "username": "somebody",
                "rating": self.rating,
                "title": title,
                "alt_text": "",
                "images": {
                    "original": {"url": f"{self.base}/media/{number}.gif", "width": "8", "height": "6"},
                    "fixed_width": {"url": f"{self.base}/media/{number}-200w.gif", "width": "200"},
                },
            }
            for number, title in enumerate(titles)
        ]
        count = {"total_count": len(items), "count": len(items), "offset": 0}
        return {"data": items, "pagination": count, "meta": {"status": 200, "msg": "OK", "response_id": "x"}}

    def _seen(self, part: str) -> list[Seen]:
        assert self.server is not None
        return [seen for seen in self.server.requests if part in urlsplit(seen.path).path]

    @staticmethod
    def _parameters(seen: Seen) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(seen.path).query).items()}


def _file(data: bytes) -> Reply:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: image/gif\r\nContent-Length: {len(data)}\r\n\r\n"
    return Reply((head.encode() + data,))


@asynccontextmanager
async def gif_services(**script: Any) -> AsyncIterator[ScriptedGifs]:
    """Both, on one free port of 127.0.0.1."""
    scripted = ScriptedGifs(**script)
    async with ScriptedOpenAI(choose=scripted.reply) as server:
        scripted.server = server
        scripted.base = server.base_url.removesuffix("/v1")
        yield scripted
