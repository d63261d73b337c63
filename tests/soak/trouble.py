"""What Discord does to the bot: connections lost, sessions forgotten, events twice, requests refused."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from pixi.testing.discord import ApiCall, DropConnection, LoopbackDiscord, RefusedCall
from tests.soak.ledger import Ledger

_POSTS = r"/messages$|/reactions/|/webhooks/"
_REFUSED = 0.004  # of all posts
_REPLAYED = 25  # events


class Trouble:
    """Troubles the gateway and the posts.

    Attributes:
        done: what was done, how often.
    """

    def __init__(self, discord: LoopbackDiscord, ledger: Ledger, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._discord = discord
        self._chance = chance
        self._refused = _REFUSED
        discord.before("POST", _POSTS, self._before)
        discord.after("POST", _POSTS, lambda call: self._posted(call, ledger))
        discord.after("PUT", r"/reactions/", lambda call: self._reacted(call, ledger))

    async def brew(self, until: float, every: tuple[float, float]) -> None:
        """Do something to the gateway at random moments, until that moment of the monotonic clock."""
        acts: list[tuple[str, Callable[[], Awaitable[None] | None]]] = [
            ("disconnected", self._discord.disconnect),
            ("broken off", self._discord.abort),
            ("told to reconnect", self._discord.reconnect),
            ("session lost", self._discord.lose_events),
            ("session invalid", self._discord.invalidate),
            ("events twice", lambda: self._discord.replay(_REPLAYED)),
            ("events twice", lambda: self._discord.replay(_REPLAYED)),
            ("gone for a while", self._gone),
        ]
        self._chance.shuffle(acts)  # each comes once before one comes again
        number = 0
        while (wait := self._chance.uniform(*every)) and time.monotonic() + wait < until:
            await asyncio.sleep(wait)
            name, act = acts[number % len(acts)]
            number += 1
            self.done[name] += 1
            done = act()
            if done is not None:
                await done

    async def _gone(self) -> None:
        async with self._discord.away(lose=self._chance.random() < 0.5):
            await asyncio.sleep(self._chance.uniform(0.5, 2.5))

    def calm(self) -> None:
        """Refuse nothing any more."""
        self._refused = 0.0

    def _before(self, _: ApiCall) -> None:
        if self._chance.random() < self._refused:
            self.done["post refused"] += 1
            if self._chance.random() < 0.5:
                raise DropConnection
            raise RefusedCall(self._chance.choice([500, 502, 503]), 0, "upstream connect error")

    def _posted(self, call: ApiCall, ledger: Ledger) -> None:
        if isinstance(call.body, dict):
            ledger.posted(str(call.body.get("content", "")))
        # It took effect, and the bot never hears of it.
        if "/webhooks/" not in call.path and self._chance.random() < self._refused:
            self.done["answer lost"] += 1
            raise DropConnection

    @staticmethod
    def _reacted(call: ApiCall, ledger: Ledger) -> None:
        ledger.reacted(int(call.ids["message"]))
