"""Where a PostgreSQL database is, and its faults in words."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from urllib.parse import unquote
from zlib import crc32

import psycopg
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pixi.core.errors import ConfigError, StoreError

SCHEMA = "pixi"
"""The schema that holds the tables, where the URL names no other."""

_PATIENCE: Mapping[str, str | int | None] = {
    # A server that cannot be reached is noticed within half a minute, also when nothing says so.
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a schema on a server.

    Attributes:
        conninfo: for the driver; may hold a password.
        secret: the password, to be kept out of what people are told; "" where there is none.
        schema: which holds the tables.
        name: what people are told.
        label: the name of its connections for whoever looks at the server: the version of Pixi, and a mark of
            the schema, which the server does not tell of a connection.
    """

    conninfo: str = field(repr=False)
    secret: str = field(repr=False)
    schema: str
    name: str
    label: str

    @property
    def signals(self) -> str:
        """Return the channel of the server on which processes of this schema tell each other something."""
        return f"pixi_{crc32(self.schema.encode()):08x}"

    def __str__(self) -> str:
        return self.name


def read_address(url: str, part: str = "") -> Address:
    """Read `postgresql://user:password@host:port/database?schema=name`; everything may be left out.

    What else stands after the question mark is the driver's: `sslmode` and the like.

    Args:
        url: of the settings.
        part: of the program that connects, e.g. `worker`: its connections are named so, with the time of now;
            "": they are not.

    Raises:
        ConfigError: it is none, or the schema has no fit name. Nothing of the URL is shown.
    """
    url, _, query = url.partition("?")
    options = query.split("&")
    schemas = [unquote(option.partition("=")[2]) for option in options if option.startswith("schema=")]
    schema = schemas[-1] if schemas else SCHEMA
    if not re.fullmatch(r"(?!pg_)[a-z_][a-z0-9_]{0,62}", schema):
        raise ConfigError("[store] url: schema= must be a name of small letters, digits and _.")
    others = "&".join(option for option in options if not option.startswith("schema="))
    parts = _parts(f"{url}?{others}" if others else url)
    place = _place(parts)
    if schema != SCHEMA:
        place += f"{'&' if '?' in place else '?'}schema={schema}"
    label = f"pixi {version('pixi-persona')} {crc32(schema.encode()):08x}"
    name = f"{label} {part} {time.time():.0f}" if part else label
    conninfo = make_conninfo("", **{**_PATIENCE, "application_name": name, **parts})
    return Address(conninfo, str(parts.get("password") or ""), schema, place, label)


def _parts(url: str) -> dict[str, str | int | None]:
    try:
        parts = dict(conninfo_to_dict(url))
    except ProgrammingError:
        parts = {"host": "@"}
    ports = str(parts.get("port") or "0").split(",")
    # A password with one of these signs in it is taken for a part of the rest.
    mixed = any("@" in str(parts.get(name) or "") for name in ("host", "dbname", "user"))
    if mixed or not all(port.isdecimal() for port in ports):
        raise ConfigError(
            "[store] url cannot be read; write postgresql://user:password@host:5432/database, "
            "and in a password %40 for @, %2F for /, %3A for :, %3F for ?, %23 for #, %25 for %."
        )
    return parts


def _place(parts: dict[str, str | int | None]) -> str:
    host, port = str(parts.get("host") or "localhost"), str(parts.get("port") or "5432")
    database = parts.get("dbname") or parts.get("user") or ""
    if host.startswith("/"):  # a socket of this machine
        return f"postgresql:///{database}?host={host}".removesuffix("?host=")
    return f"postgresql://{host}:{port}/{database}"


_DENIED = "the server does not accept this user and password; mend them in [store] url"
_NOBODY = "no server answers there; start it, or mend the host and port in [store] url"
_NOT_READY = "the server is starting or stopping; try again in a moment"
_ENDED = "the server ended the connection again and again; its log tells why"
_FULL_HOUSE = "the server takes no more connections; close some, or raise its max_connections"

_BY_CODE = {
    "25006": "the server may only be read; name the one that is written to in [store] url",
    "28000": _DENIED,
    "28P01": _DENIED,
    "3D000": "there is no such database; make it (`createdb NAME`), or mend its name in [store] url",
    "3F000": "the user may not make tables in that schema; let them, or name another in [store] url",
    "53100": "the server's disk is full; nothing is saved until there is room",
    "53200": "the server has no memory left; nothing is saved until it has",
    "53300": _FULL_HOUSE,
    "55P03": "another program kept it locked; stop that program, or name another store in [store] url",
    "57P01": _ENDED,
    "57P02": _ENDED,
    "57P03": _NOT_READY,
    "58030": "the server's disk refused to read or write; see that it is well and has room",
    "XX001": "it is damaged and was left as it is; put a backup in its place",
    "XX002": "it is damaged and was left as it is; put a backup in its place",
}
# What is said before there is a connection comes without a code, and most often in English.
_BY_WORDS = {
    "stopped answering": "the server said nothing for long: it stands still, or other processes keep locked "
    "what is needed here; pg_stat_activity tells which",
    "pg_hba.conf": "the server lets nobody in from here; mend its pg_hba.conf",
    "starting up|shutting down|recovery": _NOT_READY,
    "too many|connection slots": _FULL_HOUSE,
    'password|role ".*" does not exist': _DENIED,
    'database ".*" does not exist': _BY_CODE["3D000"],
    "resolve host": "no host of that name is known; mend it in [store] url",
    "refused|No such file|time|unreachable|No route": _NOBODY,
    "SSL": "the server does not speak TLS as `sslmode` in [store] url asks",
}
_LOST = frozenset({"25P03", "57P01", "57P02", "57P03", "57P05"})


def is_lost(error: psycopg.Error) -> bool:
    """Return True if the connection went with the error."""
    code = error.sqlstate or ""
    return code in _LOST or code.startswith("08")


def is_locked(error: psycopg.Error) -> bool:
    """Return True if another connection held a lock for longer than we wait."""
    return error.sqlstate == "55P03"


def is_deadlock(error: psycopg.Error) -> bool:
    """Return True if two connections waited for each other, and this one was told to give way."""
    return error.sqlstate == "40P01"


def is_not_ready(error: psycopg.Error) -> bool:
    """Return True if the server is about to take connections."""
    return _mend(error) == _NOT_READY


def store_error(error: Exception, address: Address) -> StoreError:
    """Return the error of a call."""
    return StoreError(_text(error, address))


def opening_error(error: Exception, address: Address) -> ConfigError:
    """Return the error of connecting, or of making the tables."""
    return ConfigError(_text(error, address))


def _text(error: Exception, address: Address) -> str:
    mend = _mend(error) if isinstance(error, psycopg.Error) else None
    lines = str(error).splitlines() or [type(error).__name__]
    told = mend or lines[0].strip().rstrip(".")
    if address.secret:
        told = told.replace(address.secret, "…")
    return f"The store {address}: {told}."


def _mend(error: psycopg.Error) -> str | None:
    if error.sqlstate == "42501":
        return f"{error.diag.message_primary}; grant it to the user, or name another in [store] url"
    if error.sqlstate:
        return _BY_CODE.get(error.sqlstate)
    if not isinstance(error, psycopg.OperationalError):
        return None
    for words, mend in _BY_WORDS.items():
        if re.search(words, str(error)):
            return mend
    return None
