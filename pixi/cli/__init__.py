"""The command line: the only place that reads argv, and the end of every error that gets that far."""

import os
import signal
import sys

from pixi.cli.exits import INTERRUPTED


def main() -> int:
    """Run the command line of this process and give its exit code: the console script.

    Ctrl-C ends the process at once, as long as nothing is open that must be closed: amid an import, a
    `KeyboardInterrupt` may be raised anywhere, be lost there, or come out as another error. Subcommands that
    have something open handle Ctrl-C, see `pixi.cli.running`. All else is imported inside, after that.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        from pixi.cli.frame import prepare, run

        mask = prepare(debug="--debug" in sys.argv)
        return run(sys.argv[1:], mask)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        _shut_quietly()


def _shut_quietly() -> None:
    """Shut down in silence: output that nobody reads is not worth a word."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # The bytes that could not be written stay in the buffer, and Python tries them again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
