"""Word, EPUB and PDF."""

import io
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pixi.documents import Documents, FileLimits, SetAside
from pixi.documents.files import Section
from pixi.documents.readers import Readers
from tests.documents.at_hand import read, sections, write

if TYPE_CHECKING:
    from docx.document import Document
    from pypdf import PdfWriter


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


@pytest.mark.parametrize("end", [10, 2_000, -100])
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
        read(write(tmp_path / "a.docx", data), FileLimits(unpacked_bytes=2 * 1024 * 1024))


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


PARTS = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": (
        '<?xml version="1.0"?><container xmlns="urn:x"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf" media-type="x"/></rootfiles></container>'
    ),
    "OEBPS/book.opf": (
        '<?xml version="1.0"?><opf:package xmlns:opf="o" xmlns:dc="d">'
        "<opf:metadata><dc:title>A Book</dc:title>"
        "</opf:metadata><opf:manifest>"
        '<opf:item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        '<opf:item id="v" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
        '<opf:item id="c1" href="text/c%201.xhtml" media-type="application/xhtml+xml"/>'
        '<opf:item id="c2" href="text/c2.xhtml" media-type="application/xhtml+xml"/>'
        '<opf:item id="c3" href="text/c3.xhtml" media-type="application/xhtml+xml"/>'
        '<opf:item id="p" href="p.png" media-type="image/png"/></opf:manifest>'
        '<opf:spine toc="n"><opf:itemref idref="v"/><opf:itemref idref="c2"/><opf:itemref idref="c1"/>'
        '<opf:itemref idref="c3"/><opf:itemref idref="p"/><opf:itemref idref="nobody"/></opf:spine>'
        "</opf:package>"
    ),
    "OEBPS/toc.ncx": (
        "<ncx><navMap><navPoint><navLabel><text>From the contents</text></navLabel>"
        '<content src="text/c%201.xhtml#a"/></navPoint></navMap></ncx>'
    ),
    "OEBPS/nav.xhtml": '<html><body><nav><a href="text/c3.xhtml">فصل سوم</a></nav></body></html>',
    "OEBPS/text/c 1.xhtml": "<html><head><title/></head><body><p>one<a id='x'/> more</p></body></html>",
    "OEBPS/text/c2.xhtml": (
        "<html><head><title>t</title></head><body><h1>Two</h1><p>two &amp; &#x4e8c;</p>"
        "<h2>Deep</h2><p>d</p></body></html>"
    ),
    "OEBPS/text/c3.xhtml": "<html><body><p>three</p></body></html>",
}


def epub(path: Path, **changes: "str | None") -> Path:
    names = {name.rpartition("/")[2].partition(".")[0].replace(" ", ""): name for name in PARTS}
    parts = dict(PARTS)
    for key, content in changes.items():
        name = names.get(key, key)
        if content is None:
            del parts[name]
        else:
            parts[name] = content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def test_chapters_come_in_the_order_of_reading(tmp_path: Path) -> None:
    documents = read(epub(tmp_path / "a.epub"))
    assert documents[0].title == "A Book"
    assert [(section.heading, section.text) for section in sections(documents)] == [
        ("Two", "two & 二"),
        ("Two › Deep", "d"),
        ("From the contents", "one more"),
        ("فصل سوم", "three"),
    ]
    assert {section.line for section in sections(documents)} == {0}


def test_a_missing_chapter_is_told(tmp_path: Path) -> None:
    documents = read(epub(tmp_path / "a.epub", c3=None))
    assert len(sections(documents)) == 3
    assert documents.note == "1 of its chapters are missing; save it anew"


def test_a_protected_book_is_set_aside(tmp_path: Path) -> None:
    encryption = '<encryption><enc:CipherReference URI="OEBPS/text/c2.xhtml"/></encryption>'
    with pytest.raises(SetAside, match="protected"):
        read(epub(tmp_path / "a.epub", **{"META-INF/encryption.xml": encryption}))


