"""Long text as a person is shown it who is to decide upon it."""


def shortened(text: str, limit: int) -> tuple[str, int]:
    """A text with its middle left out where it is too long, and how many characters that are.

    The end stays: who wants to hide something from whoever is to say yes would write it there.
    """
    if len(text) <= limit:
        return text, 0
    half = limit // 2
    return f"{text[:half]}\n…\n{text[-half:]}", len(text) - 2 * half
