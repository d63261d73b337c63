"""Shows on standard error what takes long; nothing where that is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def spinner() -> Iterator[Callable[[str], None]]:
    """Gives a function to say what the program is busy with; "" when it is busy no more."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda doing: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn

    progress = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
    )
    task = progress.add_task("", visible=False)

    def show(doing: str) -> None:
        if not doing:
            progress.stop()
            return
        if not progress.live.is_started:
            progress.start()
        progress.update(task, description=escape(doing), visible=True)

    try:
        yield show
    finally:
        progress.stop()
