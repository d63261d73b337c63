"""A folder of pictures that are found by the names of their files, in any language; nothing else of it is."""

import os
from functools import partial
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError
from pixi.web import gif_sources as gif_folder
from pixi.web.gif_sources import GifError, GifFolder
from tests.servers.scripted_gifs import frames, moving
from tests.steps import steps_of


def fill(folder: Path, *names: str) -> GifFolder:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(moving(kind="WEBP" if name.endswith("webp") else "GIF"))
    return GifFolder(folder)


async def names(folder: GifFolder, words: str) -> list[str]:
    return [Path(one.file).name for one in await folder.find(words, "en")]


NAMES = (
    "excited cat.gif", "sleepy_dog.gif", "HAPPY-dance 2.gif", "猫.webp", "喜欢吃饼干的熊.gif",
    "고양이 춤.gif", "Müde Katze.gif", "привет.gif", "قطة نائمة.gif", "ねこ 大好き.gif",
    "deep/er/flying pancake (3).gif",
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("excited cat", "excited cat.gif"),
        ("Excited CATS!", "excited cat.gif"),
        ("a very excited cat jumping", "excited cat.gif"),
        ("exited cat", "excited cat.gif"),
        ("dancing, happy dance", "HAPPY-dance 2.gif"),
        ("sleepy dog", "sleepy_dog.gif"),
        ("猫", "猫.webp"),
        ("貓", "猫.webp"),
        ("兴奋的猫", "猫.webp"),
        ("吃饼干", "喜欢吃饼干的熊.gif"),
        ("고양이가", "고양이 춤.gif"),
        ("müde katze", "Müde Katze.gif"),
        ("MÜDE Katzen", "Müde Katze.gif"),
        ("Привет", "привет.gif"),
        ("قطة", "قطة نائمة.gif"),
        ("ねこ", "ねこ 大好き.gif"),
        ("pancake", "flying pancake (3).gif"),
    ],
)
async def test_a_picture_is_found_by_its_words_in_any_language(words: str, name: str, tmp_path: Path) -> None:
    found = await names(fill(tmp_path, *NAMES), words)
    assert found[:1] == [name]


@pytest.mark.parametrize("words", ["submarine", "x", "", "!!!", "gif"])
async def test_what_is_not_there_is_not_found(words: str, tmp_path: Path) -> None:
    assert await names(fill(tmp_path, *NAMES), words) == []


async def test_several_of_one_name_are_all_found_and_described_without_their_numbers(tmp_path: Path) -> None:
    folder = fill(tmp_path, "cat.gif", "cat 2.gif", "cat_3.gif", "cat (4).gif", "cat food.gif", "7.gif")
    found = await folder.find("cat", "en")
    assert [one.words for one in found] == ["cat"] * 4
    assert sorted(Path(one.file).name for one in found) == [
        "cat (4).gif",
        "cat 2.gif",
        "cat.gif",
        "cat_3.gif",
    ]
    assert await names(folder, "7") == ["7.gif"]


async def test_what_comes_and_goes_is_seen_at_the_next_search(tmp_path: Path) -> None:
    folder = fill(tmp_path, "cat.gif")
    assert await names(folder, "dog") == []
    fill(tmp_path, "in/dog.gif")
    assert await names(folder, "dog") == ["dog.gif"]
    (tmp_path / "cat.gif").rename(tmp_path / "cow.gif")
    assert await names(folder, "cat") == []
    (tmp_path / "in" / "dog.gif").unlink()
    assert await names(folder, "dog") == []


async def test_a_picture_is_given_as_it_is_and_goes_on_moving(tmp_path: Path) -> None:
    folder = fill(tmp_path, "cat.gif", "dog.webp")
    for words, kind in (("cat", "image/gif"), ("dog", "image/webp")):
        (found,) = await folder.find(words, "en")
        picture = await folder.fetch(found)
        assert (picture.media_type, frames(picture.data), found.link) == (kind, 2, "")


async def test_links_out_of_the_folder_lead_nowhere(tmp_path: Path) -> None:
    inside, outside = tmp_path / "gifs", tmp_path / "private"
    folder = fill(inside, "cat.gif", "sub/pig.gif")
    fill(outside, "secret.gif")
    (inside / "dog.gif").symlink_to(outside / "secret.gif")
    (inside / "cow.gif").symlink_to(inside / "cat.gif")
    (inside / "all").symlink_to(outside)
    (inside / "round.gif").symlink_to(inside / "round.gif")
    (inside / "gone.gif").symlink_to(inside / "nothing.gif")
    assert folder.count() == 3
    assert await names(folder, "secret") == await names(folder, "dog") == []
    assert await names(folder, "cow") == ["cow.gif"]
    (found,) = await folder.find("cat", "en")
    (inside / "cat.gif").unlink()
    (inside / "cat.gif").symlink_to(outside / "secret.gif")  # between the search and the showing
    with pytest.raises(GifError, match="out of the folder"):
        await folder.fetch(found)


async def test_what_is_no_picture_or_too_large_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path, "cat.gif")
    (tmp_path / "notes.txt").write_text("cat")
    (tmp_path / ".hidden cat.gif").write_bytes(moving())
    (tmp_path / "empty.gif").write_bytes(b"")
    (tmp_path / "liar.gif").write_text("#!/bin/sh")
    os.mkfifo(tmp_path / "pipe.gif")
    assert folder.count() == 2
    (found,) = await folder.find("liar", "en")
    with pytest.raises(GifError, match=r"liar\.gif is no picture"):
        await folder.fetch(found)
    (found,) = await folder.find("cat", "en")
    monkeypatch.setattr(gif_folder, "MOST_BYTES", 50)
    assert GifFolder(tmp_path).count() == 1  # the liar is small enough
    with pytest.raises(GifError, match="larger than"):
        await folder.fetch(found)


async def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    folder = fill(tmp_path / "gifs", "cat.gif")
    (found,) = await folder.find("cat", "en")
    (tmp_path / "gifs" / "cat.gif").unlink()
    (tmp_path / "gifs").rmdir()
    await folder.warm()
    with pytest.raises(GifError, match="cannot be read"):
        await folder.find("cat", "en")
    with pytest.raises(GifError, match=r"cat\.gif: No such file"):
        await folder.fetch(found)
    with pytest.raises(ConfigError, match=r"gifs\.folder: .* there is no such folder; make it"):
        folder.count()


async def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "gifs").write_text("x")
    with pytest.raises(ConfigError, match="Not a directory"):
        GifFolder(tmp_path / "gifs").count()


def test_of_many_pictures_each_costs_a_few_steps(tmp_path: Path) -> None:
    one = tmp_path / "one.bin"
    one.write_bytes(moving())
    steps: dict[int, int] = {}
    for many in (150, 600):
        (tmp_path / f"{many}").mkdir()
        for number in range(many):
            name = f"thing {number:05} {'cat' if number == 123 else 'dog'}.gif"
            (tmp_path / f"{many}" / name).hardlink_to(one)
        folder = GifFolder(tmp_path / f"{many}")
        folder._read()
        (found,) = folder._find("cat")
        assert found.words == "thing 00123 cat"
        steps[many] = steps_of(partial(folder._find, "cat"))
    assert steps[600] < 5 * steps[150]
    assert steps[600] < 600 * 100
