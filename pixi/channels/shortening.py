"""Long text as a person is shown it who is to decide upon it."""


def shortened(text: str, limit: int, gap: str = "\n…\n") -> tuple[str, int]:
    """A text with its middle left out where it is too long, and how many characters that are.

    The end stays: who wants to hide something from whoever is to say yes would write it there. In `gap`,
    which stands for the middle, `{}` becomes that number.
    """
    if len(text) <= limit:
        return text, 0
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}{gap.format(left_out)}{text[-half:]}", left_out
