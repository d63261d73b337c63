"""Names that every model server takes, for what strangers have named in any script and with any sign."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from itertools import count

LONGEST_NAME = 64
"""Characters of a tool's name, and of a parameter's."""

_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MARK = 7  # characters of `_` and a mark


def safe_names(names: Iterable[str], *, before: str = "") -> dict[str, str]:
    """For each name one of letters a to z, digits, `_` and `-`, all different, with `before` in front.

    A name that is such a one stays. What is Latin in another stays, accents dropped; one in another script is
    called after the script. Which name each gets follows from the names alone, not from their order.
    """
    names = sorted(set(names))
    room = LONGEST_NAME - len(before)
    plain = {name: _plain(name, begins=not before) for name in names}
    wanted = Counter(each[:room] for each in plain.values())
    safe: dict[str, str] = {}
    taken: set[str] = set()
    # A name that stays as it is has it, whoever else comes near.
    for name in sorted(names, key=lambda name: (plain[name] != name or len(name) > room, name)):
        chosen = plain[name][:room]
        alike = chosen != name and (len(plain[name]) > room or wanted[chosen] > 1)
        if alike or chosen in taken:
            chosen = _marked(name, chosen, room, taken)
        taken.add(chosen)
        safe[name] = before + chosen
    return safe


def mark_of(name: str) -> str:
    """Six characters that stay the same for a name."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()


def _marked(name: str, chosen: str, room: int, taken: set[str]) -> str:
    head = chosen[: max(0, room - _MARK)]
    marked = (f"{head}_{mark_of(name + '#' * more)}"[-room:] for more in count())
    return next(each for each in marked if each not in taken)


def _plain(name: str, *, begins: bool) -> str:
    """The name without what is not safe; `begins`: nothing stands before it, so it begins with a letter."""
    if re.fullmatch(_SAFE if begins else r"[A-Za-z0-9_-]+", name):
        return name
    letters = [c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c)]
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else " " for c in letters)
    plain = "_".join(kept.split())
    whole = sum(c.isalnum() for c in letters)
    if not plain.strip("_-") or 2 * sum(c.isalnum() for c in plain) < whole:
        return f"{_script(name)}_{mark_of(name)}"
    return plain if not begins or _SAFE.fullmatch(plain) else f"_{plain}"


def _script(name: str) -> str:
    """The script of its first letter, in one word: `cjk`, `arabic`, `cyrillic`."""
    letter = next((c for c in name if c.isalpha() and not c.isascii()), "")
    word = unicodedata.name(letter, "NAME").split()[0].split("-")[0].lower() if letter else "name"
    return word if _SAFE.fullmatch(word) else "name"
