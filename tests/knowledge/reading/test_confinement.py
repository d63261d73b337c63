import subprocess
import sys
from pathlib import Path

import pytest

CONFINED = """
import sys
from pixi.knowledge.reading.confinement import confine
from pixi.knowledge.reading.limits import Limits
confine(Limits(megabytes=300))
try:
    exec(sys.argv[1])
except PermissionError as error:
    print("refused", error)
except MemoryError:
    print("no memory")
else:
    print("done")
"""


def confined(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).resolve().parents[3])},
    )
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os; os.fork()",
        "open('made', 'w')",
        "open('there', 'a')",
        "import os; os.open('made', os.O_CREAT | os.O_RDWR)",
        "import os; os.remove('there')",
        "import os; os.rename('there', 'made')",
        "import os; os.kill(1, 0)",
    ],
)
def test_reading_does_nothing_but_read(tmp_path: Path, code: str) -> None:
    (tmp_path / "there").write_text("x")
    assert confined(code, tmp_path).startswith("refused")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_reading_reads(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    assert confined("assert open('there').read() == 'x'", tmp_path) == "done"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not hold a process to it")
def test_memory_has_an_end(tmp_path: Path) -> None:
    assert confined("b'x' * 400_000_000", tmp_path) == "no memory"
