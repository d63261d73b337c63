"""Output of subcommands: lines without secrets, and a spinner while something takes long."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.core.errors import Reporter, silent
from pixi.core.masking import SecretRedactor
from pixi.core.untrusted import escaped_lines

if TYPE_CHECKING:
    from rich.console import Console

_EXTRA = re.compile(r"pip install ([\"'])pixi-persona\[([a-z]+)\]\1`?")


class Printer:
    """Prints what Pixi tells people, without secrets and escape sequences.

    What personas say, and what a command was asked to give as data (`--json`, `export`), is printed as it is.

    Hidden are the secrets of the settings, the values of environment variables whose names tell of a secret
    (an addon has keys of its own), what looks like a token, and what addresses hold of users, passwords, keys
    and signatures. Control characters are written out: an error may quote what a stranger wrote.

    Args:
        settings: all of them or a part; None where there are none yet.
        mask: hides what was learned elsewhere, too.
    """

    def __init__(self, settings: object = None, mask: SecretRedactor | None = None) -> None:
        # Imported here: the help of a command needs no settings.
        from pixi.settings.secret import ambient_secrets, secrets_in

        self._mask = mask or SecretRedactor()
        self._mask.learn(secrets_in(settings) | ambient_secrets())

    def redact(self, text: str) -> str:
        """Return the text with secrets masked and control characters escaped. Line breaks stay."""
        return escaped_lines(self._mask.redact(_with_make(text)))

    def say(self, line: str) -> None:
        """Print a line to standard output: it was asked for."""
        print(self.redact(line), flush=True)

    def complain(self, line: str, about: str = "pixi-persona") -> None:
        """Print a line to standard error, behind the name of the program or of what it is about."""
        print(self.redact(f"{about}: {line}"), file=sys.stderr, flush=True)

    def redacted(self, tell: Reporter) -> Reporter:
        """Return a `tell` whose lines are redacted first, for what another prints."""
        return lambda line: tell(self.redact(line))


def unfolded() -> "Console":
    """Return a console for lines that may be long: folded on a terminal, and left whole for a pipe."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=100_000)


def _with_make(text: str) -> str:
    """Add to `pip install "pixi-persona[NAME]"` how `make` does it, where that made this environment."""
    if "pixi-persona[" not in text:
        return text
    root = Path(sys.prefix).parent
    made = (root / "Makefile").is_file() and Path(__file__).parents[2] == root
    return _EXTRA.sub(r"\g<0> (here: make extra-\2)", text) if made else text


@contextmanager
def spinner() -> Iterator[Reporter]:
    """Show a spinner on a terminal. Gives what to tell of work that takes long; "" when nothing does."""
    if not sys.stderr.isatty():
        yield silent
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
