"""How large a model is, from what it is called, and what follows from that for its prompt and its tools.

A tiny model gets a short prompt, examples as turns and a grammar; from `WHOLE_PROMPT` billion parameters on a
model gets the whole prompt; from `CALLS_TOOLS` on it is offered tools. One whose size nobody knows is large.
"""

import re
from dataclasses import replace

from pixi.models.dialects.prompt import ToolMode
from pixi.models.model import Traits

WHOLE_PROMPT = 0.7
"""Billions of parameters from which on a model is given the whole prompt, and follows it."""

CALLS_TOOLS = 3.0
"""Billions of parameters from which on a model is offered tools, unless it is set otherwise."""

# `8x7b` is a mixture of eight; `e4b` works as if it had four billion; the `a3b` of `30b-a3b` tells how many
# of them work at a time, and is not the size. No letter or digit stands beside: neither `4bit` nor `r7b`.
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x|e)?(\d{1,4}(?:\.\d{1,3})?)([bm])(?![a-z0-9])", re.IGNORECASE)
_FEWEST_MILLIONS = 14  # `1m` and `10m` in names of models tell how many tokens these can hold


def size_in(name: str) -> float | None:
    """Return the billions of parameters that a name such as `qwen2.5-1.5b-instruct` tells; None: it does not.

    Where it tells several, the largest is meant.
    """
    sizes = []
    for experts, number, unit in _SIZE.findall(name):
        size = int(experts or 1) * float(number)
        if unit in "bB":
            sizes.append(size)
        elif size >= _FEWEST_MILLIONS:
            sizes.append(size / 1_000)
    return max(sizes, default=None) or None


def tools_for(parameters: float | None, wanted: ToolMode) -> ToolMode:
    """Return how a model of so many billion parameters is offered tools, where the settings want `wanted`."""
    too_small = parameters is not None and parameters < CALLS_TOOLS
    return "off" if wanted == "auto" and too_small else wanted


def sized(traits: Traits, parameters: float | None, tools: ToolMode) -> Traits:
    """Return the traits of a model of so many billion parameters, which is offered tools in that form.

    Where nobody knows its size, it is as large as `traits` tell.
    """
    small = traits.small if parameters is None else parameters < WHOLE_PROMPT
    return replace(traits, parameters=parameters, small=small, tools=tools != "off")


def describe(traits: Traits) -> str:
    """Describe in one line how large a model is, and what follows: `1.5B: whole prompt, no tools`."""
    size = "size unknown" if traits.parameters is None else size_label(traits.parameters)
    prompt = "short prompt" if traits.small else "whole prompt"
    return f"{size}: {prompt}, {'tools' if traits.tools else 'no tools'}"


def size_label(parameters: float) -> str:
    """Return a size as names of models have it: `135M`, `1.5B`, `70B`."""
    if parameters < 0.9995:
        return f"{parameters * 1_000:.3g}M"
    return f"{parameters:.2g}B" if parameters < 9.95 else f"{parameters:.0f}B"
