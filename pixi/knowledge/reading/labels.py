"""What was fetched, laid down as a file: a line that tells what it is, and then the bytes as they came."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from pixi.knowledge.reading.outcome import SetAside

SUFFIX = ".fetched"
"""Of such a file. No database holds one."""

Kind = Literal["html", "feed", "markdown", "plain", "pdf"]


@dataclass(frozen=True, slots=True)
class Label:
    """What a fetched page is.

    Attributes:
        url: where it came from; its links are relative to that.
        charset: as the server said; "" where it did not.
    """

    url: str
    kind: Kind
    charset: str = ""


def labelled(label: Label, body: bytes) -> bytes:
    """The file."""
    return msgspec.json.encode(label) + b"\n" + body


def parted(data: bytes) -> tuple[Label, bytes]:
    """What `labelled` put together.

    Raises:
        SetAside: it was not made so.
    """
    line, _, body = data.partition(b"\n")
    try:
        return msgspec.json.decode(line, type=Label), body
    except msgspec.MsgspecError:
        raise SetAside("is no page that was fetched; take it out") from None
