"""The heads of `.gguf` files: the control words and the size that they tell, and files that lie."""

import math
import struct
from pathlib import Path

import pytest

from pixi.core.control_words import breaking
from pixi.models.traits import read_head
from pixi.models.weights import cached, installed


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words.encode())) + words.encode()


def array(kind: int, *items: bytes) -> bytes:
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)


def gguf(*tensors: tuple[int, ...], **fields: bytes) -> bytes:
    """A file with tensors of these dimensions, a byte a number, but no more than a page in all."""
    named = (text(name.replace("__", ".")) + value for name, value in fields.items())
    told = (text("blk") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 8, 0) for shape in tensors)
    size = min(sum(map(math.prod, tensors)), 4_096)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    return head + b"".join(named) + b"".join(told) + b"\0" * (size + 32)


def label(words: str) -> bytes:
    return struct.pack("<I", 8) + text(words)


def number(value: int) -> bytes:
    return struct.pack("<IQ", 10, value)


FILE = gguf(
    general__name=struct.pack("<I", 8) + text("Zork"),
    general__size=struct.pack("<Id", 12, 1.5),
    tokenizer__ggml__scores=array(6, struct.pack("<f", 1.0), struct.pack("<f", 0.5)),
    tokenizer__ggml__tokens=array(8, text("<~turn~>"), text("the"), text("<b>"), text("<~odd~>")),
    tokenizer__ggml__token_type=array(5, *(struct.pack("<i", kind) for kind in (3, 1, 4, 3))),
    tokenizer__ggml__merges=array(8, *(text("a b") for _ in range(50))),
    tokenizer__chat_template=struct.pack("<I", 8) + text("{{ '[BEGIN_ZORK]' + m }}"),
)


def test_the_words_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "zork.gguf"
    path.write_bytes(FILE)
    assert read_head(path).control_words == ["<~turn~>", "<~odd~>", "[BEGIN_ZORK]"]
    assert read_head(tmp_path / "none.gguf").control_words == []


def test_the_types_of_tokens_may_stand_before_the_tokens(tmp_path: Path) -> None:
    path = tmp_path / "zork.gguf"
    fields = {
        "tokenizer__ggml__token_type": array(5, *(struct.pack("<i", kind) for kind in (3, 1, 3))),
        "tokenizer__ggml__tokens": array(8, text("<~turn~>"), text("the"), text(">>ODD<<")),
    }
    path.write_bytes(gguf(**fields))
    assert read_head(path).control_words == ["<~turn~>", ">>ODD<<"]
    assert breaking(read_head(path).control_words)("a >>ODD<< b") == "a >\u2060>ODD<< b"


@pytest.mark.parametrize(
    ("content", "parameters"),
    [
        (gguf((64, 32), (7,), general__parameter_count=number(1_543_714_304)), 1.543714304),
        (gguf((64, 32), (7,), general__size_label=label("8x7B")), 2055 / 1e9),
        (gguf((64, 32), split__count=struct.pack("<IH", 2, 3), general__size_label=label("8x7B")), 56.0),
        (gguf((64, 32), split__count=struct.pack("<IH", 2, 1)), 2048 / 1e9),
        (gguf((64, 32), split__count=struct.pack("<IH", 2, 0)), 2048 / 1e9),  # llama.cpp merged several
        (gguf(general__size_label=label("1.5B")), 1.5),
        (gguf(general__parameter_count=label("many")), None),
        # What no file can hold is not believed, nor what takes for ever to read.
        (gguf((2**62, 2**62)), None),
        (gguf((1,) * 9), None),
        (gguf(zork=struct.pack("<IIQ", 9, 9, 1)), None),
        (gguf(zork=struct.pack("<IIQ", 9, 8, 2**40)), None),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0) + b"\0" * 99, None),
    ],
)
def test_how_many_parameters_a_file_tells(tmp_path: Path, content: bytes, parameters: float | None) -> None:
    path = tmp_path / "zork.gguf"
    path.write_bytes(content)
    assert read_head(path).parameters == parameters


def test_a_damaged_file_gives_what_can_be_read_of_it(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    for end in range(0, len(FILE), 3):
        path.write_bytes(FILE[:end])
        assert set(read_head(path).control_words) <= {"<~turn~>", "<~odd~>", "[BEGIN_ZORK]"}
    huge = struct.pack("<Q", 2**63 - 1)
    for at in range(0, len(FILE) - 8, 5):
        path.write_bytes(FILE[:at] + huge + FILE[at + 8 :])
        read_head(path)


def test_all_of_thousands_of_templates_are_read(tmp_path: Path) -> None:
    path = tmp_path / "many.gguf"
    templates = {f"tokenizer__chat_template__{n}": label(f"<|word_{n}|>") for n in range(20_000)}
    path.write_bytes(gguf(**templates))
    assert len(read_head(path).control_words) == 20_000


@pytest.mark.skipif(not (installed() or cached()), reason="the bundled weights are not here")
def test_the_bundled_model() -> None:
    path = installed() or cached()
    assert path is not None
    assert read_head(path).parameters == pytest.approx(0.1345, abs=0.0001)
    assert {"<|im_start|>", "<|im_end|>", "<file_sep>"} <= set(read_head(path).control_words)
