"""The border to functions that others wrote: whatever they raise comes out as one error with a name."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import extract_tb

from pixi.core.errors import PixiError

_log = logging.getLogger("pixi.addons")


class ForeignError(PixiError):
    """A command, a tool or an addon raised what it should not have.

    The text names the function and the type of what it raised, never that one's own text: an exception's
    text may hold a key or a path, and this one's is read by models and by strangers.
    """


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Run a third-party function inside; `what` names it for people, e.g. `command 'wave'`.

    Pixi's own errors, which such a function raises on purpose, pass through.

    Raises:
        ForeignError: anything else was raised.
    """
    try:
        yield
    except PixiError:
        raise
    except (Exception, SystemExit) as error:  # one function's `exit()` must not end everybody's talk
        place = extract_tb(error.__traceback__)[-1]
        _log.error("%s raised %s (%s:%s)", what, type(error).__name__, place.filename, place.lineno)
        _log.debug("%s", what, exc_info=error)
        raise ForeignError(f"{what} failed with {type(error).__name__}.") from error
