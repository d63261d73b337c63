import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pypdf import PdfWriter

from pixi.knowledge.entry import Section
from pixi.knowledge.reading import Documents, Readers, SetAside
from tests.knowledge.reading.at_hand import read, sections, write

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
    [b"", b"%PDF-1.7\n", b"garbage" * 1000, pdf(line("x"))[:200], b"%PDF-1.4\n" + bytes(range(256)) * 50],
)
def test_a_broken_pdf_is_set_aside(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SetAside, match="is broken, or no PDF"):
        read(write(tmp_path / "a.pdf", data))


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
