"""Makes a request fit a model that holds less than the one it was written for."""

from dataclasses import replace

from pixi.core.llm import Request, SystemLine, UserLine, estimate, estimate_all, estimate_tools, shortened

_SPARE = 0.25  # of the context, for the reply
_SHORTEST = 64  # tokens that are left of a user line, fit or not


def fitted(request: Request, context_tokens: int) -> Request:
    """Return the request with the oldest turns left out, as many as it takes, by estimate.

    What the persona is told stays, and so does the last turn; of a user line in it that is too long by itself
    the middle is left out.
    """
    room = int(context_tokens * (1 - _SPARE)) - estimate_tools(request.tools)
    lines = request.lines
    start = next((at for at, line in enumerate(lines) if not isinstance(line, SystemLine)), len(lines))
    prefix, turns = lines[:start], lines[start:]
    room -= estimate_all(prefix)
    size = estimate_all(turns)
    begins = [at for at, line in enumerate(turns) if at and isinstance(line, UserLine)]
    cut = 0
    for begin in begins:
        if size <= room:
            break
        size -= estimate_all(turns[cut:begin])
        cut = begin
    turns = turns[cut:]
    if turns and size > room and isinstance(said := turns[0], UserLine):
        left = max(room - (size - estimate(said)), _SHORTEST)
        turns = (shortened(said, left), *turns[1:])
    return replace(request, lines=(*prefix, *turns))
