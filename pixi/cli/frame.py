"""The frame of the command line: one table of subcommands, their help, and what an error looks like."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from logging import Formatter, LogRecord
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from pixi.cli.console import Printer
from pixi.cli.exits import FAILED, FINE, INTERRUPTED, PIPE_CLOSED, USAGE
from pixi.core.errors import ConfigError, PixiError
from pixi.core.masking import SecretRedactor
from pixi.core.untrusted import escaped_lines

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

PROGRAM = "pixi-persona"

SUBCOMMANDS = (
    "demo",
    "chat",
    "discord",
    "gateway",
    "worker",
    "serve",
    "search",
    "query",
    "databases",
    "personas",
    "models",
    "mcp",
    "keys",
    "companion",
    "drafts",
    "audit",
    "usage",
    "forget",
    "export",
    "store",
    "approve",
    "parse",
    "init",
    "doctor",
)
"""Each is a module beside this one. It is imported when it is chosen, or for its line in the help."""


class Subcommand(Protocol):
    """Interface of a subcommand's module, which imports what is heavy inside its functions.

    EPILOG: examples, below the flags in its help; it may be missing.
    run: does it, and returns the exit code. A subcommand that needs settings may have the coroutine function
        `work(settings, arguments)` in its place.
    """

    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add its flags."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; gives the exit code."""
        ...


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are two lines: what is wrong, and where the help is."""

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print as argparse does, but do not pass over a closed pipe or a full disk."""
        if message and file is not None:
            file.write(message)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n`{self.prog} --help` shows how it is used.\n")


class _MainParser(_Parser):
    """The parser in front of the subcommands. Only its help needs all of them imported."""

    def format_help(self) -> str:
        width = max(map(len, SUBCOMMANDS))
        lines = [f"  {name:<{width}}  {load(name).HELP}" for name in SUBCOMMANDS]
        hint = f"`{PROGRAM} COMMAND --help` describes each command."
        self.epilog = "\n".join(["commands:", *lines, "", hint])
        return super().format_help()


def prepare(*, debug: bool) -> SecretRedactor:
    """Set up what this process shows of errors: a line, or with `debug` a traceback and the log.

    Return what hides secrets in both; it must be told of them, see `SecretRedactor.learn`.
    """
    import logging

    _open_closed_streams()
    mask = SecretRedactor()
    if debug:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_RedactingFormatter(mask))
        sys.excepthook = partial(_traceback, mask)
    else:
        # Without any handler Python would print warnings of libraries amid the talk.
        logging.getLogger().addHandler(logging.NullHandler())
        sys.excepthook = partial(_one_line, mask)
    return mask


def run(words: Sequence[str], mask: SecretRedactor | None = None) -> int:
    """Run the command line `words` (without the program's name); gives the exit code.

    0 fine, 1 it failed while running, 2 usage or settings, 130 Ctrl-C (0 for a
    subcommand that serves until it is stopped), 141 the output's reader went away.

    Args:
        words: of the command line.
        mask: is told of the secrets in the settings before anything is shown that may hold one.
    """
    _speak_utf8()
    mask = mask or SecretRedactor()
    arguments = argparse.Namespace(debug=False, config=None)
    try:
        code = _dispatch(words, arguments, mask)
        sys.stdout.flush()  # here, where it is told if that fails, and told once
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    except (PixiError, OSError) as error:
        _teach(mask, arguments)
        if arguments.debug:
            raise
        Printer(mask=mask).complain(_said(error))
        return USAGE if isinstance(error, ConfigError) else FAILED
    except BaseException:
        _teach(mask, arguments)
        raise


def _teach(mask: SecretRedactor, arguments: argparse.Namespace) -> None:
    """Have the mask hide the secrets of the settings, as far as they can be read."""
    from pixi.settings import load as load_settings
    from pixi.settings.secret import ambient_secrets, secrets_in

    mask.learn(secrets_in(getattr(arguments, "base_url", None)) | ambient_secrets())
    with suppress(ConfigError):
        mask.learn(secrets_in(load_settings(arguments.config)))


