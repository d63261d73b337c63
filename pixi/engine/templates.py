"""The prompts that a persona is told in, and the helper that keeps its memory: text files beside this one."""

from functools import cache
from importlib import resources


def template(*, small: bool) -> str:
    """The text round a persona's own prompt, for `pixi.core.prompt.prefix` to fill in."""
    return _read("small.md" if small else "large.md")


def summary_template() -> str:
    """What a helper is told that folds old turns into a summary."""
    return _read("summary.md")


@cache
def _read(name: str) -> str:
    return resources.files("pixi.engine").joinpath("templates", name).read_text("utf-8").strip()
