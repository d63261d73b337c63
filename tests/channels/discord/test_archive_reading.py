"""What was written before, as it stands there: pins, messages round another, and posts of forums."""

from collections.abc import AsyncIterator

import pytest

from pixi.channels.discord.archive import archive, search
from pixi.core.channel import ArchiveQuery
from pixi.core.errors import ChannelError
from tests.channels.discord.archives import SEARCH, desk, reading_room
from tests.channels.discord.room import Room


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with reading_room() as room:
        yield room


@pytest.mark.parametrize("old", [False, True])
async def test_pins_are_read_newest_first(room: Room, old: bool) -> None:
    if old:
        room.discord.fail("GET", r"/messages/pins$", 404, times=None)
    recipes = room.guild.channel("recipes")
    for text in ("the rules", "the dates"):
        recipes.pin(await recipes.say(room.ana, text))
    room.general.pin(await room.general.say(room.ana, "welcome"))
    here = await desk(room, room.general)
    pins = await here.archive.pins("recipes", here.asking, limit=10)
    assert [each.text for each in pins.messages] == ["the dates", "the rules"]
    mine = await here.archive.pins("", here.asking, limit=10)
    assert [each.text for each in mine.messages] == ["welcome"]
    assert (await here.archive.pins("recipes", here.asking, limit=1)).messages == pins.messages[:1]


async def test_a_hit_is_read_with_what_stands_round_it(room: Room) -> None:
    said = [await room.general.say(room.ana, f"line {number}") for number in range(9)]
    await room.general.system(room.ana)
    here = await desk(room, room.general)
    link = (await here.search("line 4")).messages[0].link
    for way, numbers in (("around", range(2, 7)), ("before", range(4)), ("after", range(5, 9))):
        found = await here.archive.read(link, here.asking, way=way, limit=5)  # type: ignore[arg-type]
        lines = [each.text for each in found.messages if each.text.startswith("line")]
        assert lines == [f"line {number}" for number in numbers]
    newest = await here.archive.read("general", here.asking, way="around", limit=4)
    assert [each.text for each in newest.messages][:2] == ["line 7", "line 8"]
    oldest = await here.archive.read(room.general.mention, here.asking, way="after", limit=2)
    assert [each.text for each in oldest.messages] == ["line 0", "line 1"]
    assert oldest.messages[0].link.endswith(str(said[0].id))


async def test_the_more_messages_are_read_the_less_of_each(room: Room) -> None:
    await room.general.say(room.ana, "pancake " * 240)
    here = await desk(room, room.general)
    for limit, longest in ((2, 1_919), (25, 480)):
        found = await here.archive.read("general", here.asking, way="after", limit=limit)
        assert len(found.messages[0].text) == longest


@pytest.mark.parametrize("searched", [True, False])
async def test_posts_come_with_tags_answers_and_whether_they_are_solved(room: Room, searched: bool) -> None:
    if not searched:
        room.discord.fail("GET", SEARCH, 404, times=None)
    forum = room.guild.forum("questions", tags=["✅ Solved", "heat", "Unsolved"])
    solved = await forum.post(
        room.mo, "My pancake sticks", "It sticks to the pan. Why?", tags=["✅ Solved", "heat"]
    )
    await solved.say(room.ana, "no idea")
    best = await solved.say(room.ana, "Let the butter foam first, then the pancake does not stick.")
    await best.react(room.mo, "✅")
    await solved.say(room.mo, "thank you so much, that was it!")
    opened = await forum.post(room.ana, "Cold plates", "Where do I keep a pancake warm?", tags=["Unsolved"])
    await forum.post(room.ana, "Juice", "Orange or apple?")
    solved.update(archived=searched, locked=True)
    here = await desk(room, room.general)
    found = await here.archive.posts(ArchiveQuery("pancake sticks", limit=3), here.asking)
    first = found.posts[0]
    assert (first.title, first.place, first.solved, first.closed) == (
        "My pancake sticks",
        "#questions",
        True,
        True,
    )
    assert set(first.tags) == {"✅ Solved", "heat"}
    assert first.answers == 3
    assert first.first is not None
    assert first.first.text == "It sticks to the pan. Why?"
    assert first.best[0].text == "Let the butter foam first, then the pancake does not stick."
    assert first.best[0].link.endswith(f"/{solved.id}/{best.id}")
    assert first.link.endswith(f"/channels/{room.guild.id}/{solved.id}")
    warm = await here.archive.posts(ArchiveQuery("keep warm", "questions", limit=3), here.asking)
    assert [(each.title, each.solved) for each in warm.posts] == [("Cold plates", False)]
    assert warm.posts[0].link.endswith(str(opened.id))
    with pytest.raises(ChannelError, match="#general is no forum"):
        await here.archive.posts(ArchiveQuery("pancake", "general"), here.asking)
    with pytest.raises(ChannelError, match="#questions is a forum"):
        await here.archive.read("questions", here.asking, way="around", limit=5)


async def test_where_not_every_forum_was_asked_for_what_is_archived_that_is_told(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        await room.guild.forum(f"forum-{number}").post(room.ana, f"Pancake {number}", "pancake?")
    here = await desk(room, room.general)
    room.discord.fail("GET", r"/threads/archived", 403, code=50001)
    whole = await here.archive.posts(ArchiveQuery("pancake"), here.asking)
    assert (len(whole.posts), whole.partial) == (2, "")
    monkeypatch.setattr(archive, "_FORUMS", 1)
    some = await here.archive.posts(ArchiveQuery("pancake"), here.asking)
    assert (len(some.posts), some.partial) == (2, search.NOT_ALL)


async def test_posts_are_asked_for_before_the_search_which_may_use_up_the_time(room: Room) -> None:
    await room.guild.forum().post(room.ana, "Pancake", "pancake?")
    here = await desk(room, room.general)
    await here.archive.posts(ArchiveQuery("pancake"), here.asking)
    asked = [each.path for each in room.discord.asked("GET", rf"/threads/archived|{SEARCH}")]
    assert "/threads/archived" in asked[0]
    assert "/messages/search" in asked[1]


async def test_posts_of_whom_the_rules_block_are_left_out(room: Room) -> None:
    forum = room.guild.forum()
    await forum.post(room.ana, "Pancake of Ana", "pancake?")
    here = await desk(room, room.general)
    assert len((await here.archive.posts(ArchiveQuery("pancake"), here.asking)).posts) == 1
    room.backend.obey(blocked_users=(room.ana.id,))
    assert (await here.archive.posts(ArchiveQuery("pancake"), here.asking)).posts == []
