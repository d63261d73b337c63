"""The command line: the only place that reads argv, and the end of every error that gets that far."""

import sys

from pixi.cli.exits import INTERRUPTED


def main() -> int:
    """Run the command line of this process and give its exit code: the console script.

    All else is imported inside, so that Ctrl-C is quiet from the first moment on.
    """
    try:
        from pixi.cli.frame import prepare, run

        mask = prepare(debug="--debug" in sys.argv)
        return run(sys.argv[1:], mask)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        _shut_quietly()


def _shut_quietly() -> None:
    """Shut down in silence: neither a second Ctrl-C nor output that nobody reads is worth a word."""
    import os
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # The bytes that could not be written stay in the buffer, and Python tries them again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
