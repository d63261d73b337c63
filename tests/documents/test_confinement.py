import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pixi.documents import confinement
from tests.documents.at_hand import write

ROOT = Path(__file__).resolve().parents[2]

PYTHON = """
import json, os, sys
from pixi.documents.confinement import confine
from pixi.documents.files import FileLimits
import shutil, socket, subprocess, urllib.request
confine(FileLimits(megabytes=300))
told = []
for code in json.load(sys.stdin):
    try:
        exec(code)
        told.append("worked")
    except PermissionError as error:
        told.append(str(error))
os.write(1, json.dumps(told).encode())
"""

REFUSED = [
    "socket.create_connection(('127.0.0.1', 9))",
    "socket.getaddrinfo('example.org', 80)",
    "urllib.request.urlopen('http://127.0.0.1:9/')",
    "subprocess.run(['true'])",
    "os.system('true')",
    "shutil.rmtree('there')",
    "open('made', 'w')",
    "open('there', 'a')",
    "os.open('made', os.O_CREAT | os.O_RDWR)",
    "os.remove('there')",
    "os.rename('there', 'made')",
    "os.kill(1, 0)",
]


def test_python_itself_refuses_it_on_every_system(tmp_path: Path) -> None:
    write(tmp_path / "there", "x")
    done = subprocess.run(
        [sys.executable, "-c", PYTHON],
        input=json.dumps(REFUSED),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for code, told in zip(REFUSED, json.loads(done.stdout), strict=True):
        assert "reading a file may not do this" in told, code
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("name", [".env", "pixi.toml"])
def test_a_folder_of_modules_that_holds_keys_is_not_for_readers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.path.realpath(tmp_path)
    monkeypatch.syspath_prepend(folder)
    assert folder in confinement._libraries()
    write(tmp_path / name, "OPENAI_API_KEY = 'k'")
    assert folder not in confinement._libraries()
