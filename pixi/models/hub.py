"""Fetches a model of the catalogue from the Hugging Face Hub: whole and checked, or not at all.

The hub is asked with its own package, `huggingface_hub`, which knows its addresses, mirrors (`HF_ENDPOINT`),
tokens (`HF_TOKEN`) and errors, and goes on where a connection broke. Three things are done here:

- What was fetched stays beside the place where the file shall be, so that another run goes on too. The
  package's own `hf_hub_download` throws it away.
- The file's SHA-256 is compared with the one that the hub names. The package compares sizes alone.
- The file lies in Pixi's cache, under its own name. The package's cache has it behind a link below a commit's
  number, which nobody would write into a settings file or find again.
"""

import asyncio
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from pixi.core.errors import ConfigError, ModelError, PixiError
from pixi.models.weights import Progress, cache_folder, checked, not_kept

T = TypeVar("T")

_HUB = "https://huggingface.co"
_BLOCK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
# A thread that was cancelled ends with its next block. One that waits for a dead connection is left behind.
_CANCEL_SECONDS = 1.0
_TELL_SECONDS = 0.5
_KEPT = " What was fetched is kept: the next try goes on from there."


class CatalogueModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model that can be fetched. Sizes are approximate until the hub was asked.

    Attributes:
        name: what people call it by.
        repository: at the hub, as `owner/name`.
        file: the `.gguf` file in the repository.
        parameters: in billions.
        languages: codes of those that the model's card names.
        licence: its SPDX name.
        bytes: approximate size on disk.
        memory_bytes: approximate memory that a talk needs.
        source: the address where all of this stands.
    """

    name: str
    repository: str
    file: str
    parameters: float
    languages: tuple[str, ...]
    licence: str
    bytes: int
    memory_bytes: int
    source: str

    @property
    def path(self) -> Path:
        """Return where the file is kept, once it was fetched."""
        return cache_folder() / self.file

    @property
    def fetched(self) -> bool:
        """Return True if the file is here, whole."""
        return self.path.is_file()


class _Catalogue(msgspec.Struct):
    model: tuple[CatalogueModel, ...]


@cache
def catalogue() -> tuple[CatalogueModel, ...]:
    """Return the models of the catalogue, the smallest first; the first is the one to begin with."""
    text = resources.files("pixi.models").joinpath("catalogue.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=_Catalogue).model


def find_in_catalogue(name: str) -> CatalogueModel | None:
    """Return the model of that name, in upper or lower case; None where there is none."""
    return next((model for model in catalogue() if model.name == name.casefold()), None)


def cached_files() -> tuple[Path, ...]:
    """Return the `.gguf` files in the cache, by name. Downloads that are not whole have another ending."""
    return tuple(sorted(cache_folder().glob("*.gguf")))


class HubFile(msgspec.Struct, frozen=True):
    """The hub's word of a file.

    Attributes:
        bytes: its size.
        sha256: of its content, in hex.
        commit: the version of the repository that it was asked of.
    """

    bytes: int
    sha256: str
    commit: str


class _Cancelled(Exception):
    """Ends a download for which nobody waits any more."""


class _Meter:
    """Counts bytes in the place of a progress bar of `huggingface_hub`, and ends a cancelled download.

    Attributes:
        done: bytes that are here, those of an earlier run among them.
        most: bytes that the hub named.
        doing: the present step, for people: "fetching" or "checking".
    """

    def __init__(self, most: int) -> None:
        self.done = 0
        self.most = most
        self.doing = "fetching"
        self.cancelled = threading.Event()

    def bar(self, *, initial: int = 0, **_: object) -> "_Meter":
        """Return the meter, set to where a download begins. Called in the place of tqdm's class."""
        self.done = initial
        return self

    def update(self, count: int) -> None:
        """Add to the bytes; negative where the server begins anew.

        Raises:
            _Cancelled: nobody waits for the file.
            OSError: more bytes came than were named. The package compares sizes only at the end.
        """
        self.done += count
        if self.done > self.most:
            raise OSError("more than was named")
        if self.cancelled.is_set():
            raise _Cancelled

    def __enter__(self) -> "_Meter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


async def look_up(model: CatalogueModel) -> HubFile:
    """Ask the hub for the size and the checksum of a model's file.

    Raises:
        ConfigError: the package is missing, or the operator must mend something else.
        ModelError: the hub cannot be reached, or does not have the file.
    """
    _check_package()
    return await _in_thread(lambda: _look_up(model))