def _said(error: PixiError | OSError) -> str:
    if isinstance(error, PixiError) or not error.strerror:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}."


def _dispatch(words: Sequence[str], arguments: argparse.Namespace, mask: SecretRedactor) -> int:
    try:
        parser = _main_parser()
        parser.parse_args(words, namespace=arguments)
        if arguments.version:
            print(_version())
            return FINE
        if not arguments.words:
            parser.print_help(sys.stderr)
            return USAGE
        name, *rest = arguments.words
        if name not in SUBCOMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(name, SUBCOMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            parser.error(f"there is no command {name!r}.{hint}")
        subcommand = load(name)
        own = _Parser(prog=f"{PROGRAM} {name}", description=subcommand.HELP, allow_abbrev=False)
        own.epilog = getattr(subcommand, "EPILOG", None)
        if own.epilog:
            own.formatter_class = argparse.RawDescriptionHelpFormatter
        subcommand.configure(own)
        _add_common(own, default=argparse.SUPPRESS)
        own.parse_args(rest, namespace=arguments)
        if arguments.debug:  # then the log is shown
            _teach(mask, arguments)
        if work := getattr(subcommand, "work", None):
            from pixi.cli.running import run_async
            from pixi.settings import load as load_settings

            return run_async(work(load_settings(arguments.config), arguments))
        return subcommand.run(arguments)
    except SystemExit as done:  # how argparse says that it has answered: help, version, a usage error
        return done.code if isinstance(done.code, int) else FINE


def load(name: str) -> Subcommand:
    """Return the module of a subcommand."""
    return cast(Subcommand, importlib.import_module(f"pixi.cli.{name}"))


def _main_parser() -> argparse.ArgumentParser:
    parser = _MainParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--config FILE] [--debug] COMMAND ...",
        description="Characters that live in a chat, and act while they are still writing.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_common(parser, default=None)
    parser.add_argument("--version", action="store_true", help="show the version and leave")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_common(parser: argparse.ArgumentParser, *, default: str | None) -> None:
    """Add the flags that stand before or after the subcommand's name."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=lambda file: Path(file) if file else None,
        default=default,
        help="the settings (default: ./pixi.toml, if there)",
    )
    parser.add_argument(
        "--debug", action="store_true", default=default or False, help="show the traceback of an error"
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{PROGRAM} {version(PROGRAM)}"
    except PackageNotFoundError:
        return f"{PROGRAM} (not installed: run from its source)"


def _open_closed_streams() -> None:
    """Replace streams that were closed by the caller (`<&-`): they are empty, or swallow what is written.

    Else its number would go to the next file that is opened, and the loop's library ends the program.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode, flags = ("r", os.O_RDONLY) if number == 0 else ("w", os.O_WRONLY)
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def _speak_utf8() -> None:
    """Let no stream fail on a character that it cannot show: replies hold any script and emoji."""
    for stream in (sys.stdout, sys.stderr):
        # A pipe gets UTF-8 wherever it is; a terminal keeps the encoding that it was set up with.
        if not hasattr(stream, "reconfigure"):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="replace")


class _RedactingFormatter(Formatter):
    """Format lines of the log, and tracebacks below them, without secrets and escape sequences."""

    def __init__(self, mask: SecretRedactor) -> None:
        super().__init__("%(name)s: %(message)s")
        self._mask = mask

    def format(self, record: LogRecord) -> str:
        return escaped_lines(self._mask.redact(super().format(record)))


def _traceback(
    mask: SecretRedactor, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an error in full."""
    from traceback import format_exception

    sys.stderr.write(escaped_lines(mask.redact("".join(format_exception(kind, error, trace)))))


def _one_line(
    mask: SecretRedactor, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an error that nobody foresaw as one line."""
    text = mask.redact(" ".join(str(error).split()))[:300]
    said = f"{kind.__name__}: {text}" if text else kind.__name__
    Printer(mask=mask).complain(f"this should not have happened: {said} (--debug shows where)")
