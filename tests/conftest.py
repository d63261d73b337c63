"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Hear Ctrl-C, as the programs that tests start must.

    A shell starts what runs in its background deaf to it, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
