"""What a server says when it refuses: the many forms of its error bodies, read into one."""

import re
from dataclasses import dataclass

import msgspec

_SECONDS = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")


class ErrorField(msgspec.Struct, gc=False):
    """The `error` of a body or an event."""

    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    param: str | None = None
    details: object = None


class _Detail(msgspec.Struct, gc=False):
    """One fault that a validating server found. `loc` is the path to the field."""

    msg: str = ""
    loc: list[str | int] = msgspec.field(default_factory=list)


class _ErrorBody(msgspec.Struct, gc=False):
    error: ErrorField | str | None = None
    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    param: str | None = None
    detail: str | list[_Detail] | None = None


@dataclass(frozen=True, slots=True)
class Complaint:
    """What the server said.

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