async def fetch(model: CatalogueModel, *, progress: Progress, file: HubFile | None = None) -> Path:
    """Fetch a model into the cache and return its path. A file that is there already is not fetched again.

    Args:
        model: of the catalogue.
        progress: told twice a second how far the download is, and "" at the end.
        file: from `look_up`; None: the hub is asked.

    Raises:
        ConfigError: the package is missing, there is no room, or the operator must mend something else.
        ModelError: the hub cannot be reached, or sent something else than it named.
    """
    if model.fetched:
        return model.path
    file = file or await look_up(model)
    meter = _Meter(file.bytes)
    download = asyncio.ensure_future(_in_thread(lambda: _download(model, file, meter)))
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    had: int | None = None  # bytes at the first look: those of an earlier run tell nothing of the speed
    try:
        while not download.done():
            await asyncio.wait([download], timeout=_TELL_SECONDS)
            if had is None:
                had = meter.done
            seconds = loop.time() - started_at
            progress(_told(model, file, meter, (meter.done - had) / seconds if seconds else 0))
        return download.result()
    except asyncio.CancelledError:
        meter.cancelled.set()
        await asyncio.wait([download], timeout=_CANCEL_SECONDS)
        if download.done() and not download.cancelled():
            download.exception()  # asyncio logs an exception that nobody asked for
        raise
    finally:
        progress("")


