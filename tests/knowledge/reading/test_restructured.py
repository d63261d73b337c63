from pathlib import Path

import pytest

from tests.knowledge.reading.at_hand import check_lines, read, sections, write

TEXT = """\
.. _top:

=======
  Title
=======

Intro.

Part
----

Text::

    code
    ====

    more
    ----

Sub
~~~

=====  =====
A      B
=====  =====
1      2
=====  =====

Part 2
------
Right below.

-----

After a line.

短い
====

.. include:: /etc/passwd
.. raw:: html

   <script>
"""


def test_sections_stand_below_their_titles_on_their_lines(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.rst", TEXT))
    assert documents[0].title == "Title"
    assert [(section.heading, section.line) for section in sections(documents)] == [
        ("", 1),
        ("", 7),
        ("Part", 12),
        ("Part › Sub", 23),
        ("Part 2", 31),
        ("Part 2 › 短い", 40),
    ]
    check_lines(documents, TEXT)


def test_what_directives_name_is_not_opened(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.rst", TEXT))
    assert ".. include:: /etc/passwd" in sections(documents)[-1].text
    assert "root:" not in sections(documents)[-1].text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Title\n=====\n\ntext", "Title"),
        ("=====\nTitle\n=====\n\ntext", "Title"),
        ("Longer title\n====\n\ntext", "Longer title"),
        ("ab\n--\n\ntext", "ab"),
        ("abcdef\n--\n\ntext", ""),
        ("a paragraph\nof two lines\n============\n\ntext", ""),
        ("  indented\n==========\n\ntext", ""),
        ("text\n\n----\n\ntext", ""),
        ("+---+\n| a |\n+---+\n", ""),
    ],
)
def test_titles(tmp_path: Path, text: str, title: str) -> None:
    assert read(write(tmp_path / "a.rst", text))[0].title == title
