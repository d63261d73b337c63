import json
from pathlib import Path

import pytest
import zstandard

from pixi.documents import FileLimits, SetAside
from pixi.documents.files import Document, Section
from tests.documents.at_hand import read, write

RECORDS = [
    {"_id": "x1", "title": "First", "text": "Body", "metadata": {}},
    {"name": "Pan", "price": 3, "tags": ["flat", "iron"], "sold": True, "none": None},
    {"标题": "煎饼", "内容": "面粉和鸡蛋"},
    {"Title": "Nested", "parts": {"a": {"b": [1, {"c": "d", "e": "f"}]}}},
    {"title": "Long", "text": "short", "notes": "x" * 300},
    "a plain text",
]


def test_records_become_documents(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.json", json.dumps(RECORDS)))
    assert documents[:5] == (
        Document("x1", "First", (Section("Body"),)),
        Document("Pan", "Pan", (Section("price: 3\ntags: flat, iron\nsold: yes"),)),
        Document("煎饼", "煎饼", (Section("面粉和鸡蛋"),)),
        Document("Nested", "Nested", (Section("a:\n  b:\n    - 1\n    - c: d\n      e: f", "parts"),)),
        Document("Long", "Long", (Section("short"), Section("x" * 300, "notes"))),
    )
    assert documents[5].sections == (Section("a plain text"),)
    assert len(documents[5].key) == 24


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ({"title": "T", "content": "C", "id": 3, "source": "https://example.org"}, [""]),
        ({"meta": "m", "data": [{"id": 1, "t": "x"}, {"id": 2, "t": "y"}]}, ["", "1", "2"]),
        ({"data": [{"id": 1, "t": "x"}, {"id": 2, "t": "y"}]}, ["1", "2"]),
        ({"alpha": {"text": "x"}, "beta": {"text": "y"}}, ["alpha", "beta"]),
        ({"a": "x", "b": "y"}, [""]),
        ([{"url": "https://example.org/a", "text": "x"}], ["https://example.org/a"]),
        ([{"slug": "s", "url": "u", "text": "x"}], ["s"]),
        ([{"id": 0, "text": "x"}], ["0"]),
        ([{"id": None, "title": "T", "text": "x"}], ["T"]),
        ([], []),
        ({}, []),
        (None, []),
        (5, [""]),
        ("text", [""]),
        ([[1, 2], None], ["5d2c9ae1e29d7f6fa2dc0d4a"]),
    ],
)
def test_keys_by_the_shape_of_the_file(tmp_path: Path, value: object, keys: list[str]) -> None:
    documents = read(write(tmp_path / "a.json", json.dumps(value)))
    if keys and len(keys[0]) == 24:
        assert [len(document.key) for document in documents] == [24]
    else:
        assert [document.key for document in documents] == keys


def test_a_key_stays_when_other_records_come_and_go(tmp_path: Path) -> None:
    records: list[dict[str, str]] = [{"text": f"text {number}"} for number in range(5)]
    before = {
        document.sections: document.key for document in read(write(tmp_path / "a.json", json.dumps(records)))
    }
    records = [{"text": "new"}, *records[1:]]
    after = {
        document.sections: document.key for document in read(write(tmp_path / "a.json", json.dumps(records)))
    }
    shared = before.keys() & after.keys()
    assert len(shared) == 4
    assert all(before[sections] == after[sections] for sections in shared)


def test_the_same_key_twice_is_made_two(tmp_path: Path) -> None:
    records = [{"id": 1, "text": "x"}, {"id": 1, "text": "y"}, {"id": 1, "text": "y"}]
    keys = [document.key for document in read(write(tmp_path / "a.json", json.dumps(records)))]
    assert keys[0] == "1"
    assert len(set(keys)) == 3
    without_the_last = [
        document.key for document in read(write(tmp_path / "a.json", json.dumps(records[:2])))
    ]
    assert without_the_last == keys[:2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1,\n "b": }', "line 2, column 7"),
        ("[" * 100_000, "nests"),
        ("[" * 500 + "]" * 500, "nests"),
        ("not json", "is no JSON"),
        ("[" + "9" * 5000 + "]", "digits|no JSON"),
        ('{"a": "' + "x" * 100, "line 1"),
    ],
)
def test_what_is_no_json_is_set_aside_with_the_place(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SetAside, match=reason):
        read(write(tmp_path / "a.json", text))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"text": "\\ud800x"}', "\N{REPLACEMENT CHARACTER}x"),
        (b'{"text": "\\u0000x"}', "\N{REPLACEMENT CHARACTER}x"),
        ('{"text": "süß"}'.encode("utf-16"), "süß"),
        (b'\xef\xbb\xbf{"text": "x"}', "x"),
        (b'{"text": "x", "n": NaN}', "x\n\nn: nan"),
    ],
)
def test_json_as_it_is_found(tmp_path: Path, data: bytes, text: str) -> None:
    assert read(write(tmp_path / "a.json", data))[0].sections == (Section(text),)


