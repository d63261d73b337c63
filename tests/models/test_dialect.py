"""What a provider wants back with its calls, kept by their ids."""

from pixi.models.dialects.dialect import ProviderState


def test_what_was_kept_is_found_by_each_of_its_calls() -> None:
    kept: ProviderState[str] = ProviderState()
    kept.keep(["a", "b"], "thoughts")
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == ("thoughts", "thoughts", None)


def test_what_was_asked_for_least_lately_is_let_go() -> None:
    kept: ProviderState[int] = ProviderState(most=2)
    kept.keep(["a"], 1)
    kept.keep(["b"], 2)
    assert kept.get("a") == 1
    kept.keep(["c"], 3)
    assert [kept.get(each) for each in "abc"] == [1, None, 3]
