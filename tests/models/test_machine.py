"""What this machine can do: a trial of the bundled model, made once, and the memory."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from pixi.models import machine
from pixi.models.machine import Trial, memory_bytes, trial
from pixi.models.weights import cache_folder, cached, installed


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return cache_folder()


@pytest.mark.skipif(
    find_spec("xllamacpp") is None or (installed() or cached()) is None,
    reason="the bundled model is not here",
)
async def test_a_trial_is_made_once_on_each_machine(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.models.machine._TRIAL_SECONDS", 0.01)
    told: list[str] = []
    first = await trial(told.append)
    assert first is not None
    assert first.tokens_per_second > 0
    assert "measuring the speed of this machine" in told
    assert told.pop() == ""
    told.clear()
    assert await trial(told.append) == first
    assert told == []
    (cache / "speed.json").write_text('{"machine": "another", "bytes": 1, "tokens_per_second": 1.0}')
    assert machine._kept_trial() is None


async def test_nothing_is_fetched_for_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.models.machine.installed", lambda: None)
    assert await trial(lambda _: None) is None


def test_a_larger_model_is_slower_in_the_ratio_of_the_sizes() -> None:
    assert Trial("here", 100_000_000, 80.0).expected(1_000_000_000) == 8.0


def test_the_memory_of_this_machine_is_known() -> None:
    memory = memory_bytes()
    assert memory is not None
    assert memory > 100_000_000
