import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("another system keeps a process in other ways", allow_module_level=True)

from pixi.documents import confinement, process
from pixi.documents.confinement import Confinement
from pixi.documents.readers import Readers
from tests.documents.at_hand import write
from tests.documents.attacks import ATTACKS, CANARY, Attack

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Tried:
    """What came of every attack: free, and confined."""

    kept: Confinement
    outcomes: dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def tried() -> Tried:
    with tempfile.TemporaryDirectory() as folder:  # where an ordinary user gets to, see `attacks.py`
        done = subprocess.run(
            [sys.executable, "-m", "tests.documents.attacks", folder],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": CANARY},
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return Tried(Confinement(told["landlock"], told["seccomp"]), told["outcomes"])


@pytest.mark.parametrize("name", ATTACKS)
def test_a_process_that_reads_is_refused_everything_else(tried: Tried, name: str) -> None:
    free, confined = tried.outcomes[name]
    if reason := lacking(ATTACKS[name], tried.kept):
        pytest.skip(reason)
    if free.startswith("refused"):
        pytest.skip(f"nobody may do this here, confined or not: {free}")
    assert free == "worked"
    assert confined.startswith("refused: ")


def lacking(attack: Attack, kept: Confinement) -> str:
    """Why this kernel cannot refuse an attack; "" if it can."""
    there = {"landlock": kept.landlock, "seccomp": kept.seccomp}
    if not attack.fence or any(there[fence] for fence in attack.fence.split()):
        return ""
    return f"this kernel has no {' and no '.join(attack.fence.split())}"


HOSTILE = """
import importlib.util, os
spec = importlib.util.spec_from_file_location("worker", {worker!r})
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)

def attack(original, tell):
    try:
        with open({secret!r}) as secret:
            title = secret.read()
    except OSError as error:
        title = type(error).__name__
    return [worker.Document("", title, (worker.Section(original.all_bytes().decode()),))]

from pixi.documents.files import Document, Section
worker.Document, worker.Section = Document, Section
worker.read_documents = attack
worker.main()
"""


async def test_a_reader_that_was_taken_over_has_its_document_and_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = write(tmp_path / ".env", CANARY)
    worker = str(process._SCRIPT)
    script = write(tmp_path / "hostile.py", HOSTILE.format(worker=worker, secret=str(secret)))
    monkeypatch.setattr(process, "_SCRIPT", script)
    monkeypatch.chdir(tmp_path)
    async with Readers(workers=1) as readers:
        if not (await readers.confinement()).landlock:
            pytest.skip("this kernel has no landlock")
        (document,) = await readers.read(write(tmp_path / "a.md", "handed over"))
    assert document.title == "PermissionError"
    assert document.sections[0].text == "handed over"


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
)
def test_the_numbers_of_the_calls_are_those_of_the_kernel(column: int, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"there is no {header}")
    told = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s", Path(header).read_text()))
    tables = confinement.CALLS | {name: rule[0] for name, rule in confinement.CHECKED.items()}
    for name, numbers in tables.items():
        if numbers[column] is not None:
            kernels = told.get(name) or told["fstatat" if name == "newfstatat" else name]
            assert numbers[column] == int(kernels), name


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_jump_of_the_filter_leads_out_of_it(machine: str) -> None:
    program = confinement._filter_program(machine)
    for at, instruction in enumerate(program):
        assert at + max(instruction[2], instruction[3]) < len(program) - (instruction[0] != 0x06)
    assert program[-1][0] == 0x06


def test_a_machine_whose_calls_are_not_known_has_no_filter() -> None:
    assert not confinement._filter_program("riscv64")