def free_bytes(folder: Path) -> int:
    """Return the free disk space for a folder, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _told(model: CatalogueModel, file: HubFile, meter: _Meter, speed: float) -> str:
    """Describe how far a download is. `speed`: bytes a second so far."""
    left = f" · {duration((file.bytes - meter.done) / speed)} to go" if speed > 0 and meter.done else ""
    return f"{meter.doing} {model.name}: {meter.done / 1e6:,.0f} of {file.bytes / 1e6:,.0f} MB{left}"


def duration(seconds: float) -> str:
    """Return a length of time for people: `40 s`, `12 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _check_package() -> None:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ConfigError(
            "Models are fetched with huggingface_hub, which is not installed.\n"
            'Run: pip install "pixi-persona[hub]"'
        )


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or _HUB).rstrip("/")


def _url(model: CatalogueModel, revision: str) -> str:
    from huggingface_hub import hf_hub_url

    return hf_hub_url(model.repository, model.file, revision=revision, endpoint=_endpoint())


def _look_up(model: CatalogueModel) -> HubFile:
    from huggingface_hub import get_hf_file_metadata

    found = _asking(model, lambda: get_hf_file_metadata(_url(model, "main"), endpoint=_endpoint()))
    if found.commit_hash is None:
        raise ModelError(
            f"{_host()} does not answer as a hub does.\n"
            "If HF_ENDPOINT is set, let it name a hub; else see whether a proxy or a log-in page answers."
        )
    if found.size is None or not _SHA256.fullmatch(found.etag or ""):
        raise ModelError(
            f"{_host()} names no size and checksum of {model.file}, so it cannot be checked.\n"
            "If HF_ENDPOINT is set, let it name a hub that does."
        )
    return HubFile(found.size, found.etag or "", found.commit_hash)


def _download(model: CatalogueModel, file: HubFile, meter: _Meter) -> Path:
    """Fetch the file, or what is missing of it, check it and put it in its place. Runs in a thread."""
    from filelock import FileLock, Timeout

    part = cache_folder() / f"{model.file}.{file.sha256[:12]}.part"
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{model.path}.lock", timeout=0):
            if model.fetched:
                return model.path
            for other in part.parent.glob(f"{model.file}.*.part"):
                if other != part:  # of a version that the hub no longer has
                    other.unlink()
            _check_room(model, file, part)
            _asking(model, lambda: _receive(model, file, part, meter), kept=_KEPT)
            _check(model, file, part, meter)
            os.replace(part, model.path)
        with suppress(OSError):  # somebody else holds it for a moment, and finds the file
            os.unlink(f"{model.path}.lock")
    except Timeout:
        raise ConfigError(
            f"{model.name} is being fetched already, by another program or the last one that was stopped: "
            "wait for it, or try again in a minute."
        ) from None
    except OSError as error:
        by_hand = "fetch the file by hand and name its path in model.name"
        raise not_kept(model.name, error, by_hand) from None
    return model.path


def _receive(model: CatalogueModel, file: HubFile, part: Path, meter: _Meter) -> None:
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    have = part.stat().st_size if part.exists() else 0
    if have > file.bytes:
        part.unlink()
        have = 0
    meter.done = have
    with part.open("ab") as target:
        bar: Any = meter.bar  # in the place of tqdm's class, as the package allows
        http_get(
            _url(model, file.commit),
            target,
            resume_size=have,
            headers=build_hf_headers(),
            expected_size=file.bytes,
            displayed_filename=model.file,
            tqdm_class=bar,
        )


def _check(model: CatalogueModel, file: HubFile, part: Path, meter: _Meter) -> None:
    """See that a fetched file is the one that the hub names, and a GGUF file; remove any other.

    Raises:
        ModelError: it is another, or no GGUF file.
    """
    digest = hashlib.sha256()
    meter.doing, meter.done = "checking", 0
    with part.open("rb") as source:
        while block := source.read(_BLOCK):
            digest.update(block)
            meter.update(len(block))
    if digest.hexdigest() != file.sha256:
        part.unlink()
        raise ModelError(
            f"What came as {model.file} is not the file that {_host()} names: its checksum is another. "
            "It was removed.\nTry again; if it stays so, something between here and the hub changes it."
        )
    try:
        checked(part)
    except ConfigError:
        part.unlink()
        raise ModelError(f"{model.file} at {_host()} is not a GGUF file, and was removed.") from None


def _check_room(model: CatalogueModel, file: HubFile, part: Path) -> None:
    """See that the disk has room for what is missing of a file.

    Raises:
        ConfigError: it has none.
    """
    missing = file.bytes - (part.stat().st_size if part.exists() else 0)
    free = free_bytes(part.parent)
    if free < missing:
        raise ConfigError(
            f"There is no room for {model.name} in {part.parent}: {missing / 1e6:,.0f} MB are to be fetched, "
            f"and {free / 1e6:,.0f} MB are free.\nMake room there, or choose a smaller model."
        )


def _asking(model: CatalogueModel, ask: Callable[[], T], *, kept: str = "") -> T:
    """Call `ask`, and say in plain words what went wrong. `kept`: is added where trying again helps.

    Raises:
        ConfigError, ModelError: see `look_up`.
        OSError: the disk could not be written.
    """
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of each new attempt on stderr
    try:
        return ask()
    except OfflineModeIsEnabled:
        raise ConfigError("HF_HUB_OFFLINE is set, and so nothing is fetched: unset it.") from None
    except HfHubHTTPError as error:
        _refused(model, error, kept)
    except httpx2.TooManyRedirects:
        raise ModelError(
            f"{_host()} sends from one address to the next without end.\nSee whether HF_ENDPOINT is right."
        ) from None
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        raise ConfigError(
            f"HF_ENDPOINT is no address: {_endpoint()!r}. Write it as https://HOST, or unset it."
        ) from None
    except httpx2.HTTPError as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(
            f"{_host()} could not be reached, or broke off: {why}.\n"
            f"Check the network, or let HF_ENDPOINT name a mirror.{kept}"
        ) from None
    except OSError as error:
        if error.errno is not None:
            raise
        # The package's word for a download that ended early or went on too long.
        raise ModelError(f"{model.file} came in another size than {_host()} named.{kept}") from None


def _refused(model: CatalogueModel, error: Exception, kept: str) -> NoReturn:
    """Say why the hub refused.

    Raises:
        ConfigError: a log-in or an acceptance is missing.
        ModelError: it does not have the file, or is out of order.
    """
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    page = f"{_endpoint()}/{model.repository}"
    if isinstance(error, GatedRepoError):
        raise ConfigError(
            f"{model.repository} is open only to those who accepted its terms.\n"
            f"Accept them at {page}, and set HF_TOKEN to a token of yours."
        ) from None
    if isinstance(error, RemoteEntryNotFoundError | RevisionNotFoundError):
        raise ModelError(
            f"{model.repository} at {_host()} no longer has {model.file}.\n"
            f"See {page}, fetch a file by hand and name its path in model.name.",
            permanent=True,
        ) from None
    if isinstance(error, RepositoryNotFoundError):
        raise ModelError(
            f"There is no {model.repository} at {_host()}, or it is not open to everybody.\n"
            "If it is yours to see, set HF_TOKEN; if HF_ENDPOINT is set, see whether it is right.",
            permanent=True,
        ) from None
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    if status in (401, 403):
        raise ConfigError(
            f"{_host()} does not give out {model.file} ({status}): set HF_TOKEN to a token that may read it."
        ) from None
    raise ModelError(f"{_host()} is out of order ({status}). Try again later.{kept}") from None


def _host() -> str:
    return urlsplit(_endpoint()).netloc.rpartition("@")[2] or _endpoint()


async def _in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that does not keep the program from ending."""
    task: Future[T] = Future()

    def run() -> None:
        try:
            task.set_result(work())
        except (PixiError, _Cancelled) as error:
            task.set_exception(error)
        finally:
            if not task.done():  # a fault of the program: it is raised where the result is awaited
                task.set_exception(sys.exception())

    task.set_running_or_notify_cancel()  # from now on it is not cancelled, whoever stops waiting
    threading.Thread(target=run, name="pixi-hub", daemon=True).start()
    return await asyncio.wrap_future(task)
