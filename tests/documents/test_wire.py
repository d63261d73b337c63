import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.documents.files import Document, Section
from pixi.documents.wire import (
    LONGEST_FRAME,
    MESSAGES,
    PIECE_CHARACTERS,
    Piece,
    framed,
    joined,
    pieces,
    weight,
)

LENGTHS = st.sampled_from(
    [0, 1, 100, PIECE_CHARACTERS - 60, PIECE_CHARACTERS - 1, PIECE_CHARACTERS, PIECE_CHARACTERS * 2 + 5]
)
SECTIONS = st.builds(
    lambda length, letter, heading, line: Section(letter * length, heading, line, on_one_line=bool(line % 2)),
    LENGTHS,
    st.sampled_from("aß字🥞"),
    st.sampled_from(["", "heading"]),
    st.integers(0, 9),
)
DOCUMENTS = st.lists(
    st.builds(Document, st.sampled_from(["", "k"]), st.just("t"), st.lists(SECTIONS, max_size=6).map(tuple)),
    max_size=6,
)


def there_and_back(sent: list[Piece]) -> tuple[Document, ...]:
    received: list[Piece] = []
    for piece in [*sent, Piece(0, ())]:
        frame = framed([piece])
        assert len(frame) < LONGEST_FRAME
        (came,) = MESSAGES.decode(frame[4:])
        assert isinstance(came, Piece)
        received.append(came)
    return tuple(joined(received))


@given(DOCUMENTS)
def test_documents_come_out_as_they_went_in(documents: list[Document]) -> None:
    sent = list(pieces(0, documents))
    assert there_and_back(sent) == tuple(documents)
    for piece in sent:
        assert sum(map(weight, piece.documents)) <= PIECE_CHARACTERS + 1_000


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", msgspec.msgpack.encode([["piece", "x"]]), msgspec.msgpack.encode({"__reduce__": 1})],
)
def test_nothing_else_is_taken_for_a_message(data: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        MESSAGES.decode(data)
