"""discord.py alone, in a process of its own: a bot of a few lines that posts in many channels at once.

Answers each line of JSON on standard input with one. The first says where Discord is; each other names the
channels of one wave of posts.
"""

import asyncio
import json
import sys
import time
from typing import Any

import discord

from benchmarks.contenders import new_event_loop
from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import find_server
from pixi.cli.running import tune

TEXT = "well i was thinking about pancakes and then it got really foggy so we stayed in"


async def post(client: discord.Client, channels: list[int]) -> dict[str, Any]:
    """Post in all channels at once; gives when that began, on the monotonic clock."""
    rooms = [client.get_partial_messageable(channel) for channel in channels]
    began = time.monotonic()
    await asyncio.gather(*(room.send(TEXT) for room in rooms))
    return {"began": began}


async def main() -> None:
    """Log in with the first line, then post until standard input closes."""
    job = json.loads(await asyncio.to_thread(sys.stdin.readline))
    tune()
    with patched(await find_server(job["api_url"], job["token"])):  # it is Discord at another address
        async with discord.Client(intents=discord.Intents.none()) as client:
            await client.login(job["token"])
            print(json.dumps({}), flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                print(json.dumps(await post(client, json.loads(line)["channels"])), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=lambda: new_event_loop()[0]) as run:
        run.run(main())