def test_scrambled_fonts_do_not_make_it_protected(tmp_path: Path) -> None:
    encryption = '<encryption><enc:CipherReference URI="OEBPS/font.otf"/></encryption>'
    assert len(read(epub(tmp_path / "a.epub", **{"META-INF/encryption.xml": encryption}))) == 1


def test_a_million_laughs_stay_one(tmp_path: Path) -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    package = f"<!DOCTYPE x [{laughs}]>" + PARTS["OEBPS/book.opf"].replace("A Book", "A Book &l11;")
    chapter = f"<!DOCTYPE x [{laughs}]><html><body><p>&l11; three</p></body></html>"
    documents = read(epub(tmp_path / "a.epub", book=package, c3=chapter))
    assert "three" in sections(documents)[-1].text
    assert sum(len(section.text) for section in sections(documents)) < 2_000


def test_a_bomb_of_a_book_is_not_unpacked(tmp_path: Path) -> None:
    path = epub(tmp_path / "a.epub", c3="<p>" + "0" * 3_000_000)
    assert path.stat().st_size < 20_000
    with pytest.raises(SetAside, match="unpacks to more than 1 MiB"):
        read(path, FileLimits(unpacked_bytes=1024 * 1024))


def test_what_lies_outside_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "secret.xhtml", "<p>secret</p>")
    package = PARTS["OEBPS/book.opf"].replace("text/c3.xhtml", "../../secret.xhtml")
    documents = read(epub(tmp_path / "a.epub", book=package))
    assert "secret" not in "".join(section.text for section in sections(documents))


@pytest.mark.parametrize("changes", [{"container": None}, {"book": None}, {"container": "<x/>"}])
def test_a_broken_book_is_set_aside(tmp_path: Path, changes: dict[str, "str | None"]) -> None:
    with pytest.raises(SetAside, match="is broken, or no EPUB"):
        read(epub(tmp_path / "a.epub", **changes))


@pytest.mark.parametrize("data", [b"garbage", b"PK\x03\x04" + b"x" * 100])
def test_what_is_no_archive_is_set_aside(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SetAside, match="is broken, or no EPUB"):
        read(write(tmp_path / "a.epub", data))


PERSIAN = "پنکیک با عسل"


def rewritten(data: bytes) -> "PdfWriter":
    """A PDF that can be altered, by what is large in memory and imported for these tests alone."""
    from pypdf import PdfReader, PdfWriter

    return PdfWriter(clone_from=PdfReader(io.BytesIO(data)))


def pdf(*streams: bytes, packed: bool = False, letters: str = "") -> bytes:
    """A PDF with a page for each stream; the codes 1, 2, … of its second font, /U, stand for the letters."""
    count = len(streams)
    kids = " ".join(f"{10 + 2 * at} 0 R" for at in range(count))
    pairs = "\n".join(f"<{at:04X}> <{ord(letter):04X}>" for at, letter in enumerate(letters, 1))
    to_unicode = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def\n"
        f"1 begincodespacerange <0000> <FFFF> endcodespacerange\n{len(letters)} beginbfchar\n{pairs}\n"
        "endbfchar endcmap end end"
    )
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        4: b"<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [5 0 R] "
        b"/ToUnicode 6 0 R >>",
        5: b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /CIDSystemInfo << /Registry (Adobe) "
        b"/Ordering (Identity) /Supplement 0 >> /DW 500 >>",
        6: f"<< /Length {len(to_unicode)} >>\nstream\n{to_unicode}\nendstream".encode(),
    }
    for at, stream in enumerate(streams):
        extra = b"/Filter /FlateDecode " if packed else b""
        objects[10 + 2 * at] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {11 + 2 * at} 0 R "
            "/Resources << /Font << /F 3 0 R /U 4 0 R >> >> >>"
        ).encode()
        objects[11 + 2 * at] = b"<< %s/Length %d >>\nstream\n%s\nendstream" % (extra, len(stream), stream)
    out = io.BytesIO(b"%PDF-1.7\n")
    out.seek(0, io.SEEK_END)
    places = {}
    for number, body in objects.items():
        places[number] = out.tell()
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 1\n0000000000 65535 f \n")
    for number, place in places.items():
        out.write(b"%d 1\n%010d 00000 n \n" % (number, place))
    out.write(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (max(objects) + 1, start))
    return out.getvalue()


