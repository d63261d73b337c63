"""What clients are sent stays as it is, to the byte; and the clients read it as they did."""

import json

import pytest

from tests.clients.client import with_node
from tests.clients.golden import KEPT, name_of, parsed, stream, stream_path, told_path
from tests.clients.scenes import SCENES
from tests.rows import row

BOTH = [(face, scene) for face in KEPT for scene in SCENES]
READ = [(face, script) for face, kept in KEPT.items() for script in kept.clients]
FAILED = {"broken"}


def test_a_stream_is_as_it_was() -> None:
    for face, scene in BOTH:
        with row((face, scene)):
            kept = stream_path(face, scene).read_bytes()
            assert stream(face, scene) == kept, "if that is meant: python -m tests.clients.golden"


def test_all_frames_are_whole_and_the_end_stands_in_the_last_alone() -> None:
    for face, scene in BOTH:
        with row((face, scene)):
            _check_frames(face, scene)


def _check_frames(face: str, scene: str) -> None:
    kept, end = stream_path(face, scene).read_bytes(), KEPT[face].end
    assert b"\r" not in kept
    *frames, rest = kept.split(b"\n\n")
    assert not rest
    for frame in frames:
        (data,) = [line for line in frame.split(b"\n") if line.startswith(b"data: ")]
        text = data.removeprefix(b"data: ").decode()
        assert text == "[DONE]" or isinstance(json.loads(text), dict)
    told = [frame for frame in frames if frame != b"data: [DONE]"]
    ends = [number for number, frame in enumerate(told, 1) if end in frame]
    last = len(told) - (face == "openai")  # there the usage comes behind
    assert ends == [last] or (scene in FAILED and not ends)


@pytest.mark.nightly
@with_node
@pytest.mark.parametrize(
    ("face", "script"), READ, ids=lambda each: each if isinstance(each, str) else name_of(each)
)
async def test_the_real_clients_read_it_as_they_did_and_take_no_part_for_the_whole(
    face: str, script: tuple[str, ...]
) -> None:
    kept_told = json.loads(told_path(face, script).read_text("utf-8"))
    for scene, told in (await parsed(script, face)).items():
        assert told["told"] == kept_told[scene], scene
        if scene in FAILED:
            assert told["whole"] > told["size"], f"{scene}: what failed is taken for whole"
        else:
            kept = stream_path(face, scene).read_bytes()
            ended = kept.index(b"\n", kept.index(KEPT[face].end))
            assert ended <= told["whole"] <= told["size"], f"{scene}: a part is taken for the whole"
