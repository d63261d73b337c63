"""Pictures as pages draw them: from this server alone, whoever has them, so that nobody learns who looks.

A talk shows pictures that lie elsewhere: those of cards, moving ones of a service. Each gets an address here,
under a name that cannot be guessed, and only what was shown has one: nobody can have this server fetch what
they like. It is fetched past no guard, drawn anew, and kept for a while. So are the pictures that people sent
and those of personas, as `<img>` sends no key along.
"""

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Struct

from pixi.channels.http.access import Problem
from pixi.channels.http.feed import Form
from pixi.core.lru import LRU
from pixi.core.message import Image
from pixi.fetching.web import Web, WebError
from pixi.models.pictures import PictureError, redrawn
from pixi.store.store import Store

MOST_BYTES = 8_000_000
"""Bytes of a picture at most, as it lies elsewhere."""

_NAMED = 20_000  # pictures that have an address here; the one told of longest ago loses its own
_KEPT_BYTES = 64_000_000  # of pictures that were drawn
_KEPT_SECONDS = 3_600.0
_MISSED_SECONDS = 60.0  # so long it is not tried again to fetch what could not be
_FETCH_SECONDS = 15.0
_AT_ONCE = 4  # that are fetched
_WAITING = 64  # that are asked for and not there yet
_SIDE = 1_024
_TYPES = ("image/*", "application/octet-stream", "binary/octet-stream")

_PATH = "/api/pictures/"
_PICTURE_KEY = re.compile(r"image|picture|photo|avatar|icon|thumb|logo|cover|poster", re.IGNORECASE)
_ADDRESS = re.compile(r"https://[^\s<>\"]{1,2000}", re.IGNORECASE)
_DEEPEST = 12  # of what stands within what in a card


class OfMessage(Struct, frozen=True):
    """A picture that went with a message: of which conversation, which message, and which of its pictures."""

    conversation: str
    turn: int
    message: str
    number: int


class OfAct(Struct, frozen=True):
    """A picture that lies nowhere else: of which conversation, and the id of the act that showed it."""

    conversation: str
    act: str


Source = str | Path | OfMessage | OfAct
"""The place of a picture: an address, a file of a persona's folder, a message, or an act."""


class _Kept(Struct):
    """A picture as it was drawn, or None; and until when that holds, on the monotonic clock."""

    image: Image | None
    until: float

    @property
    def size(self) -> int:
        return len(self.image.data) if self.image else 0