LINES = (
    '\ufeff{"_id": "4983", "title": "T", "text": "one\\ntwo"}\n\n{broken\n5\n'
    '{"_id": "2", "title": "", "text": "z"}\r\n'
)


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    documents = read(write(tmp_path / name, LINES))
    assert documents.note.startswith("2 lines are no records and passed over, from line 3 on")
    assert documents == (
        Document("4983", "T", (Section("one\ntwo", line=1, on_one_line=True),)),
        Document("2", "", (Section("z", line=5, on_one_line=True),)),
    )
    assert documents[0].sections[0].line_at(5) == 1


def test_json_lines_in_utf_16(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.jsonl", LINES.encode("utf-16-le")))
    assert [document.key for document in documents] == ["4983", "2"]


def test_lines_and_one_value_are_taken_for_each_other(tmp_path: Path) -> None:
    lines = '{"id": 1, "text": "x"}\n{"id": 2, "text": "y"}\n'
    assert [document.key for document in read(write(tmp_path / "a.json", lines))] == ["1", "2"]
    value = json.dumps([{"id": 1, "text": "x"}, {"id": 2, "text": "y"}], indent=2)
    assert [document.key for document in read(write(tmp_path / "a.jsonl", value))] == ["1", "2"]


def test_lines_without_any_record_are_set_aside(tmp_path: Path) -> None:
    with pytest.raises(SetAside, match="is no JSON"):
        read(write(tmp_path / "a.jsonl", "not\njson\n"))


def test_too_many_records_or_characters_are_set_aside(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "0123456789"}\n' * 100)
    assert len(read(path, FileLimits(records=100))) == 100
    with pytest.raises(SetAside, match="99 records"):
        read(path, FileLimits(records=99))
    with pytest.raises(SetAside, match="1,000 characters"):
        read(path, FileLimits(characters=1_000))


@pytest.mark.parametrize(
    ("name", "content", "keys"),
    [
        ("0123abcd.zst", json.dumps({"title": "T", "content": "C", "id": 3, "source": ""}), [""]),
        ("a.json.zst", json.dumps([{"id": 1, "text": "x"}]), ["1"]),
        ("a.jsonl.zst", '{"id": 1, "text": "x"}\n{"id": 2, "text": "y"}', ["1", "2"]),
        ("a.zst", '{"id": 1, "text": "x"}\n{"id": 2, "text": "y"}', ["1", "2"]),
    ],
)
def test_zst(tmp_path: Path, name: str, content: str, keys: list[str]) -> None:
    half = len(content) // 2
    packed = zstandard.compress(content[:half].encode()) + zstandard.compress(content[half:].encode())
    documents = read(write(tmp_path / name, packed))
    assert [document.key for document in documents] == keys


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json.zst", zstandard.compress(b"0" * 3_000_000))
    assert path.stat().st_size < 5_000
    with pytest.raises(SetAside, match="unpacks to more than 1 MiB"):
        read(path, FileLimits(unpacked_bytes=1024 * 1024))


@pytest.mark.parametrize("data", [b"", b"garbage", zstandard.compress(b'{"a": 1}' * 100)[:-5]])
def test_what_is_not_packed_so_is_set_aside(tmp_path: Path, data: bytes) -> None:
    if not data:
        assert read(write(tmp_path / "a.zst", data)) == ()
        return
    with pytest.raises(SetAside):
        read(write(tmp_path / "a.zst", data))
