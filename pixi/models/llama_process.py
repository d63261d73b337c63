"""A run of the process in which llama.cpp serves: started, watched, asked, and ended."""

import asyncio
import contextlib
import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Literal

import aiohttp
import msgspec
from msgspec.structs import asdict

from pixi.core.errors import ConfigError, ModelError
from pixi.models.traits import LlamaListing

_SCRIPT = Path(__file__).with_name("llama_server.py")
_START_SECONDS = 300.0
_CLOSE_SECONDS = 1.0
_KEPT_BYTES = 16_384


class ServerSettings(msgspec.Struct, frozen=True):
    """Settings of the process.

    Attributes:
        path: of the `.gguf` file.
        context_tokens: prompt and reply together.
        threads: on which it computes.
        cache_mib: memory for the evaluated prompts of other conversations.
        slots: the folder for the saved state of its slot; "": it is not saved.
    """

    path: str
    context_tokens: int
    threads: int
    cache_mib: int = 512
    slots: str = ""


class LlamaProcess:
    """A process that is ready to be asked. `start` makes one.

    Attributes:
        address: where the process listens, on this machine alone.
        api_key: each request must carry it.
    """

    def __init__(self, process: asyncio.subprocess.Process, api_key: str) -> None:
        self.address = ""
        self.api_key = api_key
        self._process = process
        self._said = b""  # the end of its standard error
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, settings: ServerSettings) -> "LlamaProcess":
        """Start it, and wait until the model is loaded.

        Raises:
            ConfigError: the model cannot be loaded; the text holds what llama.cpp said.
        """
        api_key = secrets.token_urlsafe(24)
        # By its file, and with `-P`: nothing in the working directory is imported in place of a library.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(_SCRIPT)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C in the terminal is this process's business; that one ends when it is told to.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        run = cls(process, api_key)
        try:
            run.address = await run._told_address(asdict(settings) | {"api_key": api_key})
        except BaseException:
            await run.close()
            raise
        if not run.address:
            raise ConfigError(f"llama.cpp cannot load {settings.path}: {run.last_words}")
        return run

    @property
    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        """Process number."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """Return what the process last complained of, in one line."""
        lines = self._said.decode("utf-8", "replace").splitlines()
        complaints = [line.partition(" E ")[2] for line in lines if " E " in line]
        said = ""
        if complaints:
            said = complaints[0].strip()  # the cause of those that follow
        elif lines:
            said = lines[-1].strip()
        if said:
            return said[:300]
        code = self._process.returncode
        if code is not None and code < 0:
            return f"it was ended by signal {-code}"
        return f"it ended with {code}"

    async def died(self, within: float) -> bool:
        """Wait up to `within` seconds for the process to end; return True if it did."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._process.wait()
        return not self.alive

    async def trained_context(self, session: aiohttp.ClientSession) -> int | None:
        """Return how many tokens the model has learned to hold, where its file says so."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        try:
            async with session.get(f"{self.address}/v1/models", headers=headers) as response:
                listing = msgspec.json.decode(await response.read(), type=LlamaListing)
        except (aiohttp.ClientError, msgspec.MsgspecError):
            return None  # then the context of the settings has to be believed
        metas = [served.meta for served in listing.data if served.meta is not None]
        return metas[0].n_ctx_train or None if metas else None

    async def close(self) -> None:
        """End it, kindly for a second and then by force. Calling it twice does no harm."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not await self.died(_CLOSE_SECONDS):
            self._process.kill()
            await self._process.wait()
        await self._listening

    async def slot(
        self, session: aiohttp.ClientSession, action: Literal["save", "restore"], name: str
    ) -> None:
        """Save or restore the state of the slot: the tokens that were read last, and their KV cache.

        A prompt that begins with these tokens is then not read again. A file that is not whole may end the
        process.

        Args:
            session: to ask it with.
            name: of the file in the folder of the settings.

        Raises:
            ModelError: it could not be written or read.
        """
        headers = {"Authorization": f"Bearer {self.api_key}"}
        url = f"{self.address}/slots/0?action={action}"
        try:
            async with session.post(url, json={"filename": name}, headers=headers) as response:
                if response.status != 200:
                    said = " ".join((await response.text(errors="replace")).split())[:300]
                    raise ModelError(f"llama.cpp cannot {action} the state of its slot: {said}")
                await response.read()
        except aiohttp.ClientError as error:
            raise ModelError(f"llama.cpp cannot {action} the state of its slot: {error}") from error

    async def _told_address(self, settings: dict[str, object]) -> str:
        """Send the settings, and return the address; "" where the process ended instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_START_SECONDS):
                with contextlib.suppress(ConnectionError):  # it ended before it read: said below
                    self._process.stdin.write(json.dumps(settings).encode() + b"\n")
                    await self._process.stdin.drain()
                answer = await self._process.stdout.readline()
        except TimeoutError:
            raise ConfigError(
                f"{settings['path']} was not loaded after {_START_SECONDS:.0f} s: use a smaller model."
            ) from None
        if answer:
            return str(json.loads(answer)["address"])
        await self.close()
        return ""

    async def _listen(self) -> None:
        """Keep the end of its standard error, until the process ends."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(4096):
            self._said = (self._said + chunk)[-_KEPT_BYTES:]
