"""`pixi-persona parse`: bytes in, one JSON object a line out."""

import io
import json
import subprocess
import sys
from unittest import mock

import pytest

from pixi.cli import frame

REPLY = (
    "Sure! Here it is:\n[NOTE: see [1]]\n<think>better a cat</think>\n[REACT: 🥞] and [SEND: سلام\r\nhi]"
    '\n<tool-call tool="search">{"q": "薄煎饼 ]"}</tool-call>\nok [1]\n[SEND: cut o'
)


def _parse(raw: bytes, *flags: str) -> subprocess.CompletedProcess[bytes]:
    """`parse FLAGS` with this standard input, in this process."""
    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(each, encoding="utf-8") for each in written)
    given = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")
    with (
        mock.patch.object(sys, "stdin", given),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        code = frame.run(["parse", *flags])
    for stream in (out, err):
        stream.flush()
    return subprocess.CompletedProcess(flags, code, *(each.getvalue() for each in written))


def _lines(raw: bytes, *flags: str) -> list[dict[str, object]]:
    done = _parse(raw, *flags)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]


def test_each_event_is_a_line_of_json() -> None:
    events = _lines(REPLY.encode())
    assert [event for event in events if str(event.get("text", "x")).strip()] == [
        {"event": "prose", "text": events[0]["text"]},
        {"event": "command", "name": "note", "argument": "see [1]", "complete": True},
        {"event": "thought", "text": "better a cat"},
        {"event": "command", "name": "react", "argument": "🥞", "complete": True},
        {"event": "prose", "text": " and "},
        {"event": "command", "name": "send", "argument": "سلام\nhi", "complete": True},
        {"event": "tool_call", "name": "search", "payload": '{"q": "薄煎饼 ]"}'},
        {"event": "prose", "text": "\nok [1]\n"},
        {"event": "command", "name": "send", "argument": "cut o", "complete": False},
    ]
    assert str(events[0]["text"]).strip() == "Sure! Here it is:"


def test_the_number_of_an_earlier_message_stands_where_there_is_one() -> None:
    assert _lines("[REACT #3: 😂][REPLY: hi][SEND: #4: is it]".encode(), "--deltas") == [
        {"event": "started", "name": "react"},
        {"event": "text", "text": "😂"},
        {"event": "command", "name": "react", "argument": "😂", "complete": True, "target": 3},
        {"event": "started", "name": "send"},
        {"event": "text", "text": "hi"},
        {"event": "command", "name": "send", "argument": "hi", "complete": True},
        {"event": "started", "name": "send"},
        {"event": "text", "text": "#4: is it"},
        {"event": "command", "name": "send", "argument": "#4: is it", "complete": True},
    ]


def test_the_output_is_readable() -> None:
    assert _parse("[SEND: 你好 🥞]".encode()).stdout.decode() == (
        '{"event": "command", "name": "send", "argument": "你好 🥞", "complete": true}\n'
    )


@pytest.mark.parametrize("size", ["1", "3", "1000000"])
def test_the_size_of_chunks_changes_nothing(size: str) -> None:
    assert _parse(REPLY.encode(), "--chunk", size).stdout == _parse(REPLY.encode()).stdout


def test_deltas_show_a_message_growing() -> None:
    events = _lines(b"[SEND: one two]", "--deltas", "--chunk", "1")
    assert events[0] == {"event": "started", "name": "send"}
    assert events[-1] == {"event": "command", "name": "send", "argument": "one two", "complete": True}
    pieces = [str(event["text"]) for event in events[1:-1] if event["event"] == "text"]
    assert len(pieces) == len(events) - 2 > 2
    assert "".join(pieces).strip() == "one two"


def test_other_commands_can_be_named() -> None:
    events = _lines(b"[POLL: a or b?] [REACT: x] [SAY: hi]", "--commands", "poll, send")
    assert [
        (event.get("name"), event.get("argument")) for event in events if event["event"] == "command"
    ] == [("poll", "a or b?"), ("send", "hi")]


@pytest.mark.parametrize("raw", [b"", b"\n"])
def test_nothing_in_is_no_command_out(raw: bytes) -> None:
    assert all(event["event"] == "prose" for event in _lines(raw))


def test_what_is_not_utf8_is_one_clear_line() -> None:
    done = _parse(b"[SEND: caf\xe9]")
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(done.stderr.splitlines()) == 1
    assert b"UTF-8" in done.stderr
    assert b"0xe9" in done.stderr
    assert b"offset 10" in done.stderr


@pytest.mark.parametrize(
    "flags",
    [("--chunk", "0"), ("--chunk", "-3"), ("--chunk", "x"), ("--commands", ""), ("--commands", "a,,b")],
)
def test_a_wrong_flag_is_a_clear_error(flags: tuple[str, str]) -> None:
    done = _parse(b"[SEND: hi]", *flags)
    assert (done.returncode, done.stdout) == (2, b"")
    assert flags[0].encode() in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_closed_pipe_ends_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pixi", "parse", "--chunk", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"[SEND: hello there]\n" * 20_000)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 141)
