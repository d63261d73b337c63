"""What went wrong with a model's server, told to its operator, and whether asking again can help.

Each text is one line that names the server and the mend, and never holds the key.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime

import aiohttp

from pixi.core.deltas import Request
from pixi.core.errors import ModelError
from pixi.core.lines import ToolLine, UserLine
from pixi.models.complaint import Complaint
from pixi.models.deadlines import Overdue
from pixi.models.render import Quirk

_SHORTEST_SECRET = 6  # what is shorter is no secret, and would be found inside other words
_LONGEST_QUOTE = 300


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is made, and the pauses between in seconds: doubling, with jitter, capped."""

    attempts: int = 3
    base: float = 0.5
    cap: float = 8.0

    def backoff(self, attempt: int) -> float:
        """The pause after the attempt of that number, from 1."""
        return random.uniform(0.5, 1.0) * min(self.cap, self.base * 2.0 ** (attempt - 1))


@dataclass(frozen=True, slots=True)
class Server:
    """Whom a fault is about.

    Attributes:
        place: host and port, for people.
        base_url: as it was set.
        model: the model that was asked for.
        api_key: never shown; None where none was set.
        serves: what is asked of it.
    """

    place: str
    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    serves: str = "chat completions"

    @property
    def sent_key(self) -> str:
        """What is sent as the key: many a server of one's own wants none, but some word must stand there."""
        return self.api_key or "none"

    def without_key(self, text: str) -> str:
        """A text of the server's, which may quote the key that it was sent."""
        if self.api_key and len(self.api_key) >= _SHORTEST_SECRET:
            return text.replace(self.api_key, "…")
        return text


class Refusal(ModelError):
    """The server answered, and it was a no. `complaint` holds its own words, for `quirk_in`."""

    def __init__(
        self, text: str, complaint: Complaint, *, permanent: bool, retry_after: float | None = None
    ) -> None:
        super().__init__(text, permanent=permanent, retry_after=retry_after)
        self.complaint = complaint


def refusal(server: Server, complaint: Complaint, retry_after: float | None = None) -> Refusal:
    """The error that an answer other than a reply amounts to."""
    complaint = replace(complaint, message=server.without_key(complaint.message))
    text = _permanent_fault(server, complaint)
    if text is not None:
        return Refusal(text, complaint, permanent=True)
    status = complaint.status
    if status == 429:
        wait = "" if retry_after is None else f" It asks to wait {retry_after:g} s."
        text = f"{server.place} limits how often it may be asked.{wait}{_said(complaint)}"
    else:
        number = f" ({status})" if status else ""
        text = f"{server.place} failed{number}.{_said(complaint)}"
    return Refusal(text, complaint, permanent=False, retry_after=retry_after)


_UNKNOWN_MODEL = re.compile(
    r"model.{0,99}(not[ _]found|not exist)|(unknown|no such|not a valid|invalid) model",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context_length|context_size|(maximum|available) context|context window", re.IGNORECASE
)
_BAD_KEY = re.compile(
    r"(invalid|incorrect|wrong)[ _]api[ _]key|api[ _]key[ _](is )?(not valid|invalid)", re.IGNORECASE
)
_NO_CREDIT = re.compile(r"insufficient[ _](quota|balance|credits?|funds)", re.IGNORECASE)
_PASSING = frozenset({408, 409, 425, 429})  # the 4xx that another attempt may cure


def _permanent_fault(server: Server, complaint: Complaint) -> str | None:
    """What is wrong for good, with its mend; None where asking again may help."""
    place, status = server.place, complaint.status
    words = f"{complaint.code} {complaint.message}"
    if status == 401 or _BAD_KEY.search(words):
        if server.api_key is None:
            return f"{place} wants a key: set OPENAI_API_KEY."
        return f"{place} refused the key: check OPENAI_API_KEY."
    if status == 402 or _NO_CREDIT.search(words):
        return f"The account at {place} has no credit left for the model.{_said(complaint)}"
    refused = 400 <= status < 500 and status not in _PASSING
    if complaint.is_page and (status < 300 or refused):
        return f"{place} answered with a web page, not as a model server: check base_url, {server.base_url}"
    if status in (400, 404, 422) and _UNKNOWN_MODEL.search(words):
        return f"{place} has no model {server.model!r}: check the model's name.{_said(complaint)}"
    if status == 404:
        hint = "check base_url" if server.base_url.endswith("/v1") else "base_url usually ends in /v1"
        return f"{place} has no {server.serves} under {server.base_url}: {hint}.{_said(complaint)}"
    if status == 403:
        return f"{place} does not let this key use the model {server.model!r}.{_said(complaint)}"
    if 300 <= status < 400:
        return f"{place} sends us on to another address: set base_url to it.{_said(complaint)}"
    if _TOO_LONG.search(words):
        return f"The prompt is too long for {place}: lower context_tokens.{_said(complaint)}"
    if refused or status in (501, 505):
        return f"{place} refused the request ({status}).{_said(complaint)}"
    return None


