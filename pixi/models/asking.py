"""Asks a model for one whole answer, and counts what that took."""

from collections.abc import Callable
from contextlib import aclosing

from pixi.core.errors import ModelError
from pixi.core.llm import Delta, Finished, Request, Text
from pixi.core.spending import Count, counted
from pixi.models.model import Model


async def ask(
    model: Model,
    request: Request,
    count: Count | None,
    *,
    longest: int,
    heard: Callable[[Delta], object] = lambda delta: None,
    enough: Callable[[str, list[str]], bool] = lambda piece, pieces: False,
) -> str:
    """Return what a model answers, as far as anybody would read it.

    Args:
        model: the one that is asked.
        request: what it is asked.
        count: told what that used.
        longest: characters after which the rest is not waited for.
        heard: called with each delta.
        enough: returns True, of the last piece and all pieces of the answer, where the rest is not wanted.

    Raises:
        ModelError: it could not be asked, or broke off.
    """
    pieces: list[str] = []
    length, finished, failed = 0, Finished(), False
    try:
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                heard(delta)
                if isinstance(delta, Finished):
                    finished = delta
                elif isinstance(delta, Text):
                    pieces.append(delta.text)
                    length += len(delta.text)
                    if length > longest or enough(delta.text, pieces):
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
