"""Requests to Discord: made again where that is worth it; and what a refusal means, in one plain line."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TypeVar

import aiohttp
import discord

from pixi.channels.discord.formatting import one_line
from pixi.core.errors import ChannelError, ChannelLost
from pixi.core.spending import Rate
from pixi.store.rates import Rates

T = TypeVar("T")

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
"""Errors that discord.py raises on an answer which is not as Discord writes it."""

FAULTS = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError)
"""Errors that a request to Discord may raise."""

MISSING_ACCESS = 50001
UNKNOWN_CHANNEL = 10003
UNKNOWN_MEMBER = 10007
UNKNOWN_USER = 10013
UNKNOWN_MESSAGE = 10008
UNKNOWN_WEBHOOK = 10015
TOO_MANY_WEBHOOKS = 30007
INVALID_WEBHOOK_TOKEN = 50027
INVALID_FORM = 50035
TOO_LARGE = 40005
MISSING_PERMISSIONS = 50013
NO_HISTORY_NO_REPLY = 160002

_LINES = {
    UNKNOWN_CHANNEL: "the channel is gone",
    10004: "the server is gone",
    UNKNOWN_MESSAGE: "the message is gone",
    UNKNOWN_MEMBER: "the person is not there",
    UNKNOWN_USER: "the person is gone",
    10014: "it does not know the emoji",
    UNKNOWN_WEBHOOK: "the webhook is gone",
    20009: "it takes it for explicit content",
    20016: "the channel is in slow mode",
    20026: "it has limited this bot; see the developer portal",
    20028: "too much was written in the channel",
    TOO_MANY_WEBHOOKS: "the channel has as many webhooks as it may have",
    30010: "the message has as many reactions as it may have",
    40001: "the token is not valid any more",
    40002: "the bot's account must be verified",
    40003: "too many direct messages were opened",
    TOO_LARGE: "it is too large",
    40058: "in a forum one writes in its posts",
    MISSING_ACCESS: "the bot cannot see the channel",
    50006: "there is nothing in it",
    50007: "the person takes no direct messages from the bot",
    50008: "nobody can write in that channel",
    50009: "the channel asks for a verified account",
    MISSING_PERMISSIONS: "the bot lacks a permission there",
    50024: "this kind of channel does not have it",
    INVALID_FORM: "it does not take it in this form",
    50083: "the thread is archived",
    50278: "the bot and the person share no server",
    90001: "the person has blocked the bot",
    160005: "the thread is locked",
    NO_HISTORY_NO_REPLY: "the bot may not read the message history there",
    200000: "the server's moderation rules forbid it",
    200001: "the server's moderation rules forbid it",
}
_LINES_BY_STATUS = {
    401: "the token is not valid any more",
    403: "the bot is not allowed to",
    404: "it is gone",
    413: "it is too large",
    429: "too much was asked of it at once",
}
_CLOSED = frozenset(
    (UNKNOWN_CHANNEL, 10004, 40001, MISSING_ACCESS, MISSING_PERMISSIONS, 50007, 50083, 50278, 160005)
)
"""Codes of errors that meet every message there, not this one alone."""

REQUESTS_PER_SECOND = 50
"""How many requests Discord takes from a bot in a second, from all its processes together."""

_WINDOW_SECONDS = 1.0
_LOOK_SECONDS = 0.1  # that are waited at most until it is asked again whether a request may be made

_LONGEST_WAIT = 60.0  # seconds that a server may make us wait before we give up
_SECONDS = 90.0  # for one request, what discord.py waits and tries again by itself included
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # seconds between two tries


class DiscordRefused(ChannelError):
    """Discord said no.

    Attributes:
        code: Discord's own number for it; 0 where it has none.
        status: of HTTP.
        closed: whatever else is posted there now would be refused too.
    """

    def __init__(self, text: str, *, code: int = 0, status: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.closed = code in _CLOSED or status in (401, 429)


class RequestPacer:
    """Keeps a bot within the number of requests that Discord takes in a second.

    A tenth of them is left alone: requests that leave one after the other may arrive together.

    Args:
        rates: counts requests, over all processes of the bot.
        token: the bot's.
        per_second: gives how many requests are taken; 0: any number.
    """

    def __init__(self, rates: Rates, token: str, per_second: Callable[[], int]) -> None:
        self._rates = rates
        self._key = ("discord", sha256(token.encode()).hexdigest())
        self._per_second = per_second
        self._first = asyncio.Lock()  # whoever waits for longest goes first

    async def wait(self) -> None:
        """Return as soon as another request may be made, which is counted."""
        async with self._first:
            while most := self._per_second():
                rate = Rate(max(1, most - most // 10), _WINDOW_SECONDS)
                if not (seconds := await self._rates.use({self._key: rate})):
                    return
                await asyncio.sleep(min(seconds, _LOOK_SECONDS))


class RetryTimer:
    """Pauses between tries, each longer than the one before it, until so many seconds are over."""

    __slots__ = ("_pause", "_until")

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    async def pause(self) -> bool:
        """Wait until it is time for the next try; False, at once, where there is to be none."""
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        await asyncio.sleep(min(self._pause, left))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return True


def as_channel_error(error: Exception, what: str) -> ChannelError:
    """Tell what an error of a request means; `what` was asked for, e.g. `message`.

    `ChannelLost` where nobody knows whether it happened: the connection broke, or the server did.
    """
    if isinstance(error, discord.RateLimited):
        return DiscordRefused(f"Discord refused the {what}: {_LINES_BY_STATUS[429]}.", status=429)
    if isinstance(error, discord.HTTPException) and error.status < 500:
        why = _LINES.get(error.code) or _LINES_BY_STATUS.get(error.status) or one_line(error.text)
        told = f"Discord refused the {what}: {why or f'HTTP status {error.status}'}."
        return DiscordRefused(told, code=error.code, status=error.status)
    if isinstance(error, discord.HTTPException):
        return ChannelLost(f"Discord did not take the {what}: it answers with HTTP status {error.status}.")
    return ChannelLost(f"Discord could not be reached for the {what}: {_named(error)}.")


async def send_request(
    request: Callable[[], Awaitable[T]], what: str, *, patience: float = 0.0, seconds: float = _SECONDS
) -> T:
    """Make a request, and wait where the server says so, which every request may.

    Args:
        request: makes the request.
        what: is asked for, in a word.
        patience: for how many seconds it is made again where nobody knows whether it happened; above 0 only
            where twice is as good as once.
        seconds: for one try, and for all that the server makes us wait between them.

    Raises:
        DiscordRefused: Discord said no, or something that nobody understands.
        ChannelLost: nobody knows whether it happened.
    """
    left, patient = min(_LONGEST_WAIT, seconds), RetryTimer(patience)
    while True:
        try:
            async with asyncio.timeout(seconds):
                return await request()
        except UNREADABLE as error:
            told = f"{type(error).__name__}: {one_line(str(error))}"
            raise DiscordRefused(f"Discord's answer to the {what} could not be read ({told}).") from error
        except FAULTS as error:
            wait, meaning = _told_to_wait(error), as_channel_error(error, what)
            if wait is not None and wait <= left:
                left -= wait
                await asyncio.sleep(wait)
            elif not isinstance(meaning, ChannelLost) or not await patient.pause():
                raise meaning from error


def _told_to_wait(error: Exception) -> float | None:
    """Return the seconds that the server asks for; where Discord's own proxy answers, discord.py waits."""
    if not isinstance(error, discord.HTTPException) or error.status != 429:
        return None
    for header in ("Retry-After", "X-RateLimit-Reset-After"):
        try:
            return max(0.05, float(error.response.headers[header]))
        except (KeyError, ValueError):  # it is missing, or no number
            continue
    return 1.0


def _named(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return one_line(str(error)) or type(error).__name__
