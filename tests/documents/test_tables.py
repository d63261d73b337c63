from pathlib import Path

import pytest

from pixi.documents import SetAside
from pixi.documents.files import Document, Section
from tests.documents.at_hand import read, write


def row(text: str, line: int) -> tuple[Section, ...]:
    return (Section(text, line=line, on_one_line=True),)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_rows_become_documents(tmp_path: Path, separator: str) -> None:
    table = 'id,name,price,note\n7,Pan,3,"two\nlines, ""quoted"""\n8,"A, B",4,\n\n,,,\n9,C,5,x,more\n'
    table = table.replace("A, B", "A B").replace("lines, ", "lines ").replace(",", separator)
    assert read(write(tmp_path / "a.csv", table)) == (
        Document("7", "Pan", row('price: 3\nnote: two\nlines "quoted"', 2)),
        Document("8", "A B", row("price: 4", 4)),
        Document("9", "C", row("price: 5\nnote: x\ncolumn 5: more", 7)),
    )


def test_a_row_without_an_id_is_named_by_what_it_says(tmp_path: Path) -> None:
    table = "city,people\nParis,2\nLyon,1\n"
    before = read(write(tmp_path / "a.csv", table))
    after = read(write(tmp_path / "a.csv", table.replace("Paris,2\n", "Nice,3\nNizza,4\n")))
    assert before[1].sections[0].text == "city: Lyon\npeople: 1"
    assert before[1].key == after[2].key
    assert len({document.key for document in after}) == 3


@pytest.mark.parametrize(
    ("cells", "title"),
    [
        ("Paris,2", "Paris"),
        ("1,Lyon", "Lyon"),
        ("3,4", ""),
        (f"{'long words ' * 9},x", f"{'long words ' * 5}long …"),
    ],
)
def test_a_row_that_names_nothing_is_shown_by_its_first_words(tmp_path: Path, cells: str, title: str) -> None:
    (made,) = read(write(tmp_path / "a.csv", f"place,people\n{cells}\n"))
    assert made.title == title


@pytest.mark.parametrize(
    ("table", "first"),
    [
        ("Germany,Berlin,3\nFrance,Paris,4\n", "column 1: Germany\ncolumn 2: Berlin\ncolumn 3: 3"),
        ("a,a\n1,2\n", "column 1: a\ncolumn 2: a"),
        ("yes,x\nyes,y\nno,z\n", "column 1: yes\ncolumn 2: x"),
        ("one row,only\n", "column 1: one row\ncolumn 2: only"),
        ("country,capital\nGermany,Berlin\n", "country: Germany\ncapital: Berlin"),
        ("word\nalpha\nbeta\n", "alpha"),
    ],
)  # fmt: skip
def test_a_first_row_that_names_columns_is_told_from_others(tmp_path: Path, table: str, first: str) -> None:
    documents = read(write(tmp_path / "a.csv", table))
    assert documents[0].sections[0].text == first


def test_tsv_of_another_encoding(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.tsv", "title\ttext\nA, b\tعسل, c\n".encode("utf-16")))
    assert documents == (Document("A, b", "A, b", row("عسل, c", 2)),)


def test_what_is_no_table_is_set_aside_or_read_as_rows(tmp_path: Path) -> None:
    with pytest.raises(SetAside):
        read(write(tmp_path / "a.csv", bytes(range(256)) * 10))
    assert read(write(tmp_path / "b.csv", "\n\n")) == ()
    assert len(read(write(tmp_path / "c.csv", 'a,"never closed\n' + "b,c\n" * 1000))) == 1
    assert read(write(tmp_path / "d.csv", "x" * 200_000))[0].sections[0].text.endswith("xxx")
