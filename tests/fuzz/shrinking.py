"""Makes a failing reply small: greedily takes away pieces, large ones first, while it still fails."""

from collections.abc import Callable

from tests.fuzz.laws import Input


def shrunk(subject: Input, fails: Callable[[Input], bool]) -> Input:
    """A smallest input that `fails` still says True of. `subject` must fail."""
    while True:
        smaller = next((candidate for candidate in _smaller(subject) if fails(candidate)), None)
        if smaller is None:
            return subject
        subject = smaller


def _smaller(subject: Input) -> list[Input]:
    """Simpler inputs, the simplest first; each is shorter, has fewer cuts, or has plainer characters."""
    reply, cuts = subject.reply, subject.cuts
    found = [Input(reply, tuple(range(len(reply) + 1)))] if len(cuts) > len(reply) + 1 else []
    size = len(reply)
    while size >= 1:
        places = range(0, len(reply) - size + 1, max(1, size // 2))
        found += [Input(reply[:at] + reply[at + size :], _moved(cuts, at, size)) for at in places]
        size //= 2
    found += [Input(reply, cuts[:at] + cuts[at + 1 :]) for at in range(len(cuts))]
    for at, sign in enumerate(reply):
        if sign.isalnum() and sign != "a":
            found.append(Input(reply[:at] + "a" + reply[at + 1 :], cuts))
    return found


def _moved(cuts: tuple[int, ...], at: int, size: int) -> tuple[int, ...]:
    """The cuts once `size` characters at `at` are gone: each stays between its two characters."""
    return tuple(sorted({cut if cut <= at else max(at, cut - size) for cut in cuts}))
