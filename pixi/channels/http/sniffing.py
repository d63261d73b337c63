"""What is in a file, told by its bytes alone: a name and a header say what somebody wants it to be."""

from collections.abc import Mapping

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What is drawn anew."""

TEXT = "text/plain"
UNKNOWN = "application/octet-stream"

SUFFIXES: Mapping[str, str] = {
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/epub+zip": ".epub",
    "text/html": ".html",
    TEXT: ".txt",
}
"""Of what a model can be told as text, the suffix by which a reader of documents knows it."""

_WORD = b"word/document.xml"
_EPUB = b"mimetypeapplication/epub+zip"
_ENDS = 65_536  # bytes at either end of a file that are looked at; a zip lists what it holds at its end
_BYTE_ORDER = (b"\xff\xfe", b"\xfe\xff")
_NOT_IN_TEXT = bytes(set(range(32)) - set(b"\t\n\f\r\x1b")) + b"\x7f"


class Sniffer:
    """Looks at a file as it comes.

    Attributes:
        size: bytes until now.
    """

    def __init__(self) -> None:
        self.size = 0
        self._begin = b""
        self._end = b""
        self._is_text = True

    def feed(self, piece: bytes) -> None:
        """Look at the next bytes."""
        if len(self._begin) < _ENDS:
            self._begin += piece[: _ENDS - len(self._begin)]
        self._end = (self._end + piece)[-_ENDS:]
        if self._is_text and not self._begin.startswith(_BYTE_ORDER):
            self._is_text = len(piece.translate(None, _NOT_IN_TEXT)) == len(piece)
        self.size += len(piece)

    @property
    def media_type(self) -> str:
        """What it is, once all of it has come."""
        begin = self._begin
        if begin.startswith(b"\x89PNG\r\n\x1a\n"):
            return "image/png"
        if begin.startswith(b"\xff\xd8\xff"):
            return "image/jpeg"
        if begin.startswith((b"GIF87a", b"GIF89a")):
            return "image/gif"
        if begin.startswith(b"RIFF") and begin[8:12] == b"WEBP":
            return "image/webp"
        if begin.startswith(b"PK\x03\x04"):
            return self._packed()
        if b"%PDF-" in begin[:1_024]:
            return "application/pdf"
        if not self._is_text:
            return UNKNOWN
        start = begin[:1_024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        return "text/html" if start.startswith((b"<!doctype html", b"<html")) else TEXT

    def _packed(self) -> str:
        """A zip is not opened here: what it holds is told by the names at its ends."""
        if _EPUB in self._begin[:200]:
            return "application/epub+zip"
        if _WORD in self._begin or _WORD in self._end:
            return next(kind for kind, suffix in SUFFIXES.items() if suffix == ".docx")
        return "application/zip"
