"""`[GIF: …]` and `[STICKER: …]`: commands that show a picture."""

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from pixi.core.masking import SecretRedactor
from pixi.core.message import Picture
from pixi.core.untrusted import prompt_name
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CameToNothing
from pixi.toolbox.context import Context, Draft
from pixi.toolbox.foreign import look_at
from pixi.web.gif_sources import FoundGif, GifError, GifSource

_log = logging.getLogger("pixi.gifs")

QUIET = 0.25
"""Seconds without a word after which what is written by then is looked for."""

PATIENCE = 6.0
"""Seconds that the commands behind one may be held up by it."""

CHOICES = 5
"""Number of hits that one is chosen from, so that the same words do not always bring the same picture."""

_TRIES = 3  # files that may turn out to be no pictures
_LONGEST_WORDS = 200


def gifs_from(source: GifSource, mask: SecretRedactor | None = None) -> Callable[[Addon], None]:
    """Return the `setup` that registers `[GIF: …]`, with pictures from there.

    Args:
        source: of the pictures.
        mask: hides secrets in what is looked for.
    """
    seeker = Seeker(source, mask or SecretRedactor())

    def setup(addon: Addon) -> None:
        @addon.command(aliases=("gifs",))
        async def gif(context: Context, words: str, *, ahead: asyncio.Task[Picture] | None = None) -> None:
            """a moving picture in the chat; say in two to four words what is to be seen"""
            try:
                async with asyncio.timeout(PATIENCE):
                    picture = await (ahead or seeker.seek(context, words))
            except TimeoutError:
                seeker.trouble(GifError(f"no picture came within {PATIENCE:g} seconds."))
                raise CameToNothing(f"No picture came for {words!r}.") from None
            await context.picture(picture)

        @gif.on_open
        async def typing(context: Context) -> None:
            await context.typing()

        @gif.ahead
        async def search(context: Context, draft: Draft) -> Picture:
            return await seeker.seek_ahead(context, draft)

    return setup


class Seeker:
    """Looks for pictures, and tells the log of what goes wrong: once, until it goes well again."""

    def __init__(self, source: GifSource, mask: SecretRedactor) -> None:
        self._source = source
        self._mask = mask
        self._told = ""
        self._rests_until = 0.0  # on the monotonic clock

    async def seek_ahead(self, context: Context, draft: Draft) -> Picture:
        """Look for what is being written: at most twice, at the first pause in it and for the whole.

        Raises:
            CameToNothing: there is nothing to be shown.
        """
        begun: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._source.warm())]
        try:
            words = _tidy(await draft.settled(QUIET))
            looking = asyncio.ensure_future(self.seek(context, words))
            begun.append(looking)
            whole = _tidy(await draft.ended())
            if whole != words:
                await _give_up([looking])
                looking = asyncio.ensure_future(self.seek(context, whole))
                begun.append(looking)
            return await looking
        finally:
            await _give_up(begun)

    async def seek(self, context: Context, words: str) -> Picture:
        """Return a picture for the words; the same one in the same turn.

        Raises:
            CameToNothing: there is none, or its source cannot be asked.
        """
        words = self._mask.hide(_tidy(words))
        if not words or time.monotonic() < self._rests_until:
            raise CameToNothing("There is nothing to be looked for, or nobody to ask.")
        try:
            found = await self._source.find(words, context.persona.language)
        except GifError as error:
            self.trouble(error)
            raise CameToNothing(str(error)) from error
        if not found:
            _log.info("there is no picture of %r", prompt_name(words))
            raise CameToNothing(f"There is no picture of {words!r}.")
        return await self._picture(context, words, found)

    def trouble(self, error: GifError) -> None:
        """Rest as long as the source wants it, and tell the log once of what went wrong."""
        self._rests_until = max(self._rests_until, time.monotonic() + error.rest)
        if str(error) != self._told:
            self._told = str(error)
            _log.warning("no pictures for [GIF: …]: %s", error)

    async def _picture(self, context: Context, words: str, found: Sequence[FoundGif]) -> Picture:
        first = found[:CHOICES]
        start = zlib.crc32(f"{context.message.id}\n{words}".encode("utf-8", "surrogatepass")) % len(first)
        for one in (*first[start:], *first[:start])[:_TRIES]:
            address = one.file if one.file.startswith("https://") else ""
            picture = Picture(one.words or words, one.link, self._source.service, address=address)
            if one.link and not (context.channel.abilities.draws and one.file):
                self._told = ""
                return picture
            try:
                file = await self._source.fetch(one)
            except GifError as error:
                self.trouble(error)
                if one.link:
                    return picture
            else:
                self._told = ""
                return Picture(picture.words, one.link, picture.service, file)
        raise CameToNothing(f"There is no picture of {words!r} that can be shown.")


def _tidy(words: str) -> str:
    return " ".join(words.split())[:_LONGEST_WORDS].strip(" \"'“”「」")


async def _give_up(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """End what is not wanted any more, whatever came of it; all are told before any is waited for."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(look_at)
    await asyncio.wait(tasks)


def setup(addon: Addon) -> None:
    """Register the command."""

    @addon.command(aliases=("stickers",), needs="stickers")
    async def sticker(context: Context, name: str) -> None:
        """a sticker of this server in the chat, by its name"""
        await context.sticker(name)

    @sticker.on_open
    async def typing(context: Context) -> None:
        await context.typing()
