"""What a helper model is asked: the prompts, the form of the reply, and the asking itself."""

from collections.abc import Callable
from contextlib import aclosing
from functools import cache
from importlib import resources

from pixi.core.deltas import Delta, Finished, Request, Text
from pixi.core.errors import ModelError
from pixi.core.lines import SystemLine, UserLine
from pixi.core.prompt import fill
from pixi.core.spending import Count, counted
from pixi.knowledge.retrieval.replies import LONGEST_REPLY
from pixi.models.model import Model

MOST_FACTS = 10
"""That are given back."""

_FACT_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "fact": {"type": "string"},
        "source": {"type": "integer"},
        "confidence": {"type": "number"},
    },
    "required": ["fact", "source", "confidence"],
    "additionalProperties": False,
}
READ_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"relevant": {"type": "array", "items": _FACT_SCHEMA}},
    "required": ["relevant"],
    "additionalProperties": False,
}
CHOOSE_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"keep": {"type": "array", "items": {"type": "integer"}}},
    "required": ["keep"],
    "additionalProperties": False,
}


@cache
def prompt(name: str) -> str:
    """A prompt that a helper is told in: `read` or `choose`."""
    text = resources.files("pixi.knowledge.retrieval").joinpath("prompts", f"{name}.md").read_text("utf-8")
    return fill(text.strip(), {"facts": str(MOST_FACTS)})


async def ask(
    model: Model,
    instruction: str,
    told: str,
    schema: dict[str, object],
    count: Count | None = None,
    *,
    heard: Callable[[Delta], None] = lambda _: None,
) -> str:
    """Return what the helper answers, as far as anybody would read it.

    Args:
        model: the helper.
        instruction: the same for every question, so that the server reads it once.
        told: what the helper is shown; what changes from question to question stands last in it.
        schema: of the reply.
        count: told what it used.
        heard: called with each delta: `PromptProgress` while the prompt is read, then those of the reply.

    Raises:
        ModelError: it could not be asked, or broke off.
    """
    pieces: list[str] = []
    length = 0
    request = Request((SystemLine(instruction), UserLine(told)), schema=schema)
    finished, failed = Finished(), False
    try:
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                heard(delta)
                if isinstance(delta, Finished):
                    finished = delta
                elif isinstance(delta, Text):
                    pieces.append(delta.text)
                    length += len(delta.text)
                    if length > LONGEST_REPLY:
                        break
    except ModelError:
        failed = True
        raise
    finally:
        if count is not None:
            used = counted(finished, request, length, failed=failed)
            prices = used.prices if used.model else model.traits.prices
            count(used.model or model.name, used.usage, prices)
    return "".join(pieces)