def _said(complaint: Complaint) -> str:
    message = complaint.message
    if len(message) > _LONGEST_QUOTE:
        message = message[: _LONGEST_QUOTE - 1] + "…"
    return f" It said: {message}" if message else ""


_NOT_TAKEN = re.compile(
    r"not support|unsupported|doesn't support|only supported|no endpoints|requires? --|not permitted|"
    r"not allowed|unknown|unrecognized|unexpected|not available|not enabled|not implemented|at most 0|not a ",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\b(tools?|tool_choice|functions?|function.calling)\b", re.IGNORECASE)
_BAD_SCHEMA = re.compile(r"schema", re.IGNORECASE)  # a fault in one tool, not in having tools
_REPLY_FORM = re.compile(
    r"response_format|json_schema|json.mode|structured.outputs?|guided|grammar", re.IGNORECASE
)
_PICTURES = re.compile(r"image|picture|multimodal|vision", re.IGNORECASE)


def quirk_in(fault: ModelError, request: Request) -> Quirk | None:
    """What a refusal teaches about its server: with it minded, the same request may be taken."""
    if not isinstance(fault, Refusal) or fault.complaint.status in (401, 402, 403, 408, 429):
        return None
    words = f"{fault.complaint.code} {fault.complaint.message}"
    if "stream_options" in words or "include_usage" in words:
        return Quirk.NO_USAGE
    if "max_completion_tokens" in words:
        return Quirk.COMPLETION_TOKENS
    if "alternate" in words and "role" in words:
        return Quirk.ALTERNATE
    if request.schema is not None and _REPLY_FORM.search(words):
        return Quirk.NO_SCHEMA
    if not _NOT_TAKEN.search(words):
        return None
    if request.tools and "parallel_tool_calls" in words:
        return Quirk.NO_PARALLEL
    if request.tools and _TOOLS.search(words) and not _BAD_SCHEMA.search(words):
        return Quirk.NO_TOOLS
    pictured = any(isinstance(line, UserLine | ToolLine) and line.images for line in request.lines)
    if pictured and _PICTURES.search(words):
        return Quirk.NO_PICTURES
    return None


def tools_refused(server: Server, fault: ModelError) -> ModelError:
    """The error of a server that takes no tools, where the settings say that it must."""
    mend = f'{server.place} takes no tools for {server.model!r}: set tools = "auto" or "text".'
    return ModelError(f"{mend} {fault}", permanent=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks us to wait; None where it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        # A date is read by the server's own clock: ours may be wrong.
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (ValueError, TypeError):
        return None


def unreachable(server: Server, error: aiohttp.ClientError | OSError) -> ModelError:
    """The error that a failed connection or a broken stream amounts to."""
    place = server.place
    match error:
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return ModelError(
                f"The proxy on the way to {place} failed: check http_proxy, https_proxy, no_proxy."
            )
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return ModelError(f"No trusted TLS connection to {place}: {_reason(error)}", permanent=True)
        case aiohttp.ClientConnectorDNSError():
            return ModelError(f"There is no host {error.host}: check base_url and the network.")
        case aiohttp.ClientConnectorError():
            return nothing_answers(server, _reason(error.os_error))
        case aiohttp.ConnectionTimeoutError():
            return ModelError(f"No connection to {place} in time: is base_url right, and the network up?")
        case aiohttp.ClientResponseError():
            text = f"{place} does not speak HTTP: check base_url, {server.base_url}"
            return ModelError(text, permanent=True)
        case _:
            return ModelError(f"{place} broke the connection off before its reply was complete.")


def nothing_answers(server: Server, why: str) -> ModelError:
    """The error of a connection that could not be made."""
    return ModelError(
        f"Nothing answers at {server.place} ({why}): is the server running, and base_url right?"
    )


def no_reply(server: Server, content_type: str) -> ModelError:
    """The error of a body in which nothing of a reply could be found."""
    if content_type == "text/event-stream":
        return ModelError(f"{server.place} closed the connection without a reply.")
    what = f"{server.place} does not answer as a model server, but with {content_type}"
    return ModelError(f"{what}: check base_url, {server.base_url}", permanent=True)


def _reason(error: OSError) -> str:
    return " ".join((error.strerror or type(error).__name__).split())


def overdue(server: Server, error: Overdue) -> ModelError:
    """The error that a deadline which passed amounts to."""
    what = {
        "first": "sent no words for",
        "gap": "stopped in the middle of its reply for",
        "turn": "was still writing after",
    }[error.which]
    return ModelError(f"{server.place} {what} {error.seconds:g} s.")
