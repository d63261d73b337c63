"""The numbers by which entries are asked for: made from where an entry stands, so that they never move."""

import unicodedata
from collections.abc import Callable, Iterator
from hashlib import blake2b

_SHORT = (100_000, 999_999)
_LONG = (100_000_000, 999_999_999)


def candidates(path: str, key: str) -> Iterator[int]:
    """The ids an entry may have, without end: one of six digits, then others of nine.

    They hang on nothing but path and key, so that a folder read anew on another machine has the same ids
    but for the few that met in one number.
    """
    # Computers differ in how they spell an accent in a file's name.
    place = f"{unicodedata.normalize('NFC', path)}\0{key}".encode("utf-8", "surrogatepass")
    salt = 0
    while True:
        low, high = _LONG if salt else _SHORT
        number = int.from_bytes(blake2b(place, digest_size=8, salt=salt.to_bytes(4, "big")).digest(), "big")
        yield low + number % (high - low + 1)
        salt += 1


def new_id(path: str, key: str, taken: Callable[[int], bool]) -> int:
    """The first id that is free."""
    return next(number for number in candidates(path, key) if not taken(number))
