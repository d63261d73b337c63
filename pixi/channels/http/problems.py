"""What is answered where a request cannot be: RFC 9457 below `/api`, OpenAI's envelope below `/v1`."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from aiohttp import web

from pixi.core.errors import PixiError

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


PLAIN = web.RequestKey("plain", bool)
"""True for a request whose client shows people the body of an error as it is: then it is words alone."""


class Problem(PixiError):
    """A request that is refused, with the status of the answer and the mend.

    Args:
        status: of HTTP, 400 or more.
        title: the kind of problem, in a few words that are the same each time.
        detail: what is wrong here and what to do about it. It holds no secret and no trace of the program.
        type: the address of a page on it; "": none.
        errors: for each wrong field a JSON pointer and what is wrong with it.
        headers: that the answer has besides.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        type: str = "",  # noqa: A002 - the name that RFC 9457 has for it
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.type = type
        self.errors = tuple(errors)
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """Return the problem as `application/problem+json`."""
        told: dict[str, object] = {
            "type": self.type or "about:blank",
            "title": self.title or HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        return msgspec.json.encode(told | ({"errors": list(self.errors)} if self.errors else {}))

    def openai_body(self) -> bytes:
        """Return the problem in the envelope that OpenAI's clients read."""
        param = self.errors[0].get("pointer", "").removeprefix("/") if self.errors else None
        kind = _KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        error = {"message": self.detail, "type": kind, "param": param or None, "code": None}
        return msgspec.json.encode({"error": error})
