"""One run of the process in which llama.cpp serves: started, watched, asked, and ended."""

import asyncio
import contextlib
import hashlib
import json
import logging
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
import msgspec

from pixi.core.errors import ConfigError, ModelError
from pixi.models.weights import cache_folder

_log = logging.getLogger("pixi.models")

MOST_BYTES = 1 << 30
"""Of all files together. The bundled model takes 23 kB for a token, one of 8 billion parameters 130 kB."""

_SAVING_SECONDS = 120  # longer than any file takes to be written
_NAME_CHARACTERS = 16  # of a digest that tells stores or talks apart


# Files in which llama.cpp keeps between runs what it has read of a talk: the KV cache of its slot.
#
# Such a file holds the words of a talk as tokens. Its name tells the store that the talk is in, and the
# store's revision, which grows with everything that is forgotten there: so the files that hold what was
# forgotten are known, whichever process forgot it. The name ends with a digest of the content, and
# llama.cpp is given no file that differs from it: one that is cut off ends its process (`GGML_ASSERT` in
# `llama_state_seq_load_file`).


class SavedSlots:
    """The files of one store.

    Args:
        store: which store, without a password.
        folder: where they are.

    Attributes:
        revision: of the store. Only files of this revision are found; those of others are `drop`ped.
    """

    def __init__(self, store: str, folder: Path | None = None) -> None:
        self.revision = 0
        self._store = _short(store)
        self._folder = folder or slots_folder()

    def find(self, key: str) -> Path | None:
        """Return the whole file that was saved last under a key. One that is broken is deleted."""
        for path in sorted(self._files(f"{self._stem(key)}.*.slot"), key=_age, reverse=True):
            try:
                if _digest(path) == path.name.split(".")[-2]:
                    path.touch()  # the cap takes what was not used for longest
                    return path
                _log.warning("what was read of the last talk is read again: %s is broken", path)
            except OSError as error:
                _log.warning("what was read of the last talk is read again: %s", error)
            discard(path)
        return None

    @contextmanager
    def writing(self, key: str) -> Generator[Path, None, None]:
        """Give a path for a new file. If the block ends well it takes the place of what the key had before.

        Raises:
            OSError: there is no room, or no permission, or the file was deleted meanwhile.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        if shutil.disk_usage(self._folder).free < 2 * MOST_BYTES:
            raise OSError(f"there is little room left in {self._folder}")
        path = self._folder / f"{self._stem(key)}.{secrets.token_hex(8)}.saving"
        try:
            yield path
            path.chmod(0o600)
            before = list(self._files(f"{self._stem(key)}.*.slot"))
            kept = path.replace(self._folder / f"{self._stem(key)}.{_digest(path)}.slot")
        finally:
            discard(path)
        for each in before:
            if each != kept:
                discard(each)
        self._drop_oldest()

    def drop(self, *, but: int | None = None) -> None:
        """Delete the files of this store: all, or all but those of one revision."""
        for path in self._files(f"{self._store}.*"):
            was_left = path.suffix == ".saving" and _age(path) < time.time() - _SAVING_SECONDS  # by a kill
            if was_left or path.name.split(".")[1] != str(but):
                discard(path)

    def _stem(self, key: str) -> str:
        return f"{self._store}.{self.revision}.{_short(key)}"

    def _files(self, pattern: str) -> list[Path]:
        return list(self._folder.glob(pattern))

    def _drop_oldest(self) -> None:
        """Delete what was not used for longest, of all stores, until the rest is within `MOST_BYTES`."""
        total = 0
        for path in sorted(self._files("*.*"), key=_age, reverse=True):
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                if total + size > MOST_BYTES:
                    discard(path)
                else:
                    total += size


def slots_folder() -> Path:
    """The folder of all such files."""
    return cache_folder() / "slots"


def discard(path: Path) -> None:
    """Delete a file, if it is there; the log tells where that fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s holds words of a talk and cannot be deleted: %s", path, error.strerror)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_CHARACTERS]


def _age(path: Path) -> float:
    """When a file was used last, in seconds since the epoch; 0 where it is gone."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


_SCRIPT = Path(__file__).with_name("llama_server.py")
_START_SECONDS = 300.0
_CLOSE_SECONDS = 1.0
_KEPT_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the process is told.

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


class _Meta(msgspec.Struct):
    n_ctx_train: int = 0


class _Served(msgspec.Struct):
    meta: _Meta | None = None


class _Listing(msgspec.Struct):
    data: list[_Served] = []


class LlamaProcess:
    """A process that is ready to be asked. Made by `start`.

    Attributes:
        address: where it listens, on this machine alone.
        api_key: without it, it answers nobody.
    """

    def __init__(self, process: asyncio.subprocess.Process, api_key: str) -> None:
        self.address = ""
        self.api_key = api_key
        self._process = process
        self._said = b""
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
        """Whether it still runs."""
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """What it last complained of, in one line."""
        lines = self._said.decode("utf-8", "replace").splitlines()
        complaints = [line.partition(" E ")[2] for line in lines if " E " in line]  # the first is the cause
        said = complaints[0] if complaints else lines[-1] if lines else ""
        code = self._process.returncode
        ended = (
            f"it was ended by signal {-code}" if code is not None and code < 0 else f"it ended with {code}"
        )
        return said.strip()[:300] or ended

    async def died(self, within: float) -> bool:
        """Whether it is dead, or is before so many seconds have passed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), within)
        return not self.alive

    async def trained_context(self, session: aiohttp.ClientSession) -> int | None:
        """How many tokens the model has learned to hold, where its file says so."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        try:
            async with session.get(f"{self.address}/v1/models", headers=headers) as response:
                listing = msgspec.json.decode(await response.read(), type=_Listing)
        except (aiohttp.ClientError, msgspec.MsgspecError):
            return None  # then what was set has to be believed
        metas = [served.meta for served in listing.data if served.meta is not None]
        return metas[0].n_ctx_train or None if metas else None

    async def save_slot(self, session: aiohttp.ClientSession, name: str) -> None:
        """Write what its slot holds, the tokens that it has read last and their KV cache, to a file.

        Args:
            session: to ask it with.
            name: of the file in the folder of the settings.

        Raises:
            ModelError: it could not be written.
        """
        await self._slot(session, "save", name)

    async def restore_slot(self, session: aiohttp.ClientSession, name: str) -> None:
        """Have its slot hold what was saved in a file: a prompt that begins so is not read again.

        A file that is not whole may end the process.

        Args:
            session: to ask it with.
            name: of the file in the folder of the settings.

        Raises:
            ModelError: it could not be read.
        """
        await self._slot(session, "restore", name)

    async def close(self) -> None:
        """End it, kindly for a second and then by force. Calling it twice does no harm."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not await self.died(_CLOSE_SECONDS):
            self._process.kill()
            await self._process.wait()
        await self._listening

    async def _slot(self, session: aiohttp.ClientSession, action: str, name: str) -> None:
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
        """Tell it the settings; gives the address, or "" where it ended instead."""
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
        """Keep the last of what it says, until it ends."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(4096):
            self._said = (self._said + chunk)[-_KEPT_BYTES:]
