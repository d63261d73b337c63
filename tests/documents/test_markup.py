"""Markdown and reStructuredText: sections below headings, each with its line."""

from pathlib import Path

import pytest

from pixi.documents.files import Section
from tests.documents.at_hand import check_lines, read, sections, write

TEXT = """\
---
title: "The: whole"
author: Pixi
---
Before.

# Pancakes

Flour, *eggs*,
milk.

## How to [fry](http://example.org) `them` {#fry}

1. Heat.

```python
# not a heading
## nor this
```

After.

### Deep ###

Deeper.

Underlined
==========

Text.

Also
underlined
---

Last.
"""


def test_sections_stand_below_their_headings_on_their_lines(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.md", TEXT))
    assert documents[0].title == "The: whole"
    assert [(section.heading, section.line) for section in sections(documents)] == [
        ("", 1),
        ("Pancakes", 9),
        ("Pancakes › How to fry them", 14),
        ("Pancakes › How to fry them › Deep", 25),
        ("Underlined", 30),
        ("Underlined › Also underlined", 36),
    ]
    check_lines(documents, TEXT)
    assert "# not a heading\n## nor this\n```\n\nAfter." in sections(documents)[2].text
    assert "author: Pixi" in sections(documents)[0].text


@pytest.mark.parametrize("breaks", ["\r\n", "\r"])
def test_other_line_breaks_count_alike(tmp_path: Path, breaks: str) -> None:
    path = write(tmp_path / "a.md", TEXT.replace("\n", breaks))
    check_lines(read(path), TEXT)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Only\n\ntext", "Only"),
        ("text\n\n# Later\n\ntext", "Later"),
        ("## Second level alone\n\ntext", "Second level alone"),
        ("# One\n\ntext\n\n# Two\n\ntext", ""),
        ("---\ntitle: Plain\n---\n# Other\n\ntext", "Plain"),
        ("---\ntitle: 'it''s: quoted'\n---\ntext", "it's: quoted"),
        ("---\ntitle: >\n  folded\n  words\n---\ntext", "folded words"),
        ("---\ntitle: [a, b]\n---\n# Head\n\ntext", "Head"),
        ("---\ntitle: 2020-13-45\nx: 'y\n---\n# Head\n\ntext", "2020-13-45"),
        ("---\ntitle: 'never closed\n---\n# Head\n\ntext", "Head"),
        ("---\nno end\n# Head\n\ntext", "Head"),
        ("no title", ""),
        ("# A **bold** &amp; \\*plain\\* `code` <b>tag</b> snake_case_name _it_\n\nx",
         "A bold & *plain* code tag snake_case_name it"),
        ("#No heading\n\nx", ""),
        ("    # code\n\nx", ""),
        ("<!-- # comment\n# comment\n-->\ntext", ""),
        ("~~~~\n# code\n~~~\n# code still\n~~~~\ntext", ""),
        ("- list\n---\n\ntext", ""),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", ""),
    ],
)  # fmt: skip
def test_titles(tmp_path: Path, text: str, title: str) -> None:
    assert read(write(tmp_path / "a.md", text))[0].title == title


def test_front_matter_with_nothing_but_a_title_is_no_text(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.md", "---\ntitle: T\n---\n\ntext\n"))
    assert sections(documents) == (Section("text", line=5),)


def test_a_heading_with_nothing_below_is_found_by_its_words(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.md", "# T\n\n## Leads\n\n### Alone\n\n## Last\n"))
    assert sections(documents) == (
        Section("Alone", "Leads › Alone", line=5),
        Section("Last", "Last", line=7),
    )


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "   \n\t\n"])
def test_an_empty_file_has_no_documents(tmp_path: Path, text: str) -> None:
    assert read(write(tmp_path / "a.md", text)) == ()


def test_a_title_alone_is_a_document(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.md", "# T\n"))
    assert documents[0].title == "T"
    assert sections(documents) == (Section("T", line=1),)


def test_yaml_with_a_million_laughs_is_not_opened(tmp_path: Path) -> None:
    laughs = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))
    documents = read(write(tmp_path / "a.md", f"---\ntitle: 'x: y'\na0: &a0 lol\n{laughs}\n---\ntext\n"))
    assert documents[0].title == "x: y"


@pytest.mark.parametrize("line", ["[" * 50_000, "#" * 50_000, "*_`" * 20_000, "`" * 50_000, "- " * 30_000])
def test_a_hostile_line_takes_no_time(tmp_path: Path, line: str) -> None:
    text = f"# {line}\n\n{line}\n---\n\n{line}\n"
    check_lines(read(write(tmp_path / "a.md", text)), text)


RESTRUCTURED = """\
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
    documents = read(write(tmp_path / "a.rst", RESTRUCTURED))
    assert documents[0].title == "Title"
    assert [(section.heading, section.line) for section in sections(documents)] == [
        ("", 1),
        ("", 7),
        ("Part", 12),
        ("Part › Sub", 23),
        ("Part 2", 31),
        ("Part 2 › 短い", 40),
    ]
    check_lines(documents, RESTRUCTURED)


def test_what_directives_name_is_not_opened(tmp_path: Path) -> None:
    documents = read(write(tmp_path / "a.rst", RESTRUCTURED))
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
def test_titles_of_restructured_text(tmp_path: Path, text: str, title: str) -> None:
    assert read(write(tmp_path / "a.rst", text))[0].title == title
