import os
import subprocess
import sys

import pytest

from pixi.app.doctor.checks import check_confinement
from pixi.app.doctor.servers import Finding
from pixi.documents import process
from pixi.documents.confinement import Confinement
from pixi.documents.readers import Readers
from pixi.settings import Settings

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these")


async def findings() -> list[Finding]:
    return [finding async for finding in check_confinement(Settings())]


@LINUX
@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (Confinement(7, True), "the kernel keeps from everything else (Landlock, seccomp)"),
        (Confinement(0, True), "by seccomp; without Landlock, a document"),
        (Confinement(4, False), "by Landlock; without seccomp, a document"),
        (Confinement(0, False), "by neither; without Landlock and seccomp, a document"),
    ],
)
async def test_what_the_kernel_lacks_is_told(
    kept: Confinement, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(_: Readers) -> Confinement:
        return kept

    monkeypatch.setattr(Readers, "confinement", told)
    finding, *_ = await findings()
    assert (finding.ok, finding.subject) == (kept.seccomp or kept.landlock > 0, "readers")
    assert words in finding.text


async def test_where_there_is_no_such_fence_it_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(_: Readers) -> Confinement:
        return Confinement()

    monkeypatch.setattr(Readers, "confinement", told)
    monkeypatch.setattr(sys, "platform", "darwin")
    finding, *_ = await findings()
    assert finding.ok
    assert "Linux does more" in finding.text


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there is no root")
@pytest.mark.parametrize("user", [0, 1000])
async def test_root_is_told(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    told = await findings()  # asks a process that reads
    assert [finding.subject for finding in told] == ["readers", "user"][: 1 if user else 2]


async def test_readers_that_do_not_start_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_SCRIPT", os.devnull)
    finding, *_ = await findings()
    assert not finding.ok
    assert "does not start" in finding.text


ENVIRONMENT = """
import ctypes, os, sys
from pixi.cli import running

async def work():
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            told = open(f"/proc/{os.getppid()}/environ").read()
        except PermissionError:
            told = "refused"
        os.write(writing, told.encode())
        os._exit(0)
    os.wait()
    print(os.read(reading, 100_000).decode())
    return 0

if os.geteuid() == 0:  # an ordinary user, whose programs are open to each other
    os.setgroups([]); os.setgid(65_534); os.setuid(65_534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[1:] == ["open"]:
    running.close_to_others = lambda: None
running.run_async(work())
"""


@LINUX
def test_the_environment_is_closed_to_other_processes_of_the_user() -> None:
    def told(*words: str) -> str:
        environment = os.environ | {"OPENAI_API_KEY": "canary"}
        command = [sys.executable, "-c", ENVIRONMENT, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert "canary" in told("open")
    assert told() == "refused\n"
