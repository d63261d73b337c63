import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import discord
import pytest

from pixi.channels.discord.incoming import catch_up
from pixi.channels.discord.incoming.catch_up import CatchUp, MissedChannel, Watermarks
from pixi.channels.discord.places import own_member
from pixi.core.llm import Usage
from pixi.store.kept import TurnRecord
from tests.channels.discord.incoming import Incoming, incoming
from tests.channels.discord.rest_discord import BOT, DM, FORUM, GENERAL, GUILD, POST, THREAD

HOUR = 3_600.0


class Return:
    """The bot comes back: what was missed, and what of it is heard."""

    def __init__(self, here: Incoming) -> None:
        self.here = here
        self.marks = Watermarks(here.backend)
        self.heard: list[str] = []
        self.broken = ""
        self.catching_up = CatchUp(here.client, here.backend, self.marks, here.directory, self.hear)

    async def hear(self, message: discord.Message) -> None:
        if message.content == self.broken:
            self.marks.freeze(message.channel.id)
            return
        self.heard.append(message.content)
        self.marks.raise_to(message.channel.id, message.id)

    async def missed(self, *, direct: bool = False) -> Sequence[MissedChannel]:
        await self.marks.load(BOT, discord.utils.time_snowflake(discord.utils.utcnow()))
        return await self.catching_up.missed(self.here.client.guilds, direct=direct)

    async def catch_up(self, *, direct: bool = False) -> list[str]:
        for each in await self.missed(direct=direct):
            await self.catching_up.read(each)
        return self.heard


@pytest.fixture
async def here() -> AsyncIterator[Incoming]:
    async with incoming() as made:
        yield made


def mark(here: Incoming, payload: dict[str, Any]) -> None:
    """Everything up to this message was dealt with."""
    here.backend.marks[f"discord:{BOT}:{payload['channel_id']}:"] = int(payload["id"])


async def test_at_the_first_start_nothing_was_missed(here: Incoming) -> None:
    here.sent("Pixi?", 60)
    back = Return(here)

    assert await back.catch_up(direct=True) == []
    assert back.marks.marks.keys() == {catch_up._NOWHERE}
    assert here.rest.asked == []


async def test_what_came_after_the_watermark_is_heard_in_its_order(here: Incoming) -> None:
    mark(here, here.sent("known", 100))
    here.sent("one", 50)
    here.sent("two", 20)

    assert await Return(here).catch_up() == ["one", "two"]


async def test_an_unknown_channel_that_is_met_while_guilds_are_looked_through_is_left_for_the_next_time(
    here: Incoming,
) -> None:
    mark(here, here.sent("known", 100))
    here.sent("one", 50)
    coming = Return(here)

    def guilds() -> Iterator[discord.Guild]:
        yield from here.client.guilds
        coming.marks.meet(4_711, 4_712)  # in a thread that another shard was not told of, meanwhile

    await coming.marks.load(BOT, discord.utils.time_snowflake(discord.utils.utcnow()))
    missed = await coming.catching_up.missed(guilds(), direct=True)
    assert [each.channel.id for each in missed] == [GENERAL]


async def test_a_channel_where_nothing_came_is_not_asked_for(here: Incoming) -> None:
    here.sent("older", 100)
    mark(here, here.sent("known", 50))

    assert await Return(here).catch_up() == []
    assert here.rest.asked == []


async def test_what_is_older_than_the_limit_is_left_alone() -> None:
    async with incoming(catch_up_minutes=30.0) as here:
        mark(here, here.sent("known", 3 * HOUR))
        here.sent("too late", 1 * HOUR)
        here.sent("in time", 60)

        assert await Return(here).catch_up() == ["in time"]


async def test_of_many_the_newest_are_read() -> None:
    async with incoming(catch_up_messages=3) as here:
        mark(here, here.sent("known", 900))
        for number in range(10):
            here.sent(f"message {number}", 100 - number)

        assert await Return(here).catch_up() == ["message 7", "message 8", "message 9"]


@pytest.mark.parametrize("rules", [{"catch_up_messages": 0}, {"catch_up_minutes": 0.0}])
async def test_catching_up_can_be_switched_off(rules: dict[str, Any]) -> None:
    async with incoming(**rules) as here:
        mark(here, here.sent("known", 100))
        here.sent("missed", 50)

        assert await Return(here).catch_up() == []


