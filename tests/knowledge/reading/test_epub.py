import zipfile
from pathlib import Path

import pytest

from pixi.knowledge.reading import Limits, SetAside
from tests.knowledge.reading.at_hand import read, sections, write

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


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = epub(tmp_path / "a.epub", c3="<p>" + "0" * 3_000_000)
    assert path.stat().st_size < 20_000
    with pytest.raises(SetAside, match="unpacks to more than 1 MiB"):
        read(path, Limits(unpacked_bytes=1024 * 1024))


def test_what_lies_outside_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "secret.xhtml", "<p>secret</p>")
    package = PARTS["OEBPS/book.opf"].replace("text/c3.xhtml", "../../secret.xhtml")
    documents = read(epub(tmp_path / "a.epub", book=package))
    assert "secret" not in "".join(section.text for section in sections(documents))


@pytest.mark.parametrize("changes", [{"container": None}, {"book": None}, {"container": "<x/>"}])
def test_a_broken_book_is_set_aside(tmp_path: Path, changes: dict[str, "str | None"]) -> None:
    with pytest.raises(SetAside, match="is broken, or no EPUB"):
        read(epub(tmp_path / "a.epub", **changes))


@pytest.mark.parametrize("data", [b"", b"garbage", b"PK\x03\x04" + b"x" * 100])
def test_what_is_no_archive_is_set_aside(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SetAside, match="is broken, or no EPUB"):
        read(write(tmp_path / "a.epub", data))
