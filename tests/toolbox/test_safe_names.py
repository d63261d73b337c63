"""Names in every script, made such that every model server takes them."""

import random

from hypothesis import given
from hypothesis import strategies as st

from pixi.toolbox.schema import LONGEST_NAME, safe_names
from tests.toolbox.narrow import NAME, PROPERTY


def test_a_safe_name_stays() -> None:
    assert safe_names(["getWeather", "list-files", "a_b"], before="time_") == {
        "getWeather": "time_getWeather",
        "list-files": "time_list-files",
        "a_b": "time_a_b",
    }


def test_what_is_latin_stays_and_another_script_is_named() -> None:
    found = safe_names(["天气", "查询weather", "météo", "погода", "files.read", "7zip", "!!"], before="s_")
    assert found["查询weather"] == "s_weather"
    assert found["météo"] == "s_meteo"
    assert found["files.read"] == "s_files_read"
    assert found["7zip"] == "s_7zip"
    assert found["天气"].startswith("s_cjk_")
    assert found["погода"].startswith("s_cyrillic_")
    assert found["!!"].startswith("s_name_")


def test_names_that_would_be_the_same_are_told_apart_and_the_safe_one_keeps_it() -> None:
    found = safe_names(["a.b", "a_b", "a b"])
    assert found["a_b"] == "a_b"
    assert len(set(found.values())) == 3
    assert all(each.startswith("a_b") for each in found.values())


def test_long_names_are_cut_and_still_differ() -> None:
    found = safe_names(["x" * 100 + "1", "x" * 100 + "2"], before="server_")
    assert {len(each) for each in found.values()} == {LONGEST_NAME}
    assert len(set(found.values())) == 2


@given(st.lists(st.text(max_size=80), max_size=12), st.randoms(), st.sampled_from(["", "srv_"]))
def test_whatever_the_names_all_are_safe_different_and_independent_of_order(
    names: list[str], chance: random.Random, before: str
) -> None:
    found = safe_names(names, before=before)
    assert found.keys() == set(names)
    assert len(set(found.values())) == len(found)
    assert all((NAME if before else PROPERTY).fullmatch(each) for each in found.values())
    chance.shuffle(names)
    assert safe_names(names, before=before) == found