async def test_a_channel_without_a_watermark_counts_from_the_last_of_all(here: Incoming) -> None:
    here.sent("before we went", 80, channel=THREAD)
    here.sent("while we were away", 40, channel=THREAD)
    here.sent("here too", 30, channel=POST)
    mark(here, here.sent("the last that was dealt with", 60))

    assert await Return(here).catch_up() == ["here too", "while we were away"]


async def test_where_nothing_was_heard_yet_all_counts_since_the_bot_came_whatever_other_shards_heard() -> (
    None
):
    async with incoming() as here:
        mark(here, here.sent("the bot came", 100) | {"channel_id": 0})
        here.sent("missed", 60)
        mark(here, here.sent("heard elsewhere", 20) | {"channel_id": 999})

        assert await Return(here).catch_up() == ["missed", "heard elsewhere"]


async def test_direct_messages_are_asked_for_by_their_watermarks(here: Incoming) -> None:
    mark(here, here.sent("known", 100, channel=DM))
    here.sent("are you there?", 50, channel=DM)
    here.backend.marks[f"discord:{BOT}:404:"] = 5

    assert await Return(here).catch_up() == []
    assert await Return(here).catch_up(direct=True) == ["are you there?"]


async def test_a_channel_that_may_not_be_read_is_not_asked_for(here: Incoming) -> None:
    mark(here, here.sent("known", 100))
    here.sent("missed", 50)
    guild: Any = here.client.get_guild(GUILD)
    guild.default_role._permissions = discord.Permissions(view_channel=True).value

    assert await Return(here).missed() == []


async def test_a_refused_history_costs_one_line_and_is_not_asked_for_again(
    here: Incoming, caplog: pytest.LogCaptureFixture
) -> None:
    mark(here, here.sent("known", 100))
    here.sent("missed", 50)
    back = Return(here)
    here.rest.broken = True
    with caplog.at_level(logging.INFO, logger="pixi.discord"):
        await back.catch_up()
    await back.marks.write()
    here.rest.broken = False

    assert await Return(here).catch_up() == []
    told = [record.levelname for record in caplog.records if record.module == "catch_up"]
    assert told == ["WARNING"]


async def test_a_message_that_could_not_be_dealt_with_comes_again_after_the_next_start(
    here: Incoming,
) -> None:
    mark(here, here.sent("known", 100))
    here.sent("one", 50)
    here.sent("two", 40)
    here.sent("three", 30)
    back = Return(here)
    back.broken = "two"
    await back.catch_up()
    await back.marks.write()

    assert back.heard == ["one", "three"]
    assert await Return(here).catch_up() == ["two", "three"]


async def test_channels_with_a_conversation_come_first_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catch_up, "_CHANNELS", 2)
    async with incoming() as here:
        record = TurnRecord(1, "", "Pixi", "m", 0.0, "stop", 1, Usage(), None, (), (), ())
        here.backend.past[f"discord:{BOT}:{THREAD}:pixi"] = [record]
        mark(here, here.sent("known", 200, channel=DM))
        here.sent("ours", 100, channel=THREAD)
        here.sent("another", 50, channel=POST)
        here.sent("newest", 20)

        assert [each.channel.id for each in await Return(here).missed()] == [THREAD, GENERAL]


async def test_channels_that_hold_no_messages_are_passed_over(here: Incoming) -> None:
    mark(here, here.sent("known", 200, channel=DM))
    forum: Any = here.client.get_channel(FORUM)
    forum.last_message_id = discord.utils.time_snowflake(discord.utils.utcnow())

    assert await Return(here).missed() == []


async def test_a_membership_that_discord_py_made_up_says_nothing_of_what_the_bot_may_do(
    here: Incoming,
) -> None:
    guild: Any = here.client.get_guild(GUILD)
    assert own_member(guild) is guild.me is not None
    state, bot = here.client._connection, here.client.user
    assert bot is not None
    guild._add_member(discord.Member._from_client_user(user=bot, guild=guild, state=state))
    assert own_member(guild) is None
