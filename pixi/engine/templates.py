"""The prompts that a persona is told in, as text files beside this one."""

from functools import cache
from importlib import resources


@cache
def template(*, small: bool) -> str:
    """The text round a persona's own prompt, for `pixi.core.prompt.prefix` to fill in."""
    name = "small.md" if small else "large.md"
    return resources.files("pixi.engine").joinpath("templates", name).read_text("utf-8").strip()
