"""The floors of the HTTP server: what the model writes, handed on by a bare aiohttp handler.

It asks the model with aiohttp itself, or with the openai SDK. Nothing is read, kept or performed.
"""

import json
import sys
from collections.abc import AsyncGenerator

import aiohttp
from aiohttp import web

WAYS = ("bare", "sdk")


async def _asked_bare(session: aiohttp.ClientSession, base_url: str) -> AsyncGenerator[str, None]:
    asked = {"model": "benchmark", "messages": [], "stream": True}
    async with session.post(f"{base_url}/chat/completions", json=asked) as answer:
        async for line in answer.content:
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                if choices and (text := choices[0]["delta"].get("content")):
                    yield text


def application(way: str, base_url: str) -> web.Application:
    """A server whose `/api/chat` answers as a stream, or whole."""
    if way == "sdk":
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=base_url, api_key="none")

        async def asked() -> AsyncGenerator[str, None]:
            async for chunk in await client.chat.completions.create(
                model="benchmark", messages=[], stream=True
            ):
                if chunk.choices and (text := chunk.choices[0].delta.content):
                    yield text
    else:
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

        def asked() -> AsyncGenerator[str, None]:
            return _asked_bare(session, base_url)

    async def chat(request: web.Request) -> web.StreamResponse:
        await request.json()
        if "event-stream" not in request.headers.get("Accept", ""):
            text = "".join([piece async for piece in asked()])
            return web.json_response({"response": text, "text": text})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for piece in asked():
            await response.write(f"data: {json.dumps({'event': 'text', 'text': piece})}\n\n".encode())
        await response.write_eof()
        return response

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.post("/api/chat", chat), web.get("/healthz", health)])
    return app


async def main() -> web.Application:
    """Build it in the loop that runs it."""
    return application(sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    web.run_app(main(), host="127.0.0.1", port=int(sys.argv[1]), print=None)
