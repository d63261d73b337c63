"""What strangers wrote, in forms that can pass for nothing else in a prompt."""

_LONGEST_NAME = 60

# What a model may take for the end of a name that stands in quotation marks.
_QUOTATION_MARKS = str.maketrans(dict.fromkeys('"＂“”„‟〝〞″', "'"))


def quoted(text: str) -> str:
    """Each line behind `> `; "" for a text that is blank."""
    # `splitlines` knows every character that some model or server takes for the end of a line.
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def clipped(text: str, longest: int) -> str:
    """The text without blanks round it, cut where it is longer than so many characters."""
    text = text.strip()
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def one_line(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name without line breaks, invisible characters and quotation marks, cut where it is long."""
    visible = "".join(c if c.isprintable() else " " for c in name.translate(_QUOTATION_MARKS))
    return " ".join(visible.split())[:longest].strip()
