"""The process that llama.cpp runs in, from its own side."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec.structs import asdict

from pixi.models import llama_process
from pixi.models.llama_process import ServerSettings
from pixi.models.weights import cached, installed

WEIGHTS = installed() or cached()
pytestmark = [
    pytest.mark.skipif(
        find_spec("xllamacpp") is None, reason="xllamacpp is not installed: `make test` does it"
    ),
    pytest.mark.skipif(WEIGHTS is None, reason="the bundled weights are not here: `make test` fetches them"),
]


def test_a_parent_that_is_gone_before_the_model_is_loaded_leaves_no_orphan() -> None:
    script = Path(llama_process.__file__)
    settings = ServerSettings(str(WEIGHTS), 256, 1)
    child = subprocess.Popen(
        [sys.executable, "-P", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        child.stdin.write(json.dumps(asdict(settings) | {"api_key": "k"}).encode() + b"\n")
        child.stdin.close()
        child.stdout.close()
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.wait()
        child.stderr.close()
