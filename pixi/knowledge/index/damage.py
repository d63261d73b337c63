"""What is raised where an index cannot be used, and the door through which the library's errors become it."""

import errno

from pixi.core.errors import PixiError


class IndexDamaged(PixiError):
    """The folder holds no index that can be used: broken, of another make, or of another version of Pixi.

    Delete the folder and build the index again; nothing is lost by it.
    """


class Reading:
    """A context in which what the search library raises over broken files is `IndexDamaged`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        # The library raises ValueError for everything; over files that were tampered with, its Rust code
        # may panic, which derives from BaseException and cannot be imported.
        if kind is not None and (issubclass(kind, ValueError) or kind.__name__ == "PanicException"):
            raise IndexDamaged(f"the index cannot be read ({_brief(error)})") from error


class Writing:
    """A context in which what the search library raises while it writes is an `OSError`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None and (issubclass(kind, ValueError) or kind.__name__ == "PanicException"):
            raise OSError(errno.EIO, f"the index cannot be written: {_brief(error)}") from error


def _brief(error: BaseException | None) -> str:
    return " ".join(str(error).split())[:200]
