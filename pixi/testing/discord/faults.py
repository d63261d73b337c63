"""Errors as Discord answers them: a status, a code, a message, and where a form is wrong."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class RefusedCall(Exception):
    """A request is refused with Discord's body."""

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        *,
        errors: Json | None = None,
        headers: dict[str, str] | None = None,
        body: Json | None = None,
    ) -> None:
        super().__init__(f"{status} {code} {message}")
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}
        self._errors = errors
        self._body = body

    @property
    def body(self) -> Json:
        """What is answered."""
        if self._body is not None:
            return self._body
        body: Json = {"message": self.message, "code": self.code}
        return body | {"errors": self._errors} if self._errors else body


class DropConnection(Exception):
    """Raised in a hook: the connection is closed and nothing is answered."""


_KNOWN: dict[int, tuple[int, str]] = {
    10003: (404, "Unknown Channel"),
    10004: (404, "Unknown Guild"),
    10007: (404, "Unknown Member"),
    10008: (404, "Unknown Message"),
    10011: (404, "Unknown Role"),
    10013: (404, "Unknown User"),
    10014: (400, "Unknown Emoji"),
    10015: (404, "Unknown Webhook"),
    10062: (404, "Unknown interaction"),
    10063: (404, "Unknown application command"),
    20028: (429, "The write action you are performing on the channel has hit the write rate limit"),
    30007: (400, "Maximum number of webhooks reached (15)"),
    30010: (403, "Maximum number of reactions reached (20)"),
    30032: (400, "Maximum number of application commands reached (100)"),
    40005: (413, "Request entity too large"),
    40060: (400, "Interaction has already been acknowledged."),
    50001: (403, "Missing Access"),
    50003: (403, "Cannot execute action on a DM channel"),
    50005: (403, "Cannot edit a message authored by another user"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50008: (400, "Cannot send messages in a non-text channel"),
    50013: (403, "Missing Permissions"),
    50016: (
        400,
        "Provided too few or too many messages to delete. "
        "Must provide at least 2 and fewer than 100 messages to delete",
    ),
    50021: (403, "Cannot execute action on a system message"),
    50024: (400, "Cannot execute action on this channel type"),
    50027: (401, "Invalid Webhook Token"),
    50034: (400, "You can only bulk delete messages that are under 14 days old."),
    50041: (400, "Invalid API version provided"),
    50081: (400, "Invalid sticker sent"),
    50083: (400, "Thread is archived"),
    50109: (400, "The request body contains invalid JSON."),
    160002: (403, "Cannot reply without permission to read message history"),
    160004: (400, "A thread has already been created for this message"),
}


def fault(code: int) -> RefusedCall:
    """The error with one of Discord's codes."""
    status, message = _KNOWN[code]
    return RefusedCall(status, code, message)


def unauthorized() -> RefusedCall:
    """The token is missing or wrong."""
    return RefusedCall(401, 0, "401: Unauthorized")


def no_such_route() -> RefusedCall:
    """Nothing is at that path."""
    return RefusedCall(404, 0, "404: Not Found")


class Form:
    """What is wrong with a body; `check` refuses it with everything that was found.

    A place is the way to a field: `("embeds", 0, "title")`.
    """

    def __init__(self) -> None:
        self._errors: Json = {}

    def wrong(self, place: tuple[str | int, ...], code: str, message: str) -> None:
        """Note that a field is wrong."""
        here = self._errors
        for step in place:
            here = here.setdefault(str(step), {})
        here.setdefault("_errors", []).append({"code": code, "message": message})

    def longest(self, place: tuple[str | int, ...], value: object, limit: int) -> None:
        """A text may have `limit` characters."""
        if isinstance(value, str) and len(value) > limit:
            self.wrong(place, "BASE_TYPE_MAX_LENGTH", f"Must be {limit} or fewer in length.")

    def within(self, place: tuple[str | int, ...], value: object, low: int, high: int) -> None:
        """A text or a list has from `low` to `high` parts."""
        if not isinstance(value, str | list) or not low <= len(value) <= high:
            self.wrong(place, "BASE_TYPE_BAD_LENGTH", f"Must be between {low} and {high} in length.")

    def check(self) -> None:
        """Raises `RefusedCall` when anything is wrong."""
        if self._errors:
            raise RefusedCall(400, 50035, "Invalid Form Body", errors=self._errors)


def invalid(place: tuple[str | int, ...], code: str, message: str) -> RefusedCall:
    """A form with one wrong field."""
    form = Form()
    form.wrong(place, code, message)
    try:
        form.check()
    except RefusedCall as fault:
        return fault
    raise AssertionError("A form with an error passed.")


def snowflake(value: object, name: str) -> int:
    """An id from a path or a body. Raises `RefusedCall`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    raise invalid((name,), "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')