class ShownPictures:
    """Gives addresses to pictures, and answers there.

    Args:
        web: fetches, and no address of a private network.
        store: has the pictures of messages.
    """

    def __init__(self, web: Web, store: Store) -> None:
        self._web = web
        self._store = store
        self._secret = secrets.token_bytes(32)  # so that nobody can guess the name of a picture
        # By names that stand in addresses: the place of each picture, as it was drawn, and those being drawn.
        self._sources: LRU[str, Source] = LRU(_NAMED)
        self._kept: LRU[str, _Kept] = LRU(_NAMED, _KEPT_BYTES, lambda kept: kept.size)
        self._coming: dict[str, asyncio.Task[Image | None]] = {}
        # Pictures that lie nowhere else.
        self._own: LRU[OfAct, Image] = LRU(_NAMED, _KEPT_BYTES, lambda image: len(image.data))
        self._fetching = asyncio.Semaphore(_AT_ONCE)
        self._drawing = asyncio.Lock()  # a large picture takes much memory

    def url(self, source: Source) -> str:
        """Return the address here of a picture that is shown; the same for the same one."""
        name = self._name_of(source)
        self._sources.put(name, source)
        return f"{_PATH}{name}"

    def keep(self, conversation: str, act: str, image: Image) -> None:
        """Keep a picture that an act showed and that lies nowhere else, until others need its room."""
        self._own.put(OfAct(conversation, act), image)

    def forget(self, conversation: str) -> None:
        """Drop the pictures of a conversation that lost words, as far as they lie nowhere else."""
        for act in self._own:
            if act.conversation == conversation:
                self._own.drop(act)
                self._kept.drop(self._name_of(act))

    def decorated(self, form: Form, conversation: str, server: str = "") -> Form:
        """Return an event, or a card, with where its pictures are drawn from.

        Args:
            form: its JSON form.
            conversation: in which it was shown.
            server: the address of this server, as the client knows it.
        """
        if form.get("event") == "picture" and not (form["link"] or form.get("address")):
            own = OfAct(conversation, form["id"])
            if self._own.get(own) is None:
                return form
            path = self.url(own)
            return {**form, "address": f"{server}{path}", "pictures": {"": path}}
        found = {address: self.url(address) for address in _addresses_in(form)}
        # The page of a picture at its service is no picture: what stands for it is.
        if form.get("event") == "picture" and (address := form.get("address") or form["link"]):
            found = {form["link"]: self.url(address)} if _ADDRESS.fullmatch(address) else {}
        return {**form, "pictures": found} if found else form

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Give a picture that a talk showed."""
        name = request.match_info["name"]
        image = await self._image(name)
        if image is None:
            raise Problem(404, "No such picture", "It is not there any more, or cannot be drawn.")
        return web.Response(
            body=image.data,
            content_type=image.media_type,
            headers={
                "Cache-Control": "private, max-age=86400",
                "Content-Security-Policy": "sandbox; default-src 'none'",
                # A widget shows it in pages of other sites.
                "Cross-Origin-Resource-Policy": "cross-origin",
            },
        )

    async def close(self) -> None:
        """End what is being fetched."""
        tasks = list(self._coming.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _name_of(self, source: Source) -> str:
        told = repr(source).encode("utf-8", "backslashreplace")
        return hashlib.blake2b(told, key=self._secret, digest_size=16).hexdigest()

    async def _image(self, name: str) -> Image | None:
        """Return a picture as it was drawn, now if it was not; None: it is gone, or cannot be drawn.

        Raises:
            Problem: 503, too many are being fetched.
        """
        source, kept = self._sources.get(name), self._kept.get(name)
        if source is None:
            return None
        if kept is not None and kept.until > time.monotonic():
            if isinstance(source, OfMessage | OfAct) and kept.image and await self._file(source) is None:
                self._keep(name, None)  # it was forgotten meanwhile
                return None
            return kept.image
        coming = self._coming.get(name)
        if coming is None:
            if len(self._coming) >= _WAITING:
                raise Problem(
                    503, "Not now", "Too many pictures are fetched just now.", headers={"Retry-After": "2"}
                )
            coming = self._coming[name] = asyncio.create_task(self._drawn(name, source))
        return await asyncio.shield(coming)

    async def _drawn(self, name: str, source: Source) -> Image | None:
        try:
            image = await self._fetched(source)
            self._keep(name, image)
            return image
        finally:
            del self._coming[name]

    async def _fetched(self, source: Source) -> Image | None:
        """Fetch a picture and draw it anew; None where there is none."""
        try:
            file = await self._file(source)
            if file is None:
                return None
            async with self._drawing:
                return await asyncio.to_thread(redrawn, file, longest_side=_SIDE)
        except (WebError, PictureError, OSError):
            return None

    async def _file(self, source: Source) -> bytes | Path | None:
        """Return the file of a picture, or where it lies; None: it is gone.

        Raises:
            WebError: it cannot be fetched.
        """
        if isinstance(source, Path):
            return source
        if isinstance(source, OfAct):
            image = self._own.get(source)
            return image.data if image else None
        if isinstance(source, OfMessage):
            told = await self._store.messages_of([source.turn], pictures=True)
            for message in told.get(source.turn, ()):
                if (message.conversation, message.id) == (source.conversation, source.message):
                    return message.images[source.number].data if source.number < len(message.images) else None
            return None
        async with self._fetching:
            found = await self._web.get(
                source, accept="image/*", most_bytes=MOST_BYTES, seconds=_FETCH_SECONDS, types=_TYPES
            )
        return found.body

    def _keep(self, name: str, image: Image | None) -> None:
        seconds = _KEPT_SECONDS if image else _MISSED_SECONDS
        self._kept.put(name, _Kept(image, time.monotonic() + seconds))


def _addresses_in(card: Mapping[str, Any]) -> list[str]:
    """Return the addresses of pictures in a card: of its fallback, and those that its data names so."""
    if "fallback" not in card:
        return []
    found = [card["fallback"]["picture"], *_called_pictures(card["data"])]
    shown = (each for each in found if isinstance(each, str) and _ADDRESS.fullmatch(each))
    return list(dict.fromkeys(shown))


def _called_pictures(value: object, depth: int = 0) -> Iterator[object]:
    """Yield what stands under names of pictures, at any depth."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, each in value.items():
            if _PICTURE_KEY.search(str(key)):
                yield from each if isinstance(each, list) else (each,)
            yield from _called_pictures(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _called_pictures(each, depth + 1)
