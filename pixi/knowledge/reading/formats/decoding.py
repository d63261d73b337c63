"""Bytes made into text, whatever wrote them."""

import codecs
import re

from pixi.knowledge.reading.outcome import SetAside

_MARKS = (  # the longer before the shorter: UTF-32's begins like UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BREAKS = re.compile("\r\n?")
_NOT_ASCII = re.compile(rb"[^\n\x80-\xff]*[\x80-\xff][^\n]*\n?")
_SAMPLE = 32_768
_MANY = 10  # broken characters to one whole, at most, in what still counts as UTF-8: one in ten
_NO_TEXT = "holds no text that can be told from other data; save it anew as UTF-8"


def decoded(data: bytes, declared: str = "") -> str:
    """The text, with every line break as `\\n`.

    Args:
        data: a whole file.
        declared: an encoding that it names itself; believed if it fits, and if nothing better is known.

    Raises:
        SetAside: it is no text.
    """
    text = _decoded(data, declared)
    return _BREAKS.sub("\n", text) if "\r" in text else text


def _decoded(data: bytes, declared: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    wide = _wide(data[:_SAMPLE])
    if wide:
        return data.decode(wide, "replace")
    if b"\0" in data:
        raise SetAside(_NO_TEXT)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _from_another(data, declared)


def _wide(start: bytes) -> str:
    """UTF-16 or UTF-32 without a mark, told by where the zeros stand; "" for anything else."""
    if start.count(0) * 5 < len(start) or len(start) < 4:
        return ""
    zeros = [start[at::4].count(0) * 4 / len(start) for at in range(4)]
    match [share > 0.2 for share in zeros]:
        case [False, True, False, True]:
            return "utf-16-le"
        case [True, False, True, False]:
            return "utf-16-be"
        case [False, _, True, True]:
            return "utf-32-le"
        case [True, True, _, False]:
            return "utf-32-be"
        case _:
            return ""


def _from_another(data: bytes, declared: str) -> str:
    """Text that is not quite UTF-8, or not at all."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    # That one beyond ASCII decodes is hardly ever chance: a few bad bytes do not make it another encoding.
    whole = sum(map(len, re.findall(r"[^\x00-\x7f\ufffd]+", text)))
    if broken * _MANY <= whole:
        return text
    if declared:
        try:
            return data.decode(declared)
        except (LookupError, ValueError):
            pass  # it names no encoding, or a wrong one
    return data.decode(_guessed(data), "replace")


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes

    # Lines of ASCII alone say nothing; those that do are gathered, wherever in the file they stand.
    sample = bytearray()
    for line in _NOT_ASCII.finditer(data):
        sample += line.group()[:_SAMPLE]
        if len(sample) >= _SAMPLE:
            break
    best = from_bytes(bytes(sample)).best()
    if best is None:
        raise SetAside(_NO_TEXT)
    return best.encoding
