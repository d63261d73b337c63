"""Faults of a model's server: its error bodies, the operator's words, and whether to ask again."""

import asyncio
import math
import random
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import aiohttp
import msgspec
from msgspec.structs import replace

from pixi.core.errors import ModelError
from pixi.core.untrusted import clipped
from pixi.models.breaker import Permit
from pixi.models.connections import beginning_of
from pixi.models.deadlines import DeadlineExceeded

_SECONDS = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")
# The status that an error's code or type stands for, where it comes inside a stream.
_STATUS_OF_WORD = {
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "model_not_found": 404,
    "not_found_error": 404,
    "NotFoundError": 404,
    "context_length_exceeded": 400,
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "billing_error": 402,
    "request_too_large": 413,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_SHORTEST_SECRET = 6  # a shorter text is no secret, and would be found inside other words
_LONGEST_QUOTE = 300
_LONGEST_ERROR = 64 * 1024  # bytes
_UNKNOWN_MODEL = re.compile(
    r"model.{0,99}(not[ _]found|not exist)|(unknown|no such|not a valid|invalid) model|_error model:",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context_length|context_size|(maximum|available) context|context window|prompt is too long|"
    r"input token count",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(invalid|incorrect|wrong)[ _]api[ _]key|api[ _]key[ _](is )?(not valid|invalid)", re.IGNORECASE
)
_NO_CREDIT = re.compile(
    r"insufficient[ _](quota|balance|credits?|funds)|credit balance is too low", re.IGNORECASE
)
_PASSING = frozenset({408, 409, 425, 429})  # the 4xx that another attempt may cure


class ErrorField(msgspec.Struct, gc=False):
    """The `error` of a body or an event."""

    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    param: str | None = None
    details: object = None


class _Detail(msgspec.Struct, gc=False):
    """A fault that a validating server found. `loc` is the path to the field."""

    msg: str = ""
    loc: list[str | int] = msgspec.field(default_factory=list)


class _ErrorBody(msgspec.Struct, gc=False):
    error: ErrorField | str | None = None
    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    param: str | None = None
    detail: str | list[_Detail] | None = None


class Complaint(msgspec.Struct, frozen=True):
    """A server's complaint.

    Attributes:
        status: of HTTP, or the one that an error inside a stream amounts to; 0 where it is not known.
        message: its words, on one line; "" where it had none.
        code: its code and type, with a blank between.
        is_page: the body was a web page: this is no model server, or there is a proxy before it.
        wait: the seconds that it asks for; None where it does not say.
    """

    status: int
    message: str = ""
    code: str = ""
    is_page: bool = False
    wait: float | None = None


def complaint_of(error: ErrorField | str, status: int = 0) -> Complaint:
    """Read an `error` field; without an HTTP status its own code or type tells one."""
    if isinstance(error, str):
        return Complaint(status, _one_line(error))
    words = [str(word) for word in (error.code, error.type) if word is not None]
    for word in words:
        if status:
            break
        status = int(word) if word.isascii() and word.isdigit() else _STATUS_OF_WORD.get(word, 0)
    message = error.message or ""
    if error.param and error.param not in message:
        message = f"{message} ({error.param})"
    return Complaint(status, _one_line(message), " ".join(words), wait=_wait_in(error.details))


def complaint_in(body: bytes, status: int) -> Complaint:
    """Read the body of an answer that is no reply."""
    if looks_like_page(body):
        return Complaint(status, is_page=True)
    try:
        fields = msgspec.json.decode(body, type=_ErrorBody)
    except (ValueError, RecursionError):
        return Complaint(status, _one_line(body.decode("utf-8", "replace")))
    if fields.error:
        return complaint_of(fields.error, status)
    if isinstance(fields.detail, list):
        said = "; ".join(f"{'.'.join(map(str, fault.loc))}: {fault.msg}" for fault in fields.detail)
        return Complaint(status, _one_line(said))
    message = fields.message or fields.detail
    return complaint_of(ErrorField(message, fields.type, fields.code, fields.param), status)


def _wait_in(details: object) -> float | None:
    """Return the seconds to wait, told as Google does: `{"retryDelay": "34s"}` among the details."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (told := _SECONDS.fullmatch(delay)):
            return float(told[1])
    return None


def looks_like_page(body: bytes) -> bool:
    """Return True for HTML or XML: no model server answers so."""
    return body.lstrip()[:1] == b"<"


def _one_line(text: str) -> str:
    return " ".join(text.split())


class Retries(msgspec.Struct, frozen=True):
    """Retries of a request, and the pauses between in seconds: doubling, with jitter, capped.

    Attributes:
        attempts: requests at most.
        base: the first pause.
        cap: the longest pause.
        wait: the longest pause that is waited out where the server itself asks for one.
        sleep: waits a number of seconds.
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 8.0
    wait: float = math.inf
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def backoff(self, attempt: int) -> float:
        """Return the pause after the attempt of that number, from 1."""
        return random.uniform(0.5, 1.0) * min(self.cap, self.base * 2.0 ** (attempt - 1))

    def pause_after(self, fault: ModelError, attempt: int, left: float, asking: Permit) -> float | None:
        """Return the pause after the attempt of that number; None where there is to be no other.

        Args:
            fault: what came of the attempt.
            attempt: from 1.
            left: seconds until the whole request is overdue.
            asking: is told what came of the request, where this was its last attempt.
        """
        if asking.may_be_tried_again and not fault.permanent and attempt < self.attempts:
            asked_for = fault.retry_after
            pause = self.backoff(attempt) if asked_for is None else asked_for
            if pause < left and (asked_for is None or asked_for <= self.wait):
                return pause
        if is_the_servers(fault):
            asking.failed(fault)
        else:
            asking.answered()
        return None


@dataclass(frozen=True, slots=True)
class Server:
    """The server of a fault.

    Attributes:
        place: host and port, for people.
        base_url: as it was set.
        model: the model that was asked for.
        api_key: never shown; None where none was set.
        serves: the API that is asked for, for people.
        key_name: where its key comes from.
        ends_in: what its addresses usually end in; "" where they end in nothing of the kind.
        is_near: it is on this machine or in a private network, and perhaps slow.
    """

    place: str
    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    serves: str = "chat completions"
    key_name: str = "OPENAI_API_KEY"
    ends_in: str = "/v1"
    is_near: bool = False

    @property
    def sent_key(self) -> str:
        """Return the key that is sent; a stand-in where a server of one's own wants none."""
        return self.api_key or "none"

    def without_key(self, text: str) -> str:
        """Return a text of the server's without the key, which it may quote."""
        if self.api_key and len(self.api_key) >= _SHORTEST_SECRET:
            return text.replace(self.api_key, "…")
        return text


class Refusal(ModelError):
    """The server refused a request.

    Attributes:
        complaint: its own words, for `quirks`.
        is_about_request: another request may be taken.
    """

    def __init__(
        self,
        text: str,
        complaint: Complaint,
        *,
        permanent: bool,
        retry_after: float | None = None,
        is_about_request: bool = False,
    ) -> None:
        super().__init__(text, permanent=permanent, retry_after=retry_after)
        self.complaint = complaint
        self.is_about_request = is_about_request


class Overran(ModelError):
    """A server that took the request let a deadline pass.

    Attributes:
        is_slow: it is near, so that it may be slow and well: its silence says nothing against it.
    """

    def __init__(self, text: str, *, is_slow: bool) -> None:
        super().__init__(text)
        self.is_slow = is_slow


def refusal(server: Server, complaint: Complaint, retry_after: float | None = None) -> Refusal:
    """Return the error for an answer that is no reply."""
    complaint = replace(complaint, message=server.without_key(complaint.message))
    if retry_after is None:
        retry_after = complaint.wait
    text = _standing_fault(server, complaint)
    if text is not None:
        return Refusal(text, complaint, permanent=True)
    text = _request_fault(server, complaint)
    if text is not None:
        return Refusal(text, complaint, permanent=True, is_about_request=True)
    status = complaint.status
    if status == 429:
        wait = "" if retry_after is None else f" It asks to wait {retry_after:g} s."
        text = f"{server.place} limits how often it may be asked.{wait}{_said(complaint)}"
    else:
        number = f" ({status})" if status else ""
        text = f"{server.place} failed{number}.{_said(complaint)}"
    return Refusal(text, complaint, permanent=False, retry_after=retry_after)


async def refusal_in(response: aiohttp.ClientResponse, server: Server) -> Refusal:
    """Return the error for a response that is not what was asked for."""
    content = await beginning_of(response, _LONGEST_ERROR)
    if response.content_type == "text/html":
        complaint = Complaint(response.status, is_page=True)
    else:
        complaint = complaint_in(content, response.status)
    if 300 <= response.status < 400:
        complaint = Complaint(response.status, response.headers.get("location", ""))
    return refusal(server, complaint, retry_after(response.headers))


def _standing_fault(server: Server, complaint: Complaint) -> str | None:
    """Return what is wrong with key, account, model or address, with its mend; None if nothing."""
    place, status = server.place, complaint.status
    words = f"{complaint.code} {complaint.message}"
    if status == 401 or _BAD_KEY.search(words):
        if server.api_key is None:
            return f"{place} wants a key: set {server.key_name}."
        return f"{place} refused the key: check {server.key_name}."
    if status == 402 or _NO_CREDIT.search(words):
        return f"The account at {place} has no credit left for the model.{_said(complaint)}"
    if complaint.is_page and (status < 300 or _is_refused(status)):
        return f"{place} answered with a web page, not as a model server: check base_url, {server.base_url}"
    if status in (400, 404, 422) and _UNKNOWN_MODEL.search(words):
        return f"{place} has no model {server.model!r}: check the model's name.{_said(complaint)}"
    if status == 404:
        usual = server.base_url.endswith(server.ends_in)
        hint = "check base_url" if usual else f"base_url usually ends in {server.ends_in}"
        return f"{place} has no {server.serves} under {server.base_url}: {hint}.{_said(complaint)}"
    if status == 403:
        return f"{place} does not let this key use the model {server.model!r}.{_said(complaint)}"
    if 300 <= status < 400:
        return f"{place} sends us on to another address: set base_url to it.{_said(complaint)}"
    return None


def _request_fault(server: Server, complaint: Complaint) -> str | None:
    """Return what is wrong with the request; None if nothing, so that asking again may help."""
    place, status = server.place, complaint.status
    if _TOO_LONG.search(f"{complaint.code} {complaint.message}"):
        return f"The prompt is too long for {place}: lower context_tokens.{_said(complaint)}"
    if _is_refused(status) or status in (501, 505):
        return f"{place} refused the request ({status}).{_said(complaint)}"
    return None


def _is_refused(status: int) -> bool:
    return 400 <= status < 500 and status not in _PASSING


def _said(complaint: Complaint) -> str:
    message = clipped(complaint.message, _LONGEST_QUOTE)
    return f" It said: {message}" if message else ""


def declined(server: Server, complaint: Complaint) -> Refusal:
    """Return the error of a model that will not answer what it was asked."""
    text = f"{server.model} at {server.place} declined to answer.{_said(complaint)}"
    return Refusal(text, complaint, permanent=True, is_about_request=True)


def tools_refused(server: Server, fault: ModelError) -> ModelError:
    """Return the error of a server that takes no tools, where the settings say that it must."""
    mend = f'{server.place} takes no tools for {server.model!r}: set tools = "auto" or "text".'
    return ModelError(f"{mend} {fault}", permanent=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks us to wait; None where it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:  # it is missing, or a date
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        # A date is read by the server's own clock: ours may be wrong.
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (ValueError, TypeError):
        return None


def asked_to_wait(server: Server, seconds: float) -> ModelError:
    """Return the error of a server that is left alone, as it asked."""
    text = f"{server.place} asked to be left alone for {math.ceil(seconds)} s more."
    return ModelError(text, retry_after=seconds)


def is_the_servers(fault: ModelError) -> bool:
    """Return True if a fault is the server's own, so that any other request to it would likely fail now.

    A permanent fault is not: it is told at once each time, and holds until somebody mends it. Nor is the
    slowness of a server near by: it took the request, so it runs.
    """
    if fault.permanent or (isinstance(fault, Overran) and fault.is_slow):
        return False
    return not (isinstance(fault, Refusal) and fault.complaint.status in _PASSING - {408})


@contextmanager
def connecting(server: Server, late: Callable[[], ModelError]) -> Iterator[None]:
    """Tell in words what fails between us and a server within the block; `late` gives the error of a timeout.

    Raises:
        ModelError: it failed.
    """
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise unreachable(server, error) from error
    except TimeoutError:
        raise late() from None
    except (aiohttp.ClientError, OSError) as error:
        raise unreachable(server, error) from error


def unreachable(server: Server, error: BaseException) -> ModelError:
    """Return the error for a failed connection or a broken stream."""
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
            why = _reason(error.os_error)
            return ModelError(
                f"Nothing answers at {place} ({why}): is the server running, and base_url right?"
            )
        case aiohttp.ConnectionTimeoutError():
            return ModelError(f"No connection to {place} in time: is base_url right, and the network up?")
        case aiohttp.ClientResponseError():
            text = f"{place} does not speak HTTP: check base_url, {server.base_url}"
            return ModelError(text, permanent=True)
        case _:
            return ModelError(f"{place} broke the connection off before its reply was complete.")


def no_reply(server: Server, content_type: str) -> ModelError:
    """Return the error of a body in which nothing of a reply was found."""
    if content_type == "text/event-stream":
        return ModelError(f"{server.place} closed the connection without a reply.")
    what = f"{server.place} does not answer as a model server, but with {content_type}"
    return ModelError(f"{what}: check base_url, {server.base_url}", permanent=True)


def endless(server: Server, limit: int) -> ModelError:
    """Return the error of an answer, or of one event in it, that outgrew its limit in bytes."""
    what = f"{server.place} sent more than {limit // 1_000_000} MB at one go, too long to be a reply"
    return ModelError(f"{what}: check base_url, {server.base_url}", permanent=True)


def _reason(error: OSError) -> str:
    return " ".join((error.strerror or type(error).__name__).split())


def overdue(server: Server, exceeded: DeadlineExceeded) -> Overran:
    """Return the error for a deadline that passed."""
    what = {
        "first": "sent no words for",
        "gap": "stopped in the middle of its reply for",
        "turn": "was still writing after",
        "listing": "sent no words for",
    }[exceeded.which]
    text = f"{server.place} {what} {exceeded.seconds:g} s."
    if server.is_near and exceeded.which == "first":
        text = f"{text[:-1]}, too slow for this prompt: raise first_seconds, or take a smaller model."
    return Overran(text, is_slow=server.is_near)
