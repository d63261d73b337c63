"""A hub of models on loopback, as far as `huggingface_hub` asks of one to fetch a file; faults on order."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from tests.servers.staged_web import served

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LoopbackHub:
    """Holds files and gives them out by way of a second path, as the hub does by way of its storage.

    Attributes:
        url: for HF_ENDPOINT.
        files: the content of each `owner/name/file`.
        fault: how it fails at its next requests; see `_metadata` and `_storage`.
        breaks_after: so many bytes of an answer are sent before its connection is cut, once; None: none is.
        ranges: the Range of each request for content, "" where the whole was asked for.
        keys: the Authorization of each request.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.url = ""
        self.files = files
        self.fault = ""
        self.breaks_after: int | None = None
        self.ranges: list[str] = []
        self.keys: list[str] = []

    async def _metadata(self, request: web.Request) -> web.StreamResponse:
        """Answer for a file's address: where it is, its size and its checksum."""
        self.keys.append(request.headers.get("Authorization", ""))
        path = "{owner}/{name}/{file}".format_map(request.match_info)
        headers = {"X-Repo-Commit": COMMIT}
        match self.fault:
            case "gated":
                return web.Response(status=403, headers={"X-Error-Code": "GatedRepo"})
            case "private":
                return web.Response(status=401, headers={"X-Error-Code": "RepoNotFound"})
            case "forbidden":
                return web.Response(status=403)
            case "broken":
                return web.Response(status=503)
            case "circle":
                return web.Response(status=302, headers=headers | {"Location": str(request.url)})
            case "log-in page":
                return web.Response(text="<html>Welcome to our network!</html>", content_type="text/html")
        content = self.files.get(path)
        if content is None:
            return web.Response(status=404, headers=headers | {"X-Error-Code": "EntryNotFound"})
        checksum = hashlib.sha256(b"another" if self.fault == "wrong checksum" else content).hexdigest()
        if self.fault != "no checksum":
            headers["X-Linked-Etag"] = f'"{checksum}"'
        headers["X-Linked-Size"] = str(len(content) + (self.fault == "wrong size"))
        # Another host than the hub's: the package must not show it the key.
        storage = f"http://localhost:{request.url.port}/storage/{path}"
        return web.Response(status=302, headers=headers | {"Location": storage, "ETag": '"link"'})

    async def _storage(self, request: web.Request) -> web.StreamResponse:
        """Send a file's content, or the range of it that is wanted."""
        self.keys.append(request.headers.get("Authorization", ""))
        content = self.files["{owner}/{name}/{file}".format_map(request.match_info)]
        wanted = request.headers.get("Range", "")
        self.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        response = web.StreamResponse(status=206 if wanted else 200)
        if self.fault == "endless":
            await response.prepare(request)
            with suppress(ConnectionError):
                while True:
                    await response.write(bytes(100_000))
            return response
        if wanted:
            response.headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        response.content_length = len(content) - start
        await response.prepare(request)
        if self.breaks_after is not None:
            end, self.breaks_after = start + self.breaks_after, None
            await response.write(content[start:end])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(content[start:])
        return response


@asynccontextmanager
async def loopback_hub(**files: bytes) -> AsyncIterator[LoopbackHub]:
    """Serve files of the repository `tiny/model-GGUF`, each under its name with a `.gguf` behind it."""
    hub = LoopbackHub({f"tiny/model-GGUF/{name}.gguf": content for name, content in files.items()})
    async with served(
        {
            "/{owner}/{name}/resolve/{revision}/{file}": hub._metadata,
            "/storage/{owner}/{name}/{file}": hub._storage,
        }
    ) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub
