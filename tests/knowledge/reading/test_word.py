import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from docx.document import Document

from pixi.knowledge.reading import Limits, SetAside
from tests.knowledge.reading.at_hand import read, sections, write


def document() -> "Document":
    """An empty one, by what is large in memory and imported for these tests alone."""
    from docx import Document

    return Document()


def word(first: str = "Before.") -> bytes:
    made = document()
    made.core_properties.title = ""
    made.add_heading("Whole", 0)
    made.add_paragraph(first)
    made.add_heading("Part", 1)
    made.add_paragraph("Text\nof two lines.")
    table = made.add_table(2, 3)
    for at, text in enumerate(("What", "How long", "Why", "Fry", "2 min", "")):
        table.cell(at // 3, at % 3).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    made.add_paragraph("After.")
    made.add_heading("Deep", 2)
    made.add_paragraph("عمیق")
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def with_part(data: bytes, name: str, change: "bytes | None" = None, **more: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, change if member.filename == name and change else old.read(member))
        for extra, content in more.items():
            new.writestr(f"word/media/{extra}.png", content)
    return out.getvalue()


def test_paragraphs_and_tables_below_headings(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.docx", word()))
    assert documents[0].title == "Whole"
    part = "Text\nof two lines.\n\nWhat | How long Why\nFry | 2 min | \n\nAfter."
    assert [(section.heading, section.text.replace("  ", " ")) for section in sections(documents)] == [
        ("", "Before."),
        ("Part", part),
        ("Part › Deep", "عمیق"),
    ]


def test_the_title_in_the_properties(tmp_path: Path) -> None:
    made = document()
    made.core_properties.title = "Of its own"
    made.add_paragraph("Text")
    made.save(str(tmp_path / "a.docx"))
    assert read(tmp_path / "a.docx")[0].title == "Of its own"


@pytest.mark.parametrize("end", [0, 2_000, -100])
def test_a_broken_document_is_set_aside(tmp_path: Path, end: int) -> None:
    with pytest.raises(SetAside, match="is broken, or no Word document"):
        read(write(tmp_path / "a.docx", word()[:end]))


def test_what_is_none_is_set_aside(tmp_path: Path) -> None:
    with pytest.raises(SetAside, match="is broken, or no Word document"):
        read(write(tmp_path / "a.docx", b"garbage"))


def test_a_zip_of_something_else_is_set_aside(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(SetAside, match="is broken, or no Word document"):
        read(tmp_path / "a.docx")


def test_a_document_with_a_password_is_set_aside(tmp_path: Path) -> None:
    with pytest.raises(SetAside, match="has a password"):
        read(write(tmp_path / "a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 1000))


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    data = with_part(word(), "", None, bomb=b"0" * 3_000_000)
    assert len(data) < 100_000
    with pytest.raises(SetAside, match="unpacks to more than 2 MiB"):
        read(write(tmp_path / "a.docx", data), Limits(unpacked_bytes=2 * 1024 * 1024))


@pytest.mark.parametrize(
    "entities",
    [
        '<!ENTITY l0 "lol">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12)),
        '<!ENTITY l11 SYSTEM "file:///etc/passwd">',
        '<!ENTITY l11 SYSTEM "http://127.0.0.1:9/x">',
    ],
)
def test_entities_are_neither_blown_up_nor_fetched(tmp_path: Path, entities: str) -> None:
    with zipfile.ZipFile(io.BytesIO(word())) as archive:
        body = archive.read("word/document.xml").decode()
    head, _, rest = body.partition("?>")
    body = f"{head}?><!DOCTYPE w:document [{entities}]>{rest.replace('Before.', 'Before &l11;')}"
    path = write(tmp_path / "a.docx", with_part(word(), "word/document.xml", body.encode()))
    try:
        documents = read(path)
    except SetAside:
        return
    text = "".join(section.text for section in sections(documents))
    assert len(text) < 500
    assert "root:" not in text
    assert "After." in text


def test_limits_count_what_is_inside(tmp_path: Path) -> None:
    with pytest.raises(SetAside, match="unpacks"):
        read(write(tmp_path / "a.docx", word()), Limits(unpacked_bytes=1_000))
