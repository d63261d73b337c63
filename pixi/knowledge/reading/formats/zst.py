"""JSON and JSON Lines, compressed with Zstandard."""

import sys
from collections.abc import Iterable

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.json_files import documents_in, documents_in_lines
from pixi.knowledge.reading.limits import Limits, mib
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside
from pixi.knowledge.reading.suffixes import JSON_LINES, ZST

_LINES = tuple(suffix for suffix in ZST if suffix.removesuffix(".zst") in JSON_LINES)
_WINDOW_LOG = 27  # who packed it may have looked back by 128 MiB, as `zstd --long` does
_BLOCK = 1024 * 1024


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The records inside."""
    data = _unpacked(original, original.limits)
    if original.name.lower().endswith(_LINES):
        return documents_in_lines(data.split(b"\n"), original.limits.depth, tell)
    return documents_in(data, original.limits.depth, tell)


def _unpacked(original: Original, limits: Limits) -> bytes:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise SetAside("needs a library to unpack it; install pixi-persona[docs]") from None
    data = bytearray()
    if not original.size:
        return b""
    try:
        with zstd.ZstdFile(
            original.file, options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
        ) as unpacked:
            while block := unpacked.read(_BLOCK):
                data += block
                if len(data) > limits.unpacked_bytes:
                    raise SetAside(f"unpacks to more than {mib(limits.unpacked_bytes)}; split it")
    except EOFError:
        raise SetAside("is cut off; pack it anew") from None
    except zstd.ZstdError:
        raise SetAside("is broken, or not packed with Zstandard; pack it anew") from None
    return bytes(data)
