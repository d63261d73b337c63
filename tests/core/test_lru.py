"""The mapping that keeps what was used last."""

from pixi.core.lru import LRU


def test_what_was_not_used_for_longest_goes() -> None:
    kept: LRU[str, int] = LRU(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c"), len(kept)) == (1, None, 3, 2)


def test_what_weighs_too_much_goes_but_for_the_last() -> None:
    kept: LRU[str, str] = LRU(10, 5, len)
    kept.put("a", "xx")
    kept.put("b", "yyy")
    kept.put("a", "x")  # replaced, so lighter
    kept.put("c", "z")
    assert len(kept) == 3
    kept.put("d", "wwwwwwww")
    assert (len(kept), kept.get("d")) == (1, "wwwwwwww")
    kept.put("e", "v")
    assert (kept.get("d"), kept.get("e")) == (None, "v")


def test_what_is_dropped_weighs_nothing() -> None:
    kept: LRU[str, str] = LRU(10, 3, len)
    kept.put("a", "xx")
    kept.drop("a")
    kept.drop("a")
    kept.put("b", "yy")
    kept.put("c", "z")
    assert (kept.get("a"), len(kept)) == (None, 2)
