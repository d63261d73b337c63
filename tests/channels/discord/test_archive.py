"""What was written before: found by Discord's search or without it, told with links and harmless."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from pixi.channels.discord.archive import archive, requests, search
from pixi.core.channel import ArchiveQuery, Asker
from pixi.core.errors import ChannelError
from pixi.settings.rules import Rules
from pixi.testing.discord import Permission
from pixi.testing.discord.calls import ApiCall
from tests.channels.discord.archives import SEARCH, desk, reading_room
from tests.channels.discord.room import Room

DAY = 86_400.0


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with reading_room() as room:
        yield room


async def test_a_message_is_found_with_its_author_place_time_and_link(room: Room) -> None:
    wiki = room.guild.channel("recipes")
    old = await wiki.say(room.ana, "The batter rests for an hour, then the first pancake.", age=2 * DAY)
    await wiki.say(room.ana, "nothing of the kind")
    here = await desk(room, room.general)
    (found,) = (await here.search("batter pancake")).messages
    assert (found.author, found.place, found.bot) == ("Ana", "#recipes", False)
    assert found.text == "The batter rests for an hour, then the first pancake."
    assert found.at == pytest.approx(old.created, abs=1.0)
    origin = room.discord.world.origin
    assert found.link == f"{origin}/channels/{room.guild.id}/{wiki.id}/{old.id}"


async def test_what_is_asked_now_is_not_found_itself(room: Room) -> None:
    await room.general.say(room.ana, "who said well? I did")
    here = await desk(room, room.general)
    assert await here.texts("well?") == {"who said well? I did"}


async def test_a_message_that_pings_and_a_name_that_pings_are_told_harmless(room: Room) -> None:
    secret = room.guild.channel("secret-plan")
    secret.overwrite(room.discord.bot, allow=Permission.VIEW_CHANNEL)
    secret.overwrite(room.guild.everyone, deny=Permission.VIEW_CHANNEL)
    evil = room.discord.person("evil", display="@everyone Evil")
    text = f"@everyone pancakes, {room.ana.mention}! {room.general.mention} {secret.mention}"
    await room.general.say(evil, text)
    (found,) = (await (await desk(room, room.general)).search("pancakes")).messages
    assert found.text == "@\u200beveryone pancakes, @Ana! #general #unknown"
    assert found.author == "@\u200beveryone Evil"


async def test_a_long_message_is_cut_round_what_was_sought(room: Room) -> None:
    await room.general.say(room.ana, "before " * 120 + "the griddle is hot. " + "after " * 120)
    (found,) = (await (await desk(room, room.general)).search("griddle")).messages
    assert "the griddle is hot." in found.text
    assert found.text.startswith("…")
    assert len(found.text) <= 240


@pytest.mark.parametrize("searched", [True, False])
async def test_a_search_is_kept_to_a_place_an_author_and_a_time(room: Room, searched: bool) -> None:
    if not searched:
        room.discord.fail("GET", SEARCH, 404, times=None)
    recipes = room.guild.channel("🥞│recipes")
    await recipes.say(room.ana, "pancake of Ana, new")
    await recipes.say(room.ana, "pancake of Ana, old", age=9 * DAY)
    await room.general.say(room.mo, "pancake of Mo")
    here = await desk(room, room.general)
    now = time.time()
    everything = {"pancake of Ana, new", "pancake of Ana, old", "pancake of Mo"}
    assert await here.texts("pancake") == everything
    for place in ("recipes", "#🥞│recipes", recipes.mention, str(recipes.id)):
        assert await here.texts("pancake", place) == everything - {"pancake of Mo"}
    for author in ("Mo", "@mo", room.mo.mention, str(room.mo.id)):
        assert await here.texts("pancake", author=author) == {"pancake of Mo"}
        assert "pancake of Mo" in await here.texts("", author=author)
    assert await here.texts("pancake", before=now - DAY) == {"pancake of Ana, old"}
    assert await here.texts("pancake", after=now - DAY) == everything - {"pancake of Ana, old"}
    assert await here.texts("pancake", limit=1) < everything
    with pytest.raises(ChannelError, match="Nobody here goes by the name 'Zoe'"):
        await here.texts("pancake", author="Zoe")


async def test_where_names_of_members_are_not_told_authors_are_known_by_what_they_wrote(room: Room) -> None:
    room.discord.fail("GET", r"/members/search$", 404, times=None)
    await room.general.say(room.ana, "pancake of Ana")
    await room.general.say(room.mo, "pancake of Mo")
    assert await (await desk(room, room.general)).texts("pancake", author="ana") == {"pancake of Ana"}


async def test_an_index_that_is_not_ready_is_waited_for_a_little(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_LEAST_WAIT", 0.05)
    await room.general.say(room.ana, "the griddle is hot")
    here = await desk(room, room.general)
    room.discord.world.index_waits = 1
    found = await here.search("griddle")
    assert (len(found.messages), found.partial) == (1, "")
    room.discord.world.index_waits = 10**6
    monkeypatch.setattr(search, "_FOR_INDEX", 0.1)
    late = await here.search("griddle hot")
    assert [each.text for each in late.messages] == ["the griddle is hot"], "what was written last is read"
    assert late.partial == search.STILL_INDEXING


@pytest.mark.parametrize(("status", "code"), [(404, 0), (405, 0), (403, 50001)])
async def test_where_there_is_no_search_what_was_written_last_is_read(
    room: Room, status: int, code: int
) -> None:
    room.discord.fail("GET", SEARCH, status, code=code, times=None)
    await room.general.say(room.ana, "我最喜欢松饼")
    await room.general.say(room.ana, "Wie wendet man Pfannkuchen?")
    here = await desk(room, room.general)
    found = await here.search("松饼")
    assert [each.text for each in found.messages] == ["我最喜欢松饼"]
    assert found.partial == search.ONLY_LATEST
    assert await here.texts("Pfannkuchen wenden") == {"Wie wendet man Pfannkuchen?"}
    assert len(room.discord.asked("GET", SEARCH)) == 1, "it is not asked again and again"


async def test_a_search_that_is_refused_for_its_words_is_not_the_last_one(room: Room) -> None:
    room.discord.fail("GET", SEARCH, 400, code=50035, times=1)
    await room.general.say(room.ana, "the griddle is hot")
    here = await desk(room, room.general)
    found = await here.search("griddle")
    assert ([each.text for each in found.messages], found.partial) == (["the griddle is hot"], search.NOT_ALL)
    assert (await here.search("griddle")).partial == ""


async def test_ids_and_days_that_cannot_be_are_not_asked_for(room: Room) -> None:
    await room.general.say(room.ana, "the griddle is hot")
    here = await desk(room, room.general)
    far = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
    assert await here.texts("griddle", before=far) == {"the griddle is hot"}
    assert await here.texts("griddle", after=far) == set()
    assert await here.texts("griddle", author="9" * 40) == set()
    asked = [call.query for call in room.discord.asked("GET", SEARCH)]
    ids = [int(query[name]) for query in asked for name in ("max_id", "min_id", "author_id") if name in query]
    assert len(ids) == 5
    assert max(ids) < 2**63


async def test_what_was_found_is_told_where_the_next_page_cannot_be_had(room: Room) -> None:
    for number in range(30):
        await room.general.say(room.ana, f"griddle {number}")
    here = await desk(room, room.general)
    room.discord.after(
        "GET", SEARCH, lambda _: (room.discord.fail("GET", SEARCH, 400, code=50035), None)[1], times=1
    )
    found = await here.search("griddle", limit=30)
    assert (len(found.messages), found.partial) == (25, search.NOT_ALL)


async def test_a_long_history_is_read_in_pages_as_far_as_is_good(room: Room) -> None:
    room.discord.fail("GET", SEARCH, 404, times=None)
    await room.general.say(room.ana, "a needle, and it is too far away", age=DAY)
    for number in range(120):
        await room.general.say(room.ana, f"hay {number}", age=DAY / 2 - number)
    await room.general.say(room.ana, "hay at last")
    here = await desk(room, room.general)
    assert len(await here.texts("needle")) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_PAGES", 1)
        assert await here.texts("a needle") == set()


async def test_a_server_that_shows_the_bot_no_words_is_told_of(room: Room) -> None:
    room.discord.world.shows_content = False
    await room.general.say(room.ana, "the griddle is hot")
    found = await (await desk(room, room.general)).search("griddle")
    assert found.messages == ()
    assert found.partial.startswith(search.NOT_SHOWN)


async def test_a_server_that_takes_its_time_is_not_waited_for(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_SECONDS", 0.3)
    here = await desk(room, room.general)
    asked: list[ApiCall] = []
    going_on = asyncio.Event()

    async def hang(call: ApiCall) -> None:
        asked.append(call)
        await going_on.wait()

    room.discord.before("GET", r"/messages", hang)
    with pytest.raises(ChannelError, match="no time left"):
        await here.search("griddle")
    paths = [call.path for call in asked]
    assert len(set(paths)) == len(paths), "what hangs is not asked for again when the time is over"
    going_on.set()


async def test_a_search_that_hangs_leaves_time_for_reading(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_FOR_SEARCH", 0.1)
    await room.general.say(room.ana, "the griddle is hot")
    here, going_on = await desk(room, room.general), asyncio.Event()

    async def hang(_: object) -> None:
        await going_on.wait()

    room.discord.before("GET", SEARCH, hang)
    found = await here.search("griddle")
    assert [each.text for each in found.messages] == ["the griddle is hot"]
    assert found.partial == search.NOT_ALL
    going_on.set()


async def test_the_same_question_is_answered_by_the_rights_of_the_moment(room: Room) -> None:
    recipes = room.guild.channel("recipes")
    await recipes.say(room.ana, "the griddle is hot")
    here = await desk(room, room.general)
    assert await here.texts("griddle", "recipes") == {"the griddle is hot"}
    recipes.overwrite(room.discord.bot, allow=Permission.VIEW_CHANNEL | Permission.READ_MESSAGE_HISTORY)
    recipes.overwrite(room.guild.everyone, deny=Permission.VIEW_CHANNEL)
    await room.settled()
    with pytest.raises(ChannelError, match="There is no such channel"):
        await here.texts("griddle", "recipes")
    assert await here.texts("griddle") == set()


async def test_a_server_of_many_channels_names_them_only_where_it_must(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MOST_PLACES", 2)
    rooms = [room.guild.channel(f"room-{number}") for number in range(4)]
    for number, each in enumerate(rooms):
        await each.say(room.ana, f"griddle {number}")
    here = await desk(room, room.general)
    found = await here.search("griddle")
    assert (len(found.messages), found.partial) == (4, "")
    assert "channel_id" not in room.discord.asked("GET", SEARCH)[-1].query
    rooms[0].overwrite(room.ana, deny=Permission.VIEW_CHANNEL)
    await room.settled()
    found = await here.search("griddle")
    assert {each.text for each in found.messages} < {"griddle 1", "griddle 2", "griddle 3"}
    assert found.partial == search.NOT_ALL


# What the rules say.


async def test_what_the_bot_must_not_hear_it_does_not_read(room: Room) -> None:
    rude = room.guild.role("rude")
    recipes, category = room.guild.channel("recipes"), room.guild.channel("kitchen", "category")
    inside = room.guild.channel("inside", parent=category)
    people = {"ana": room.ana, "mo": room.mo, "rude": room.discord.person("rude")}
    room.guild.join(people["rude"], roles=[rude])
    for name, person in people.items():
        await recipes.say(person, f"griddle of {name}")
    await inside.say(room.ana, "griddle inside")
    here = await desk(room, room.general)
    every = {"griddle of ana", "griddle of mo", "griddle of rude", "griddle inside"}
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, every),
        ({"blocked_channels": (recipes.id,)}, {"griddle inside"}),
        ({"blocked_channels": (category.id,)}, every - {"griddle inside"}),
        ({"allowed_channels": (category.id,)}, {"griddle inside"}),
        ({"allowed_channels": (category.id,), "admins": (room.mo.id,)}, {"griddle inside"}),
        ({"blocked_users": (room.ana.id,)}, {"griddle of mo", "griddle of rude"}),
        ({"blocked_roles": (rude.id,)}, every - {"griddle of rude"}),
        ({"blocked_users": (room.mo.id,)}, set()),
        ({"blocked_guilds": (room.guild.id,)}, set()),
    ]
    for rules, wanted in cases:
        room.backend.rules = Rules(read_history=True, **rules)
        assert await here.texts("griddle") == wanted, rules


async def test_only_members_can_ask(room: Room) -> None:
    await room.general.say(room.ana, "the griddle is hot")
    channel, _ = await room.asked()
    assert channel.archive is not None
    stranger = room.discord.person("stranger")
    for people in ((), (str(stranger.id),), (str(room.mo.id), str(stranger.id)), ("terminal:mo",)):
        with pytest.raises(ChannelError, match="Only members of this server can ask"):
            await channel.archive.search(ArchiveQuery("griddle"), Asker(people))


async def test_who_lost_a_role_a_moment_ago_is_told_no_more(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_FRESH", 0.0)
    here = await desk(room, room.general)
    await room.general.say(room.ana, "the griddle is hot", age=60.0)
    assert await here.texts("griddle") == {"the griddle is hot"}
    room.guild.leave(room.mo)
    with pytest.raises(ChannelError, match="Only members"):
        await here.texts("griddle hot")


async def test_a_direct_message_has_no_archive(room: Room) -> None:
    channel, _ = await room.asked(where=room.discord.dm(room.mo))
    assert channel.archive is None
    assert not channel.abilities.archive


async def test_the_setting_says_whether_there_is_one(room: Room) -> None:
    channel, _ = await room.asked()
    assert channel.abilities.archive
    room.backend.obey(read_history=False)
    assert not channel.abilities.archive
    assert channel.archive is None, "also for a turn that has begun, and for an addon's tool"
