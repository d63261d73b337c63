"""`[mcp.NAME]` as the place where a server is; refused where it is none."""

from importlib.util import find_spec
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.mcp.lock import FILE_NAME, LockFile
from pixi.mcp.where import NetworkServer, Program, Where
from pixi.settings import McpSettings, Settings

_OF_A_COMMAND = ("args", "env", "folder")
_OF_A_URL = ("headers", "type")


def require_sdk() -> None:
    """See that the SDK is installed.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("mcp") is None:
        raise ConfigError('[mcp.NAME] needs the MCP SDK: pip install "pixi-persona[mcp]"')


def lock_of(settings: Settings) -> LockFile:
    """The lock file, which lies beside the settings file."""
    return LockFile((settings.origin or Path(FILE_NAME)).with_name(FILE_NAME))


def places(settings: Settings) -> dict[str, Where]:
    """Where each server is, by the names of their sections.

    Raises:
        ConfigError: a section cannot hold.
    """
    return {name: _place(f"[mcp.{name}]", its) for name, its in settings.mcp.items()}


def _place(title: str, its: McpSettings) -> Where:
    if its.command and its.url:
        raise ConfigError(f"{title} has a command and a url: it is one server, so keep one of them.")
    if its.command:
        _refuse_others(title, its, _OF_A_URL, "url")
        env = {name: secret.reveal() for name, secret in its.env.items()}
        return Program(its.command, its.args, env, its.folder)
    if not its.url:
        mend = "; type is about a url" if its.type != McpSettings().type else ""
        raise ConfigError(f"{title} has neither a command nor a url: add one of them{mend}.")
    _refuse_others(title, its, _OF_A_COMMAND, "command")
    for name, secret in its.headers.items():
        text = secret.reveal()
        if not (name.isascii() and text.isascii() and name.isprintable() and text.isprintable()):
            raise ConfigError(f"{title} headers: {name!r} holds what no header may; look for a line break.")
    return NetworkServer(
        its.url, its.type == "sse", {name: secret.reveal() for name, secret in its.headers.items()}
    )


def _refuse_others(title: str, its: McpSettings, keys: tuple[str, ...], home: str) -> None:
    for key in keys:
        if getattr(its, key) != getattr(McpSettings(), key):
            raise ConfigError(
                f"{title} {key} is for a server with a {home}, which this one has not: remove it."
            )
