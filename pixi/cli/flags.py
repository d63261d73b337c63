"""Flags and questions that several subcommands share."""

import argparse
import sys
from collections.abc import Callable

from pixi.core.errors import ConfigError


def add_model_flags(parser: argparse.ArgumentParser, persona: str) -> None:
    """Add the flags of who answers, by which model and with what; `persona` is the help of the first."""
    parser.add_argument("--persona", metavar="NAME-or-FILE", help=persona)
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="`local` (the bundled one), a .gguf file, a model at the base URL or on this machine",
    )
    parser.add_argument("--base-url", metavar="URL", help="the address of an OpenAI-compatible server")
    parser.add_argument(
        "--addon", metavar="FILE", action="append", default=[], help="a file with more commands and tools"
    )


def model_overrides(arguments: argparse.Namespace) -> dict[str, str | None]:
    """Return the settings that `add_model_flags` overrides."""
    return {
        "model.name": arguments.model,
        "model.base_url": arguments.base_url,
        "persona.default": arguments.persona,
    }


def add_json_logs(parser: argparse.ArgumentParser) -> None:
    """Add the flag for logs."""
    parser.add_argument(
        "--json-logs", action="store_true", help="log JSON on a terminal too; elsewhere it is JSON anyway"
    )


def number_to(most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from 1 to `most`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to {most}")
        return int(text)

    return read


def agreed(question: str) -> bool:
    """Ask on the terminal; return whether somebody said yes.

    Raises:
        ConfigError: nobody sits there.
    """
    if not sys.stdin.isatty():
        raise ConfigError("Nobody can be asked here: add --yes, once you have read it.")
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
