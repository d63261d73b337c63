"""`pixi-persona approve`: shows what changed of an MCP server, command or tools, and asks for consent."""

import argparse
from typing import TYPE_CHECKING

from pixi.cli.exits import FAILED, FINE
from pixi.cli.flags import agreed

if TYPE_CHECKING:
    from pixi.core.errors import Reporter
    from pixi.mcp.offers import LockFile, Where
    from pixi.settings import Settings

HELP = "agree to what changed of an MCP server: its command, or the description of a tool"

EPILOG = """\
What each MCP server runs, and what it says of its tools, is kept in mcp.lock.json beside the settings. What
is another one than before is not used, until somebody saw it here and said yes. A chat or a bot that runs
takes it up by itself. Servers are started to be asked for their tools, but only as they were approved.

examples:
  pixi-persona approve
  pixi-persona approve time --yes
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="the NAME of [mcp.NAME] (default: each server that waits)"
    )
    parser.add_argument("--yes", action="store_true", help="approve without asking")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Show what waits, one server after the other; 1 if something was not approved."""
    from pixi.app.mcp_integration import lock_of, require_sdk, server_addresses
    from pixi.cli.console import Printer
    from pixi.core.errors import ConfigError, PixiError
    from pixi.settings.values import nearest

    wheres, printer = server_addresses(settings), Printer(settings)
    for name in arguments.names:
        if name not in wheres:
            raise ConfigError(f"there is no [mcp.{name}] in the settings{nearest(name, wheres)}")
    if not wheres:
        print("There is no MCP server in the settings.")
        return FINE
    require_sdk()
    fine = True
    for name in arguments.names or wheres:
        try:
            lock = lock_of(settings)
            fine = await _approve(name, wheres[name], lock, printer.say, sure=arguments.yes) and fine
        except ConfigError:
            raise
        except PixiError as error:
            printer.complain(f"cannot be asked for its tools: {error}.", about=name)
            fine = False
    return FINE if fine else FAILED


async def _approve(name: str, where: "Where", lock: "LockFile", say: "Reporter", *, sure: bool) -> bool:
    """Return whether nothing of a server waits any more."""
    from pixi.app.mcp_integration import changed_tools, told_changes
    from pixi.mcp.offers import visible

    approved = await lock.approved(name)
    if approved is None:
        say(f"{name}: was never started, so that nothing waits.")
        return True
    if approved.mark != where.mark:
        say(f"{name}: it is another one than was approved.")
        say(f"  approved  {visible(approved.shown)}")
        say(f"  now       {where.shown}")
        if not (sure or agreed("Run it from now on?")):
            say(f"{name}: left as it was.")
            return False
        await lock.approve(name, where)
    changed = await changed_tools(name, where, approved)
    for tool in changed:
        say(f"{name}: its tool {visible(tool.name)} is described otherwise.")
        for line in told_changes(tool, approved):
            say(line)
    if changed and not (sure or agreed("Use it so from now on?")):
        say(f"{name}: left as it was.")
        return False
    await lock.approve(name, where, changed)
    waited = changed or approved.mark != where.mark
    say(f"{name}: approved." if waited else f"{name}: nothing waits.")
    return True
