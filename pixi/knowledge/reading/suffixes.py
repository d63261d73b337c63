"""Which files can be read, told by the ends of their names."""

import os

MARKDOWN = frozenset({".md", ".markdown"})
PLAIN = frozenset({".txt", ".text"})
RESTRUCTURED = frozenset({".rst", ".rest"})
HTML = frozenset({".html", ".htm", ".xhtml"})
JSON = frozenset({".json"})
JSON_LINES = frozenset({".jsonl", ".ndjson"})
TABLES = frozenset({".csv", ".tsv"})
PDF = frozenset({".pdf"})
WORD = frozenset({".docx"})
EPUB = frozenset({".epub"})
ZST = frozenset({".zst", ".json.zst", ".jsonl.zst", ".ndjson.zst"})

SUFFIXES = MARKDOWN | PLAIN | RESTRUCTURED | HTML | JSON | JSON_LINES | TABLES | PDF | WORD | EPUB | ZST
"""What can be read: lower-case, with the dot. Every one of two parts ends like one of a single part."""


def suffix_of(name: str) -> str:
    """The suffix by which a file is read, in lower case, of two parts where it has two; "" where it is not.

    Args:
        name: of a file, without its folders.
    """
    start, last = os.path.splitext(name.lower())
    if last == ".zst":
        both = os.path.splitext(start)[1] + last
        return both if both in SUFFIXES else last
    return last if last in SUFFIXES else ""
