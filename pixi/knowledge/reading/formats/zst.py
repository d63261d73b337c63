"""JSON and JSON Lines, compressed with Zstandard."""

from collections.abc import Iterable

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.json_files import documents_in, documents_in_lines
from pixi.knowledge.reading.limits import Limits, mib
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside
from pixi.knowledge.reading.suffixes import JSON_LINES, ZST

_LINES = tuple(suffix for suffix in ZST if suffix.removesuffix(".zst") in JSON_LINES)
_WINDOW = (
    128 * 1024 * 1024
)  # bytes that the one who packed it may have looked back by: what `zstd --long` does
_HEADER = 18  # bytes that hold the size of what is inside, where that is told
_BLOCK = 1024 * 1024


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The records inside."""
    data = _unpacked(original, original.limits)
    if original.name.lower().endswith(_LINES):
        return documents_in_lines(data.split(b"\n"), original.limits.depth, tell)
    return documents_in(data, original.limits.depth, tell)


def _unpacked(original: Original, limits: Limits) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise SetAside("needs a library to unpack it; install pixi-persona[docs]") from None
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    data = bytearray()
    try:
        declared = zstandard.frame_content_size(original.file.read(_HEADER)) if original.size else 0
        original.file.seek(0)
        with unpacker.stream_reader(original.file, read_across_frames=True, closefd=False) as unpacked:
            while block := unpacked.read(_BLOCK):
                data += block
                if len(data) > limits.unpacked_bytes:
                    raise SetAside(f"unpacks to more than {mib(limits.unpacked_bytes)}; split it")
    except zstandard.ZstdError:
        raise SetAside("is broken, or not packed with Zstandard; pack it anew") from None
    if len(data) < declared:
        raise SetAside("is cut off; pack it anew")
    return bytes(data)
