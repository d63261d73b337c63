"""`pixi-persona demo`: 25 seconds of a scripted stream, and the chat that it becomes."""

import argparse

HELP = "watch a scripted stream become a chat, for 25 seconds; needs no model"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no flags."""
    parser.description = (
        "Shows for 25 seconds what Pixi does: a stream is written on the left, and each command acts in the "
        "chat on the right when its bracket closes. The words are a script; no model, no network and no "
        "settings are needed. Any key ends it. Where the output is no terminal, the same comes at once, as "
        "plain lines."
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the demo, to the end or until a key is pressed."""
    from rich.console import Console

    from pixi.cli.demo_screen import print_plainly, show
    from pixi.cli.running import run_async

    console = Console(highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return run_async(print_plainly())
    return run_async(show(console))
