"""Origins of web pages, as browsers name them: scheme, host and port, and nothing else."""

import re
from urllib.parse import urlsplit

_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?")
_USUAL_PORTS = {"http": 80, "https": 443}


def origin_of(text: str) -> str | None:
    """Return an origin as browsers send it (`https://example.org`), or None if the text is none.

    A name that is not written in ASCII, `*`, `null`, a path and a user's name are no part of an origin.
    """
    if not text.isascii() or not text.isprintable():
        return None
    scheme, mark, host = text.strip().rstrip("/").partition("://")
    scheme = scheme.lower()
    try:
        parts = urlsplit(f"{scheme}://{host.lower()}")
        port = parts.port
    except ValueError:
        return None
    name = parts.netloc.removesuffix(f":{port}")
    if not mark or scheme not in _USUAL_PORTS or port == 0 or not _HOST.fullmatch(name):
        return None
    if parts.path or parts.query or parts.fragment:
        return None
    return f"{scheme}://{name}" if port in (None, _USUAL_PORTS[scheme]) else f"{scheme}://{name}:{port}"


def is_own(origin: str, host: str) -> bool:
    """Return True for the origin of a page that this server itself served. `host`: as it was asked for."""
    return bool(host) and origin.partition("://")[2] == host.lower()
