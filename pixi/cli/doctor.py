"""`pixi-persona doctor`: looks at everything that a start needs, and says what is fine and what to mend."""

import argparse
from pathlib import Path

from pixi.core.errors import ConfigError

HELP = "check settings, key, model, personas, databases, store and Discord; say what to mend"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flag."""
    parser.add_argument(
        "--cluster", action="store_true", help="look at gateways, workers and their queue, too"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each finding as it is made; 1 if one of them failed."""
    from pixi.cli.running import run_async

    return run_async(_report(arguments.config, cluster=arguments.cluster))


async def _report(config: Path | None, *, cluster: bool) -> int:
    from pixi.app.doctor.checks import checks
    from pixi.app.doctor.servers import Finding
    from pixi.cli.console import Printer, spinner
    from pixi.settings import load

    try:
        settings = load(config)
    except ConfigError as error:
        for fault in error.faults:
            Printer().say(str(Finding(False, "settings", fault)))
        return 1
    fine, printer = True, Printer(settings)
    with spinner() as progress:
        for check in checks(progress, cluster=cluster):
            async for finding in check(settings):
                fine = fine and finding.ok
                printer.say(str(finding))
    return 0 if fine else 1
