"""Hold the clock of the loop that a test runs in: what is to come due need not be waited for."""

import asyncio


def put_forward(seconds: float) -> None:
    """Put the running loop's clock forward: what comes due by then comes due at the loop's next turn."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
