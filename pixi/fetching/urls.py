"""Addresses of the web as people, pages and models write them: read once, strictly, and refused in doubt."""

import re
from ipaddress import IPv4Address, IPv6Address

from yarl import URL

from pixi.fetching.addresses import is_public
from pixi.fetching.outcome import Refused

LONGEST = 4_096
"""Characters of an address."""

PORTS = frozenset({80, 443, 8080, 8443})
"""Where pages are served. What listens elsewhere is seldom meant for everybody."""

_BROKEN = re.compile(r"[\x00-\x20\x7f-\x9f\\\u2028\u2029\ud800-\udfff]")
_AUTHORITY = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_INNER = (
    *("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan"),
    *("home.arpa", "in-addr.arpa", "ip6.arpa", "onion", "test", "invalid", "example", "alt"),
)
"""Names below these are never of the public internet, whatever a resolver here says of them."""


def parsed(text: str, *, trusted: bool = False) -> URL:
    """The address, with its host in the one form that is looked up; without a fragment.

    Args:
        text: as it was written.
        trusted: the operator wrote the host: then it may be any, at any port.

    Raises:
        Refused: it is no address of a page, or of none that strangers may name.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise Refused(f"The address is longer than {LONGEST:,} characters.")
    authority = _AUTHORITY.match(text)
    if _BROKEN.search(text) or authority is None:
        raise Refused("That is no address of a web page; it begins with http:// or https://.")
    if "@" in authority[1]:
        raise Refused("An address may not hold a user name or a password.")
    if "%" in authority[1]:
        raise Refused("The host of an address may not be written with %.")
    if not _HOST_AND_PORT.fullmatch(authority[1]):
        raise Refused("That is no address of a web page: its host cannot be read.")
    try:
        url = URL(text).with_fragment(None)
        host, port = url.raw_host, url.port
        _ = url.host  # a name that says of itself that it is encoded, and is not, cannot be shown
    except (ValueError, TypeError):
        raise Refused("That is no address of a web page: it cannot be read.") from None
    if url.scheme not in ("http", "https"):
        raise Refused("Only addresses that begin with http:// or https:// can be read.")
    if not host or not port:
        raise Refused("That is no address of a web page: its host is missing.")
    plain = _plain_host(host)
    if not trusted:
        _check_host(plain)
        if port not in PORTS:
            raise Refused(f"Pages at port {port} are not read; those of {_spoken_ports()} are.")
    return url if plain == host else url.with_host(plain)


def same_origin(one: str | URL, other: str | URL) -> bool:
    """Return True if two addresses have the same scheme, host and port.

    What an operator permits by naming an address is permitted for its origin, not for the whole host: other
    programs listen at other ports.
    """
    try:
        return URL(one).origin() == URL(other).origin()
    except (ValueError, TypeError):  # one of them cannot be read, or names no host
        return False


def joined(base: URL, location: str) -> str:
    """Where a redirect leads.

    Raises:
        Refused: it cannot be read.
    """
    location = location.strip().replace(" ", "%20")  # as browsers do
    if len(location) > LONGEST or _BROKEN.search(location):
        raise Refused("It redirects to what is no address.")
    try:
        return str(base.join(URL(location)))
    except (ValueError, TypeError):
        raise Refused("It redirects to what is no address.") from None


def _plain_host(host: str) -> str:
    """The host without the dot that may end it.

    Raises:
        Refused: it could be read in more than one way.
    """
    if ":" in host:
        try:
            return IPv6Address(host).compressed
        except ValueError:
            raise Refused("That is no address of a web page: its host cannot be read.") from None
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise Refused("That is no address of a web page: its host cannot be read.")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            IPv4Address(host)
        except ValueError:
            raise Refused("A host in numbers is written as four of them, e.g. 93.184.215.14.") from None
    return host


def _check_host(host: str) -> None:
    is_number = ":" in host or host.replace(".", "").isdecimal()
    if is_number:
        if not is_public(host):
            raise Refused(f"{host} is not on the public internet; only what is there can be read.")
    elif "." not in host or host.endswith(tuple(f".{name}" for name in _INNER)):
        raise Refused(f"{host[:80]} is not a host of the public internet; only those can be read.")


def _spoken_ports() -> str:
    *first, last = sorted(PORTS)
    return f"{', '.join(map(str, first))} and {last}"
