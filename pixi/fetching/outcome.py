"""What comes of fetching: what a server gave, or why there is nothing."""

from dataclasses import dataclass

from pixi.core.errors import PixiError


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a server gave.

    Attributes:
        url: where it came from in the end, after redirects.
        status: of HTTP.
        content_type: in small letters, without its parameters; "" where the server said none.
        charset: as the server said; "" where it did not, or nobody knows it.
        body: unpacked.
        retry_after: seconds after which the server wants to be asked again; None where it said nothing.
    """

    url: str
    status: int
    content_type: str
    charset: str
    body: bytes
    retry_after: float | None = None


class WebError(PixiError):
    """It could not be fetched. The text says why, in words that a model can act on, without secrets.

    Attributes:
        answer: what the server gave with its refusal, of its body the beginning; None where none answered.
    """

    def __init__(self, text: str, *, answer: Fetched | None = None) -> None:
        super().__init__(text)
        self.answer = answer

    @property
    def status(self) -> int:
        """Of HTTP, where a server refused; 0 where none answered."""
        return self.answer.status if self.answer is not None else 0

    @property
    def body(self) -> bytes:
        """How the page begins that says why nothing was given."""
        return self.answer.body if self.answer is not None else b""

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again; None where it said nothing."""
        return self.answer.retry_after if self.answer is not None else None


class Refused(WebError):
    """The address may not be fetched at all: it is none, or leads where strangers have no business."""
