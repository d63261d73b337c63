"""The exit codes."""

FINE = 0
FAILED = 1
USAGE = 2
"""Usage or settings: the person who started it must mend something."""

SIGNALLED = 128
"""Added to the number of the signal that ended it, as a shell would."""

INTERRUPTED = SIGNALLED + 2
PIPE_CLOSED = SIGNALLED + 13
"""The reader of our output went away."""
