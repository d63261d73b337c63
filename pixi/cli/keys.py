"""`pixi-persona keys`: makes, lists and revokes the keys that open the HTTP server."""

import argparse
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pixi.cli.exits import FAILED, FINE
from pixi.core.errors import ConfigError
from pixi.core.untrusted import json_line

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.store.kept import ApiKey

HELP = "make, list and revoke keys for the HTTP server"

EPILOG = """\
A key is for programs that can keep it: the server of an application, a chat program.
A publishable key is for web pages: everybody can read it there, and all it does is to let visitors in, from
the pages of its origins. They talk to its personas, and nothing is changed for them.
Of each the store keeps a digest, so a key is shown once. A server that runs knows of a change at once.
A key that was revoked can be made again under its name: its users are the same people as before.

scopes:
  chat             talk to personas
  chat:on-behalf   talk for users of an application, by naming them in userId
  approve          say yes or no where a persona asks before it acts
  instruct         add the system prompt of a chat program to that of a persona
  operate          see and change what an operator does

examples:
  pixi-persona keys add shop --scopes chat,chat:on-behalf --personas pixi
  pixi-persona keys add site --publishable --origin https://example.org --personas pixi
  pixi-persona keys list
  pixi-persona keys revoke shop
"""

_SHOWN = ("name", "scopes", "personas", "origins", "created", "revoked")  # never what opens or signs


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="add|list|revoke", required=True)
    add = actions.add_parser("add", help="make a key, and show it once", allow_abbrev=False)
    add.add_argument("name", metavar="NAME", type=_name, help="small letters, digits, - and _")
    add.add_argument("--scopes", metavar="A,B", type=_scopes, help="what the key allows (default: chat)")
    add.add_argument(
        "--personas",
        metavar="X,Y",
        type=_words,
        default=(),
        help="the personas it may talk to, by the names of their files or their own (default: all)",
    )
    add.add_argument("--publishable", action="store_true", help="for web pages with visitors; needs --origin")
    add.add_argument(
        "--origin",
        metavar="URL",
        action="append",
        type=_origin,
        default=[],
        help="an origin of its pages, such as https://example.org; repeatable",
    )
    listing = actions.add_parser("list", help="show the keys, without their secrets", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    revoke = actions.add_parser("revoke", help="end a key", allow_abbrev=False)
    revoke.add_argument("name", metavar="NAME", help="of the key")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Add or revoke a key, or list them."""
    match arguments.action:
        case "add":
            return await _add(settings, arguments)
        case "revoke":
            return await _revoke(settings, arguments.name)
        case _:
            return await _list(settings, as_json=arguments.json)


def _words(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise argparse.ArgumentTypeError("it is empty; name at least one, or leave the flag out")
    return words


def _name(text: str) -> str:
    from pixi.channels.http.access import RESERVED_NAMES, is_key_name

    if text in RESERVED_NAMES:
        raise argparse.ArgumentTypeError(f"{text!r} stands for those without a key; choose another name")
    if not is_key_name(text):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} must be at most 32 small letters, digits, - and _, the first no - or _"
        )
    return text


def _scopes(text: str) -> tuple[str, ...]:
    from pixi.channels.http.access import SCOPES

    words = _words(text)
    for word in words:
        if word not in SCOPES:
            raise argparse.ArgumentTypeError(f"{word[:60]!r} is none; scopes are {', '.join(SCOPES)}")
    return words


def _origin(text: str) -> str:
    from pixi.settings.rules import origin_of

    origin = origin_of(text)
    if origin is None:
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} is no origin; write it as https://example.org, without a path"
        )
    return origin


def _check_kind(arguments: argparse.Namespace) -> None:
    """See that the flags of one kind of key are not mixed with those of the other.

    Raises:
        ConfigError: they are.
    """
    if arguments.publishable and not arguments.origin:
        raise ConfigError("keys add --publishable: say whose pages may use it: --origin https://example.org")
    if arguments.publishable and arguments.scopes:
        raise ConfigError(
            "keys add --publishable: leave out --scopes; a key that everybody can read only lets visitors in."
        )
    if arguments.origin and not arguments.publishable:
        raise ConfigError(
            "keys add --origin: add --publishable; a secret key belongs into no page, see `keys add --help`."
        )


async def _add(settings: "Settings", arguments: argparse.Namespace) -> int:
    from pixi.channels.http.access import PUBLISHABLE, SECRET, digest_of, new_key
    from pixi.cli.console import Printer
    from pixi.store.kept import ApiKey
    from pixi.store.opening import open_store

    _check_kind(arguments)
    name, public = arguments.name, arguments.publishable
    personas, missing = _files_of(arguments.personas, settings)
    secret = new_key(PUBLISHABLE if public else SECRET)
    key = ApiKey(
        name,
        digest_of(secret),
        () if public else arguments.scopes or ("chat",),
        personas,
        tuple(dict.fromkeys(arguments.origin)),
        time.time(),
        signs=secrets.token_hex(32) if public else "",
    )
    printer = Printer(settings)
    store = await open_store(settings.store.url, printer.complain)
    try:
        added = await store.add_key(key)
    finally:
        await store.close()
    if not added:
        printer.complain(f"There is a key {name!r} already: choose another name, or revoke that one first.")
        return FAILED
    print(secret)
    printer.complain(f"This is the key {name!r}; it is shown only now. {_told(key)}.")
    for fault in missing:
        printer.complain(f"The key reaches nobody by that name: {fault}")
    return FINE


def _files_of(names: Sequence[str], settings: "Settings") -> tuple[tuple[str, ...], list[str]]:
    """Return the names of personas as those of their files, and what is wrong with a name that has none.

    Such a name stays as it is: the file may come later.
    """
    from pixi.app.personas import folders_of
    from pixi.personas.files import LoadedPersona, find_persona, list_personas

    if not names:
        return (), []
    folders = folders_of(settings)
    loaded = [each for each in list_personas(folders) if isinstance(each, LoadedPersona)]
    files: list[str] = []
    missing: list[str] = []
    for name in names:
        try:
            wanted = find_persona(name, folders)
        except ConfigError as error:
            files.append(name)
            missing += error.faults
        else:
            files.append(next((each.path.stem for each in loaded if each.persona == wanted), name))
    return tuple(dict.fromkeys(files)), missing


async def _list(settings: "Settings", *, as_json: bool) -> int:
    from pixi.cli.store_access import existing_store

    async with existing_store(settings) as store:
        keys = () if store is None else await store.keys()
    if as_json:
        for key in keys:
            print(json_line({each: getattr(key, each) for each in _SHOWN}))
    elif not keys:
        print("There are no keys: make one with `pixi-persona keys add NAME`.")
    else:
        width = max(len(key.name) for key in keys)
        for key in keys:
            ended = f", revoked {_day(key.revoked)}" if key.revoked is not None else ""
            print(f"{key.name:<{width}}  {_told(key)}, made {_day(key.created)}{ended}")
    return FINE


async def _revoke(settings: "Settings", name: str) -> int:
    from pixi.cli.console import Printer
    from pixi.cli.store_access import existing_store
    from pixi.core.untrusted import escaped_line

    printer = Printer(settings)
    revoked, names = False, list[str]()
    async with existing_store(settings) as store:
        if store is not None:
            revoked = await store.revoke_key(name, time.time())
            names = [key.name for key in await store.keys() if key.revoked is None]
    if not revoked:
        mend = f"name one of {', '.join(names)}" if names else "there is none"
        printer.complain(f"No key in use is called {escaped_line(name)[:60]!r}: {mend}.")
        return FAILED
    print(f"The key {name!r} opens nothing any more.")
    return FINE


def _told(key: "ApiKey") -> str:
    """Describe what a key may do."""
    whom = ", ".join(key.personas) or "everybody"
    what = f"visitors of {', '.join(key.origins)}" if key.is_publishable else ", ".join(key.scopes)
    return f"{what}, with {whom}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
