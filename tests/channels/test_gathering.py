"""The channel of a program that asks and waits."""

import pytest

from pixi.channels.gathering import GatheringChannel
from pixi.core.channel import Question
from pixi.core.errors import ChannelError, ChannelForgot
from pixi.core.events import Failed, Reacted, Sourced, ToolCalled, TurnEnded
from pixi.core.llm import Cited
from pixi.core.message import Card, Picture, Rights


async def test_all_that_is_said_and_shown_is_gathered_in_order() -> None:
    news: list[str] = []
    channel = GatheringChannel(news.append)
    channel.show(ToolCalled("1", "weather_forecast", {}))
    await channel.send("look:", nonce="a")
    await channel.card(Card(title="Oslo", text="rain"), nonce="b")
    await channel.picture(Picture("a wet cat", "https://example.org/cat"), nonce="c")
    channel.show(Reacted("☔"))
    channel.show(Sourced((Cited("https://example.org", "Weather"),)))
    channel.show(TurnEnded("length", 1))
    assert channel.messages[0] == "look:"
    assert "Oslo" in channel.messages[1]
    assert channel.messages[2] == "[picture: a wet cat · https://example.org/cat]"
    assert (channel.reactions, channel.finish, channel.failure) == (["☔"], "length", "")
    assert channel.sources == [{"title": "Weather", "url": "https://example.org"}]
    assert news == ["using weather_forecast", *channel.messages]


async def test_nobody_governs_or_agrees_to_anything_from_here() -> None:
    channel = GatheringChannel()
    assert await channel.rights("mcp:Mo") == Rights()
    assert await channel.approve(Question("mcp:Mo", "wipe", "wipes", "", "n"), seconds=5) == "nobody"
    with pytest.raises(ChannelError):
        await channel.sticker("wave", nonce="s")


async def test_only_what_was_said_last_is_known_to_have_been_said() -> None:
    channel = GatheringChannel()
    await channel.send("hi", nonce="a")
    assert await channel.sent_before("hi", nonce="a", after="") == "a"
    with pytest.raises(ChannelForgot):
        await channel.sent_before("hi", nonce="b", after="")


def test_what_went_wrong_is_kept() -> None:
    channel = GatheringChannel()
    channel.show(Failed("The model is away."))
    channel.show(TurnEnded("error", 1))
    assert (channel.failure, channel.finish) == ("The model is away.", "error")
