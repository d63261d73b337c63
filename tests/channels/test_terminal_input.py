"""Standard input, from a real pipe or file."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from pixi.channels.terminal.lines import CHUNK_BYTES, read_lines
from pixi.core.errors import ConfigError


async def lines_of(data: bytes, file: Path) -> list[str]:
    file.write_bytes(data)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return [line async for line in read_lines(descriptor)]
    finally:
        os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test closed it


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"hi\n", ["hi"]),
        (b"hi", ["hi"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfhi\n", ["hi"]),
        ("你好\nשלום".encode(), ["你好", "שלום"]),
        ("é".encode() * CHUNK_BYTES + b"x\ny", ["é" * CHUNK_BYTES + "x", "y"]),
    ],
)
async def test_lines_of_a_file(data: bytes, lines: list[str], tmp_path: Path) -> None:
    assert await lines_of(data, tmp_path / "input") == lines


async def test_a_line_that_is_not_utf8_is_named_and_the_ones_before_it_are_given(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"fine\nalso fine\nol\xe9\nnever read\n")
    descriptor = os.open(file, os.O_RDONLY)
    lines = read_lines(descriptor)
    assert [await anext(lines), await anext(lines)] == ["fine", "also fine"]
    with pytest.raises(ConfigError, match=r"line 3: byte 3 \(0xe9\) is not UTF-8"):
        await anext(lines)
    os.close(descriptor)


async def test_a_slow_writer_does_not_hold_up_the_loop(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    def write() -> None:
        os.write(writing, b"on")
        time.sleep(0.1)
        os.write(writing, b"e\n")
        os.close(writing)

    ticking = asyncio.create_task(tick())
    thread = threading.Thread(target=write)
    thread.start()
    assert [line async for line in read_lines(reading)] == ["one"]
    thread.join()
    ticking.cancel()
    assert ticks >= 3


async def test_nothing_is_read_ahead_of_the_talk(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, b"one\n")
    async with aclosing(read_lines(reading)) as lines:
        assert await anext(lines) == "one"
        os.write(writing, b"for somebody else\n")
        await asyncio.sleep(0.05)
    os.set_blocking(reading, False)
    assert os.read(reading, 100) == b"for somebody else\n"


async def test_a_descriptor_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        await anext(read_lines(descriptor))
    os.close(descriptor)
