"""Each route that is described is asked what schemathesis makes of its description, right and wrong."""

import asyncio
import sys
from pathlib import Path

import pytest

from pixi.settings.rules import HttpRules
from tests.channels.http.served import served

pytestmark = pytest.mark.nightly

WORDS = "run --max-examples 24 --seed 7 --no-color"
ONE_TALK = '[parameters]\n"path.id" = "kitchen"\n'
CONFIG = """
[generation]
codec = "ascii"  # which characters are printable no pattern can say

[checks]
negative_data_rejection.expected-statuses = ["4xx"]

[[operations]]  # that the last message must be a person's, or a file one of those kinds, no schema can say
include-path = ["/api/agui", "/api/chat", "/api/files", "/chat/completions", "/v1/chat/completions"]
checks.positive_data_acceptance.enabled = false
"""


@pytest.mark.parametrize("config", [CONFIG, ONE_TALK + CONFIG], ids=["any talk", "a talk that is there"])
async def test_answers_are_as_they_are_described(config: str, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(config)
    rules = HttpRules(requests_per_minute=10**6, turns_per_person=10**6)
    async with served(*["[REACT: 🥞][SEND: hey]"] * 5_000, rules=rules) as here:
        key = await here.key("app", "chat", "chat:on-behalf", "approve", "operate")
        await here.post("/api/chat", {"message": "hi", "conversation": "kitchen"}, **key)
        run = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
            *(*WORDS.split(), "--header", f"Authorization:{key['Authorization']}"),
            f"{here.url}/openapi.json",
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await run.communicate()
    assert run.returncode == 0, told.decode()