def line(text: str) -> bytes:
    return b"BT /F 12 Tf 50 700 Td (" + text.encode("latin-1") + b") Tj ET"


def persian() -> tuple[bytes, str]:
    letters = "".join(dict.fromkeys(PERSIAN))
    # Drawn from left to right, as typesetters do: the last letter first.
    codes = "".join(f"{letters.index(letter) + 1:04X}" for letter in reversed(PERSIAN))
    return f"BT /U 12 Tf 50 700 Td <{codes}> Tj ET".encode(), letters


def test_pages_are_told(tmp_path: Path) -> None:
    stream, letters = persian()
    path = write(tmp_path / "a.pdf", pdf(line("Page one"), b"", stream, line("Page four"), letters=letters))
    found = sections(read(path))
    assert [section.page for section in found] == [1, 3, 4]
    assert (found[0], found[2]) == (Section("Page one", page=1), Section("Page four", page=4))
    assert sorted(found[1].text.replace(" ", "")) == sorted(PERSIAN.replace(" ", ""))


def test_the_table_of_contents_gives_headings_and_the_head_a_title(tmp_path: Path) -> None:
    writer = rewritten(pdf(*[line(f"Page {n}") for n in range(1, 5)]))
    part = writer.add_outline_item(title="Part", page_number=1)
    writer.add_outline_item(title="Chapter", page_number=2, parent=part)
    writer.add_metadata({"/Title": "Microsoft Word - Book"})
    writer.write(tmp_path / "a.pdf")
    documents = read(tmp_path / "a.pdf")
    assert documents[0].title == "Book"
    assert [section.heading for section in sections(documents)] == [
        "",
        "Part",
        "Part › Chapter",
        "Part › Chapter",
    ]


def test_a_pdf_with_a_password_is_set_aside(tmp_path: Path) -> None:
    writer = rewritten(pdf(line("secret")))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(tmp_path / "a.pdf")
    with pytest.raises(SetAside, match="is encrypted; save a copy without a password"):
        read(tmp_path / "a.pdf")


def test_a_pdf_that_asks_for_no_password_is_read(tmp_path: Path) -> None:
    writer = rewritten(pdf(line("for all")))
    writer.encrypt("", "owner", algorithm="RC4-128")
    writer.write(tmp_path / "a.pdf")
    assert sections(read(tmp_path / "a.pdf")) == (Section("for all", page=1),)


def test_pictures_of_pages_are_set_aside(tmp_path: Path) -> None:
    with pytest.raises(SetAside, match="OCR"):
        read(write(tmp_path / "a.pdf", pdf(b"", b"0 0 m 100 100 l S")))


@pytest.mark.parametrize(
    "data",
    [b"%PDF-1.7\n", b"garbage" * 1000, pdf(line("x"))[:200], b"%PDF-1.4\n" + bytes(range(256)) * 50],
)
def test_a_broken_pdf_is_set_aside(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SetAside, match="is broken, or no PDF"):
        read(write(tmp_path / "a.pdf", data))


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.epub"])
def test_an_empty_file_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetAside, match="is empty: 0 bytes; save it anew"):
        read(write(tmp_path / name, b""))


async def test_a_page_that_unpacks_to_too_much_is_passed_over_and_told(tmp_path: Path) -> None:
    packing = zlib.compressobj(1)
    huge = b"".join(packing.compress(b"0" * 1_000_000) for _ in range(80)) + packing.flush()
    fine = zlib.compress(line("fine"))
    path = write(tmp_path / "a.pdf", pdf(fine, huge, fine, packed=True))
    async with Readers(workers=1) as readers:  # in a process of its own, for what it takes
        documents = await readers.read(path)
    assert isinstance(documents, Documents)
    assert [section.page for section in sections(documents)] == [1, 3]
    assert documents.note.startswith("the text of page 2 cannot be read")
