"""Links to maps, and the places that they mean.

A link of Google Maps holds several positions. `!3dLAT!4dLNG` is the place, `@LAT,LNG` only the window in
which it is shown, which may be a kilometre off; in embedded maps `!2dLNG!3dLAT` comes the other way round.
Apple has `ll`, `coordinate` and `address`, OpenStreetMap `mlat` and `mlon`, and RFC 5870 `geo:LAT,LNG`.

A short link holds nothing: it is followed by its redirects alone, through the guard that keeps private
networks out, as long as they stay with the services that make such links. No page is read. Those of
OpenStreetMap are the exception: they hold the place.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, unquote_plus, urlsplit

from yarl import URL

from pixi.companion.data import LONGEST_LINK, LONGEST_NAME, CompanionError, one_line, wrong_coordinates
from pixi.fetching.web import Web, WebError

_NUMBER = r"[-+]?\d{1,3}(?:\.\d{1,15})?"
_PAIR = re.compile(rf"\s*(?:loc:)?\s*({_NUMBER})\s*[,\s]\s*({_NUMBER})\s*")
_DEGREES = re.compile(
    r"\s*(\d{1,3})°\s*(\d{1,2})['′]\s*(\d{1,2}(?:\.\d{1,9})?)[\"″]\s*([NS])[\s,]*"
    r"(\d{1,3})°\s*(\d{1,2})['′]\s*(\d{1,2}(?:\.\d{1,9})?)[\"″]\s*([EW])\s*"
)
_PLACE = re.compile(rf"!3d({_NUMBER})!4d({_NUMBER})")
_EMBEDDED = re.compile(rf"!2d({_NUMBER})!3d({_NUMBER})")
_WINDOW = re.compile(rf"/@({_NUMBER}),({_NUMBER})")
_FRAGMENT = re.compile(rf"map=\d{{1,2}}(?:\.\d+)?/({_NUMBER})/({_NUMBER})")
_GEO = re.compile(rf"geo:({_NUMBER}),({_NUMBER})[^?]*(?:\?(.*))?", re.IGNORECASE)
_LABEL = re.compile(r"\(([^)]*)\)\s*$")
_GOOGLE = re.compile(r"(?:(?:www|maps)\.)?google\.(?:[a-z]{2,3}|com?\.[a-z]{2})")
_APPLE = frozenset({"maps.apple.com", "beta.maps.apple.com", "maps.apple", "www.maps.apple"})
_OPEN_STREET_MAP = frozenset({"openstreetmap.org", "www.openstreetmap.org", "osm.org", "www.osm.org"})
_OSM_SHORT = re.compile(r"/go/([A-Za-z0-9_@~]{1,12})[-=]*")
_OSM_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@"
_SECONDS = 8.0
_WORD = re.compile(r"(?:https?://|geo:)[^\s<>\"'\x00-\x1f]{1,2000}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MapLink:
    """Meaning of a link to a map.

    Attributes:
        url: the link.
        latitude, longitude: of the place, or else of the window; None: the link has none.
        name: of the place, or its address; "": the link has none.
    """

    url: str
    latitude: float | None = None
    longitude: float | None = None
    name: str = ""


def find_map_link(text: str) -> str:
    """Return the first link to a map that a text holds; "": there is none."""
    for found in _WORD.findall(text):
        link = found.rstrip(".,;:!?)]}…")
        if "(" in link[link.rfind(")") + 1 :] and found[len(link) :].startswith(")"):
            link += ")"  # a name in brackets, which is a part of the link
        if is_map_link(link):
            return str(link)
    return ""


def is_map_link(link: str) -> bool:
    """Return True for a link of a map service, be it a short one, and for `geo:`."""
    return bool(_GEO.fullmatch(link)) or _is_short(link) or _service_of(link) != ""


def read_map_link(link: str) -> MapLink:
    """Return what a link means that is no short one.

    Raises:
        CompanionError: it is no link to a map, shows no place, or its coordinates cannot be.
    """
    link = link.strip()
    if len(link) > LONGEST_LINK:
        raise CompanionError(f"The maps link has {len(link)} characters: {LONGEST_LINK} is the most.")
    if geo := _GEO.fullmatch(link):
        return _checked(_of_geo(link, geo))
    match _service_of(link):
        case "google":
            return _checked(_of_google(link))
        case "apple":
            return _checked(_of_apple(link))
        case "osm":
            return _checked(_of_open_street_map(link))
    raise CompanionError(
        f"{one_line(link)[:100]!r} is no link to a map that can be read: give one of Google Maps, Apple Maps "
        "or OpenStreetMap, or the coordinates."
    )


async def resolve_map_link(link: str, web: Web) -> MapLink:
    """Return what a link means, a short one too, whose redirects are followed.

    Raises:
        CompanionError: as `read_map_link`; or a short link leads nowhere, elsewhere, or to a private network.
    """
    link = link.strip()
    if not _is_short(link):
        return read_map_link(link)
    try:
        await web.get(link, seconds=_SECONDS, most_bytes=1_000, cut=True, onward=_until_it_says_where)
    except _ArrivedError as arrived:
        found = read_map_link(arrived.url)
        return MapLink(link, found.latitude, found.longitude, found.name)
    except WebError as error:
        raise CompanionError(
            f"The short link cannot be followed: {error} Ask for the long link, or for the coordinates."
        ) from error
    raise CompanionError("The short link leads nowhere. Ask for the long link, or for the coordinates.")


class _ArrivedError(WebError):
    """A redirect leads to where no more need be followed."""

    def __init__(self, url: str) -> None:
        super().__init__("It was followed far enough.")
        self.url = url


async def _until_it_says_where(url: URL) -> None:
    link = str(url)
    if _is_short(link):
        return
    if not _service_of(link):
        raise WebError(f"It leads to {url.host}, which is no map service.")
    raise _ArrivedError(link)


def _is_short(link: str) -> bool:
    host, path = _host_and_path(link)
    if host in ("maps.app.goo.gl", "g.co"):
        return len(path) > 1
    return (host == "goo.gl" and path.startswith("/maps/")) or (host in _APPLE and path.startswith("/p/"))


def _service_of(link: str) -> str:
    host, path = _host_and_path(link)
    if _GOOGLE.fullmatch(host) and (host.startswith("maps.") or path.startswith("/maps")):
        return "google"
    if host in _APPLE and not path.startswith("/p/"):
        return "apple"
    if host in _OPEN_STREET_MAP:
        return "osm"
    return ""


def _host_and_path(link: str) -> tuple[str, str]:
    try:
        parts = urlsplit(link)
        host = (parts.hostname or "").lower().rstrip(".")
        is_plain = parts.username is None and parts.port in (None, 80, 443)
    except ValueError:
        return "", ""
    return (host, parts.path) if parts.scheme in ("http", "https") and is_plain else ("", "")


def _of_google(link: str) -> MapLink:
    parts = urlsplit(link)
    asked = parse_qs(parts.query)
    path = unquote_plus(parts.path)
    named = re.search(r"/maps/(?:place|search|dir/[^/]*)/([^/@]+)", path)
    name = named[1].strip() if named else ""
    whole = f"{path}?{unquote(parts.query)}"
    texts = [asked[key][0] for key in ("q", "query", "ll", "destination", "daddr", "center") if key in asked]
    found = _last(_PLACE, whole) or _turned(_last(_EMBEDDED, whole)) or _pair(name)
    for text in texts:
        found = found or _pair(text)
    found = found or _last(_WINDOW, path)
    words = [text for text in (name, *texts) if text and _pair(text) is None]
    return _link(link, found, words[0] if words else "")


def _of_apple(link: str) -> MapLink:
    asked = parse_qs(urlsplit(link).query)
    found = None
    for key in ("coordinate", "ll", "q", "daddr", "address", "name", "sll"):
        if key in asked:
            found = found or _pair(asked[key][0])
    name = ""
    for key in ("name", "q", "address", "daddr"):
        if key in asked and _pair(asked[key][0]) is None:
            name = name or asked[key][0]
    return _link(link, found, name)


def _of_open_street_map(link: str) -> MapLink:
    parts = urlsplit(link)
    asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
    found = _pair(f"{asked.get('mlat', '')},{asked.get('mlon', '')}")
    name = asked.get("query", "")
    found = found or _pair(name) or _last(_FRAGMENT, parts.fragment)
    if found is None and (short := _OSM_SHORT.fullmatch(parts.path)):
        found = _interleaved(short[1])
    return _link(link, found, "" if _pair(name) else name)


def _interleaved(digits: str) -> tuple[float, float]:
    """Return the position that a short link of OpenStreetMap holds: three bits of both coordinates a sign."""
    x = y = 0
    for digit in digits.replace("~", "@"):
        bits = _OSM_DIGITS.index(digit)
        for place in (5, 3, 1):
            x, y = x * 2 + (bits >> place & 1), y * 2 + (bits >> place - 1 & 1)
    steps = 8 ** len(digits)
    return y * 180 / steps - 90, x * 360 / steps - 180


def _of_geo(link: str, geo: re.Match[str]) -> MapLink:
    """Read a link of RFC 5870. Android names a place as `geo:0,0?q=LAT,LNG(Name)`."""
    name, found = "", (float(geo[1]), float(geo[2]))
    if asked := parse_qs(geo[3] or "").get("q"):
        text = asked[0]
        if label := _LABEL.search(text):
            name, text = label[1], text[: label.start()]
        if pair := _pair(text):
            found = pair
        else:
            name = name or text
    return _link(link, None if found == (0.0, 0.0) and name else found, name)


def _link(link: str, found: tuple[float, float] | None, name: str) -> MapLink:
    latitude, longitude = found or (None, None)
    return MapLink(link, latitude, longitude, one_line(name)[:LONGEST_NAME])


def _checked(link: MapLink) -> MapLink:
    if wrong := wrong_coordinates(link.latitude, link.longitude):
        raise CompanionError(f"The maps link cannot be right: {wrong[0]}")
    if link.latitude is None and not link.name:
        raise CompanionError(
            "The maps link shows no place. Ask for a link to the place itself, or for the coordinates."
        )
    return link


def _pair(text: str) -> tuple[float, float] | None:
    """Return coordinates that a text is, in degrees or in degrees, minutes and seconds."""
    if found := _PAIR.fullmatch(text):
        return float(found[1]), float(found[2])
    if found := _DEGREES.fullmatch(text):
        latitude = _degrees(found[1], found[2], found[3])
        longitude = _degrees(found[5], found[6], found[7])
        return (-latitude if found[4] == "S" else latitude), (-longitude if found[8] == "W" else longitude)
    return None


def _degrees(degrees: str, minutes: str, seconds: str) -> float:
    return float(degrees) + float(minutes) / 60 + float(seconds) / 3600


def _last(pattern: re.Pattern[str], text: str) -> tuple[float, float] | None:
    """Return the last pair of numbers: earlier ones are of places on the way."""
    found = pattern.findall(text)
    return (float(found[-1][0]), float(found[-1][1])) if found else None


def _turned(pair: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if pair is None else (pair[1], pair[0])
