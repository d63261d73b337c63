"""Starts the program many times a second: a process that has imported it already forks a copy for each start.

Each line of standard input is a JSON object with `command` (a subcommand and its flags), `folder`, `environ`
and `log`; the number of the new process is written back. What runs in the copy is the console script itself,
from its first line on.
"""

import asyncio
import faulthandler
import json
import os
import signal
import sys
from importlib import import_module

_IMPORTED = (
    "aiohttp",
    "discord",
    "discord.app_commands",
    "pixi.addons.loading",
    "pixi.app",
    "pixi.app.service",
    "pixi.channels.discord.bot",
    "pixi.cli.discord",
    "pixi.engine.engine",
    "pixi.models.server_model",
    "pixi.store.sqlite",
    "uvloop",
)


def main() -> None:
    """Import what the program imports, then fork until the input ends."""
    for name in _IMPORTED:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the copies: none stays as a zombie
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if not child:
            _become(wanted)
        print(child, flush=True)


def _become(wanted: dict[str, object]) -> None:
    """Be the program, in its folder, and end with its exit code."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.chdir(str(wanted["folder"]))
        environ = wanted["environ"]
        assert isinstance(environ, dict)
        os.environ.clear()
        os.environ.update({str(name): str(value) for name, value in environ.items()})
        log = os.open(str(wanted["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, target)
        command = wanted["command"]
        assert isinstance(command, list)
        signal.signal(signal.SIGUSR1, _tell_where)
        sys.argv = ["pixi-persona", *map(str, command)]
        from pixi.cli import main as program

        code = program()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _tell_where(*_: object) -> None:
    """Write into the log what each thread and each task does just now."""
    faulthandler.dump_traceback(sys.stderr)
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()


if __name__ == "__main__":
    main()
