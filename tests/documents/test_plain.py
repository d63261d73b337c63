from pathlib import Path

import pytest

from pixi.documents import SetAside
from pixi.documents.files import Section
from tests.documents.at_hand import check_lines, read, sections, write

GERMAN = "Pfannkuchen werden aus Mehl, Eiern und Milch gemacht.\nMan bäckt sie süß, für alle schön.\n"
JAPANESE = (
    "パンケーキは小麦粉と卵と牛乳で作る薄い菓子です。\n両面を焼きます。蜂蜜をかけて食べるとおいしい。\n"
)
CHINESE = "煎饼是用面粉、鸡蛋和牛奶做成的薄饼。\n把面糊倒进平底锅，两面煎成金黄色，淋上蜂蜜就可以吃了。\n"
ARABIC = "الفطيرة تصنع من الدقيق والبيض والحليب.\nتخبز في المقلاة وتؤكل مع العسل في الصباح.\n"
RUSSIAN = "Блины делают из муки, яиц и молока.\nИх жарят на сковороде и едят с мёдом или сметаной.\n"
KOREAN = "팬케이크는 밀가루와 달걀과 우유로 만듭니다.\n프라이팬에 양면을 굽고 꿀을 뿌려 먹습니다.\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "utf-8"),
        (GERMAN, "utf-8-sig"),
        (GERMAN, "utf-16"),
        (GERMAN, "utf-16-le"),
        (GERMAN, "utf-16-be"),
        (GERMAN, "utf-32"),
        (GERMAN, "utf-32-le"),
        (GERMAN, "cp1252"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (JAPANESE, "iso2022_jp"),
        (JAPANESE, "utf-16"),
        (CHINESE, "gb18030"),
        (CHINESE.replace("面", "麵"), "gb18030"),
        (ARABIC, "cp1256"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (RUSSIAN, "utf-16-le"),
        (KOREAN, "euc_kr"),
    ],
)
def test_text_of_every_encoding_is_read(tmp_path: Path, text: str, encoding: str) -> None:
    documents = read(write(tmp_path / "a.txt", text.encode(encoding)))
    assert sections(documents) == (Section(text.strip(), line=1),)


def test_what_tells_the_encoding_may_stand_far_down(tmp_path: Path) -> None:
    text = "plain\n" * 50_000 + JAPANESE
    assert sections(read(write(tmp_path / "a.txt", text.encode("shift_jis"))))[-1].text.endswith(
        "食べるとおいしい。"
    )


def test_one_broken_byte_does_not_make_it_another_encoding(tmp_path: Path) -> None:
    data = (CHINESE * 20).encode()
    documents = read(write(tmp_path / "a.txt", data[:300] + b"\xff" + data[300:]))
    text = "\n".join(section.text for section in sections(documents))
    assert text.count("\N{REPLACEMENT CHARACTER}") <= 3
    assert "淋上蜂蜜就可以吃了" in text


@pytest.mark.parametrize("data", [bytes(range(256)) * 100, b"\x7fELF\0\0\0\x01" * 100, b"\0" * 4000])
def test_what_is_no_text_is_set_aside(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SetAside, match="no text"):
        read(write(tmp_path / "a.txt", data))


def test_sections_end_where_paragraphs_do(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number}. " + "Words of it. " * 30 for number in range(60)]
    text = "\n\n".join(paragraphs)
    documents = read(write(tmp_path / "a.txt", text))
    check_lines(documents, text)
    found = sections(documents)
    assert 8 <= len(found) <= 20
    assert all(section.text.startswith("Paragraph") for section in found)
    assert "\n\n".join(section.text for section in found) == text


@pytest.mark.parametrize("word", ["word ", "字", "Sentence here. ", "句。", "x"])
def test_a_text_without_an_end_is_parted(tmp_path: Path, word: str) -> None:
    text = "first\n\n" + word * 30_000 + "\n\nlast"
    found = sections(read(write(tmp_path / "a.txt", text)))
    assert all(len(section.text) <= 16_000 for section in found)
    assert "".join(section.text for section in found).replace("\n", "") == text.replace("\n", "")
    assert {section.line for section in found} <= {1, 3, 5}
    assert found[-1].text.endswith("last")


def test_lines_without_paragraphs_are_parted_between_lines(tmp_path: Path) -> None:
    text = "\n".join(f"line {number} of the log" for number in range(5_000))
    documents = read(write(tmp_path / "a.txt", text))
    check_lines(documents, text)
    assert len(sections(documents)) > 5
