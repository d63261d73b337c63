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
    from rich.table import Column

    console = Console(stderr=True)
    # In two rows where need be, neither of them full: what the terminal itself writes of Ctrl-C has room.
    room = Column(overflow="fold", max_width=max(1, console.width - 5))
    doing = TextColumn("{task.description}", table_column=room)
    progress = Progress(SpinnerColumn(), doing, console=console, transient=True)
    task = progress.add_task("", visible=False)

    def show(line: str) -> None:
        if not line:
            progress.stop()
            return
        if not progress.live.is_started:
            progress.start()
        progress.update(task, description=escape(line), visible=True)

    try:
        yield show
    finally:
        progress.stop()
