"""What a PostgreSQL server complains of, in the operator's words."""

import re

import psycopg

from pixi.core.errors import ConfigError, StoreError
from pixi.store.postgres.address import Address

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
    """Whether the connection went with it."""
    code = error.sqlstate or ""
    return code in _LOST or code.startswith("08")


def is_locked(error: psycopg.Error) -> bool:
    """Whether another connection held a lock for longer than we wait."""
    return error.sqlstate == "55P03"


def is_not_ready(error: psycopg.Error) -> bool:
    """Whether the server is about to take connections."""
    return _mend(error) == _NOT_READY


def store_error(error: Exception, address: Address) -> StoreError:
    """The error of a call."""
    return StoreError(_text(error, address))


def opening_error(error: Exception, address: Address) -> ConfigError:
    """The error of connecting, or of making the tables."""
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
    return next((mend for words, mend in _BY_WORDS.items() if re.search(words, str(error))), None)
