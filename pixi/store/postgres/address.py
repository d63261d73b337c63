"""Where a PostgreSQL store is: its URL read, and a name for it that gives no password away."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pixi.core.errors import ConfigError

SCHEMA = "pixi"
"""The schema that holds the tables, where the URL names no other."""

_PATIENCE: Mapping[str, str | int | None] = {
    # A server that cannot be reached is noticed within half a minute, also when nothing says so.
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
    "application_name": "pixi",
}


@dataclass(frozen=True, slots=True)
class Address:
    """What is needed to connect.

    Attributes:
        conninfo: for the driver; may hold a password.
        secret: the password, to be kept out of what people are told; "" where there is none.
        schema: which holds the tables.
        name: what people are told.
    """

    conninfo: str = field(repr=False)
    secret: str = field(repr=False)
    schema: str
    name: str

    def __str__(self) -> str:
        return self.name


def read_address(url: str) -> Address:
    """Read `postgresql://user:password@host:port/database?schema=name`; everything may be left out.

    What else stands after the question mark is the driver's: `sslmode` and the like.

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
    conninfo = make_conninfo("", **{**_PATIENCE, **parts})
    return Address(conninfo, str(parts.get("password") or ""), schema, place)


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
