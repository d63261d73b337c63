"""A channel of one's own: talk over TCP. `python line_server.py`, then `nc 127.0.0.1 2323`."""

import asyncio
import time
import uuid

import pixi


class LineChannel(pixi.Channel):
    """One connection: a message is a line."""

    def __init__(self, writer):
        self.writer = writer

    async def send(self, text, **_):
        """Write a message."""
        try:
            self.writer.write(f"{text}\n".encode())
            await self.writer.drain()
        except ConnectionError:
            raise pixi.ChannelError("They hung up.") from None


async def main(port=2323):
    """Serve until the program is stopped."""
    async with pixi.open_engine() as engine:

        async def talk(reader, writer):
            channel, person = LineChannel(writer), f"line:{uuid.uuid4().hex}"
            async for line in reader:
                text, author = line.decode(errors="replace").strip(), pixi.Author(person, "guest")
                message = pixi.Message(uuid.uuid4().hex, person, author, text, sent_at=time.time())
                await engine.receive(message, channel)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", port)
        print("nc 127.0.0.1", server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
