"""Sets up a peer from the package registry in an environment of its own, once, and starts it as a worker."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import ROOT, Worker, worker
from benchmarks.report import progress

PIXI_BOT = "1.4.1"
"""The version that is measured; the names it is driven by belong to it."""

FOLDER = ROOT / ".venv-peers"


class PeerMissing(Exception):
    """The peer could not be set up; the text says why, in one line. The other figures go on."""


def _install(folder: Path) -> None:
    """Make the environment. It is built beside and moved, so that one half built is never used."""
    building = folder.with_name(folder.name + f".{os.getpid()}")
    python = building / "bin" / "python"
    # The same interpreter on both sides, so that the ratio compares the code alone: on Python 3.11 that
    # means to pass over the version pixi-bot asks for; the modules driven here run on it unchanged.
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    patience = ["--retries", "1", "--timeout", "20"]
    commands = (
        [sys.executable, "-m", "venv", str(building)],
        [*pip, *patience, "--ignore-requires-python", f"pixi-bot[discord]=={PIXI_BOT}"],
    )
    progress(f"setting up pixi-bot {PIXI_BOT} in {FOLDER.name}/{folder.name}")
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        building.rename(folder)
    except subprocess.TimeoutExpired:
        raise PeerMissing("pixi-bot could not be installed: no answer within five minutes") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout or "").strip().splitlines()[-1:]
        raise PeerMissing(f"pixi-bot could not be installed: {' '.join(last) or error}") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


@contextmanager
def pixi_bot(core: int | None = None, script: str = "peer_pixi_bot.py") -> Iterator[Worker]:
    """pixi-bot as a worker (see `peer_pixi_bot`, or another script), set up first if it is not there.

    Raises:
        PeerMissing: it cannot be installed.
    """
    FOLDER.mkdir(exist_ok=True)
    tag = f"py{sys.version_info.major}.{sys.version_info.minor}"
    folder = FOLDER / f"pixi-bot-{PIXI_BOT}-{tag}"
    if not folder.exists():
        _install(folder)
    command = [str(folder / "bin" / "python"), "-I", str(Path(__file__).with_name(script))]
    # It copies its resources into the home folder when it is imported: give it one of its own.
    with worker(command, core, {"HOME": str(folder)}) as running:
        yield running
