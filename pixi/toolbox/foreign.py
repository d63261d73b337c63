"""The border to functions that others wrote: whatever they raise comes out as one error with a name."""

import logging
from traceback import extract_tb
from types import TracebackType

from pixi.core.errors import PixiError

_log = logging.getLogger("pixi.addons")


class ForeignError(PixiError):
    """A command, a tool or an addon raised what it should not have.

    The text names the function and the type of what it raised, never that one's own text: an exception's
    text may hold a key or a path, and this one's is read by models and by strangers.
    """


class foreign:
    """Run a third-party function inside; `what` names it for people, e.g. `command 'wave'`.

    Pixi's own errors, which such a function raises on purpose, pass through.

    Raises:
        ForeignError: anything else was raised.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # One function's `exit()` must not end everybody's talk.
        if not isinstance(error, Exception | SystemExit) or isinstance(error, PixiError):
            return
        place = extract_tb(error.__traceback__)[-1]
        _log.error("%s raised %s (%s:%s)", self._what, type(error).__name__, place.filename, place.lineno)
        _log.debug("%s", self._what, exc_info=error)
        raise ForeignError(f"{self._what} failed with {type(error).__name__}.") from error
