"""Ask a persona something, and print what it says: `python in_a_program.py`."""

import asyncio
import time
import uuid

import pixi


class Printed(pixi.Channel):
    """A channel that prints."""

    async def send(self, text, **_):
        """Print a message."""
        print(text)


async def main(settings=None):
    """Open an engine, say something, and wait until it is answered."""
    async with pixi.open_engine(settings) as engine:
        message = pixi.Message(
            id=uuid.uuid4().hex,
            conversation="my-program:mo",
            author=pixi.Author(id="my-program:mo", name="Mo"),
            text="hi, who are you?",
            sent_at=time.time(),
        )
        await engine.receive(message, Printed())
        await engine.settled()


if __name__ == "__main__":
    asyncio.run(main())
