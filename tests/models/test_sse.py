"""The event-stream decoder: the format's rules, and that cutting changes nothing."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.models.reply import EventTooLong, SSEDecoder
from tests.steps import steps_of


def whole(data: bytes) -> list[bytes]:
    decoder = SSEDecoder()
    return decoder.feed(data) + decoder.close()


def in_pieces(pieces: list[bytes]) -> list[bytes]:
    decoder = SSEDecoder()
    return [payload for piece in pieces for payload in decoder.feed(piece)] + decoder.close()


@pytest.mark.parametrize(
    ("data", "payloads"),
    [
        (b"", []),
        (b"data: a\n\n", [b"a"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b'data: {"a":1}\rdata: x\n\n', [b'{"a":1}\nx']),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: \n\ndata: b\n\n", [b"b"]),
        (b"data\n\n", []),
        (b": ping\n\ndata: a\n\n: ping\n\n", [b"a"]),
        (b"event: error\nid: 7\nretry: 3\ndata: a\n\n", [b"a"]),
        (b"database: no\n\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: \xef\xbb\xbf\n\n", [b"\xef\xbb\xbf"]),
        (b"data: a", [b"a"]),
        (b"data: a\n", [b"a"]),
        ("data: é🥞\u2028\x85\n\n".encode(), ["é🥞\u2028\x85".encode()]),
        (b"data: a\n\nid: 7\ndata: b\n\n", [b"a", b"b"]),
    ],
)
def test_payloads(data: bytes, payloads: list[bytes]) -> None:
    assert whole(data) == payloads
    assert in_pieces([data[i : i + 1] for i in range(len(data))]) == payloads


TOKENS = [
    b"data: ",
    b"data:",
    b"data",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b": ping\n\n",
    b"x",
    b"{}",
    b":",
    b"id",
]
STREAMS = st.lists(
    st.sampled_from([*TOKENS, b"\xef\xbb\xbf", b'data: {"a":1}\n\n', b"\xf0\x9f"]), max_size=30
).map(b"".join)


def by_the_rules(data: bytes) -> list[bytes]:
    """The format's own words, read slowly: another way to the same end."""
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    payloads: list[bytes] = []
    gathered: list[bytes] = []
    for line in [*lines, b""]:
        if not line:
            payloads += [b"\n".join(gathered)] if any(gathered) or len(gathered) > 1 else []
            gathered = []
        elif line.split(b":")[0] == b"data":
            value = line.partition(b":")[2]
            gathered.append(value[1:] if value.startswith(b" ") else value)
    return payloads


@given(STREAMS)
def test_it_follows_the_format(data: bytes) -> None:
    assert whole(data) == by_the_rules(data)


@given(STREAMS, st.lists(st.integers(0, 120), max_size=20))
def test_cutting_changes_nothing(data: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert in_pieces(pieces) == whole(data)


def test_an_endless_event_is_an_error() -> None:
    decoder = SSEDecoder(limit=1000)
    for _ in range(90):
        assert decoder.feed(b"data: 12345") == []
    with pytest.raises(EventTooLong):
        decoder.feed(b"data: 12345")


def test_finished_events_do_not_count_towards_the_limit() -> None:
    decoder = SSEDecoder(limit=1000)
    for _ in range(1000):
        assert decoder.feed(b": pi") == []
        assert decoder.feed(b"ng\ndata: x") == []
        assert decoder.feed(b"\n\n") == [b"x"]


def test_work_is_linear_in_an_event_that_comes_byte_by_byte() -> None:
    def steps(length: int) -> int:
        event = b"data: " + b"x" * length + b"\n\n"
        decoder = SSEDecoder()

        def read() -> None:
            for i in range(len(event)):
                decoder.feed(event[i : i + 1])

        return steps_of(read, in_texts=True)

    # Four times the length; a quadratic decoder would look at 16 times the bytes.
    assert steps(2_000) < 5 * steps(500)
