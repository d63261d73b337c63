"""What stands between a program and a service of the web, told in words that name the mend."""

import re
from html import unescape

from pixi.core.untrusted import clipped, prompt_name
from pixi.fetching.web import Fetched, WebError

_CHECKS = (
    (
        "Cloudflare",
        re.compile(rb"just a moment\.\.\.|challenge-platform|cf[_-]chl|cf-error|\| cloudflare", re.I),
    ),
    ("Anubis", re.compile(rb"/\.within\.website/|making sure you(?:'|&#39;)?re not a bot", re.I)),
    ("its hoster", re.compile(rb"captcha|verify(?:ing)? (?:that )?you are (?:a )?human|incapsula", re.I)),
)
_TITLE = re.compile(rb"<title\b[^<>]{0,200}>([^<]{1,300})", re.I)
_LOOKED_AT = 65_536  # bytes of a page; what stands in the way says so early
_LONGEST_TITLE = 80


def is_page(body: bytes) -> bool:
    """Return True if it is a web page, whatever was asked for."""
    return body[:500].lstrip().startswith(b"<")


def check_in(body: bytes) -> str:
    """Who asks whoever comes to prove that they are a person; "": nobody does."""
    if not is_page(body):
        return ""
    start = body[:_LOOKED_AT]
    return next((name for name, pattern in _CHECKS if pattern.search(start)), "")


def wall_of(error: WebError) -> str:
    """Why a server refused, to be read behind its host's name."""
    check = check_in(error.body)
    if check:
        return _checked_by(check)
    match error.status:
        case 401:
            return "wants a user name and a password"
        case 403:
            return "refuses programs like this one (403)"
        case 404 | 410:
            return f"has nothing at that address ({error.status})"
        case 429:
            return f"was asked too often, and wants to rest{_for(error.retry_after)}"
        case 503:
            return f"cannot answer just now (503){_for(error.retry_after)}; ask again later"
        case status:
            return f"is in trouble ({status}); ask again later"


def page_instead(answer: Fetched) -> str:
    """What a web page says that came in place of data, to be read behind its host's name."""
    check = check_in(answer.body)
    if check:
        return _checked_by(check)
    found = _TITLE.search(answer.body[:_LOOKED_AT])
    title = prompt_name(unescape(found[1].decode("utf-8", "replace"))) if found else ""
    said = f' ("{clipped(title, _LONGEST_TITLE)}")' if title else ""
    return f"answers with a web page{said} where a program should get data"


def _checked_by(check: str) -> str:
    return f"lets in only who passes a check that needs a browser ({check}), which no program does"


def _for(seconds: float | None) -> str:
    return "" if seconds is None else f" for {seconds:.0f} s"
