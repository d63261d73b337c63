"""The fakes that ship: they do what they say, and what a real model and channel would do."""

import asyncio

import pytest

from pixi import Author, CommandEnded, Engine, Persona
from pixi.core.channel import Channel
from pixi.core.errors import ChannelError, ModelError
from pixi.core.events import Noted, Sent
from pixi.core.llm import Finished, Request, Text, ToolCall, UserLine
from pixi.models.model import Model
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.context import Context

ASKED = Request((UserLine("hi"),))


async def test_replies_come_in_pieces_and_end() -> None:
    model: Model = ScriptedModel("abcdef", piece=4)
    assert [delta async for delta in model.stream(ASKED)] == [Text("abcd"), Text("ef"), Finished()]


async def test_steps_come_as_they_are() -> None:
    call = ToolCall("1", "dice", "{}")
    model = ScriptedModel([0.001, "ab", call, Finished("length")], piece=0)
    assert [delta async for delta in model.stream(ASKED)] == [Text("ab"), call, Finished("length")]


async def test_a_reply_may_be_made_from_the_request() -> None:
    model = ScriptedModel(lambda request: request.lines[-1].text * 2)
    assert [delta async for delta in model.stream(ASKED)] == [Text("hihi"), Finished()]
    assert model.requests == [ASKED]


async def test_it_fails_as_told_and_at_its_end() -> None:
    model = ScriptedModel(["a", ModelError("gone")])
    with pytest.raises(ModelError, match="gone"):
        _ = [delta async for delta in model.stream(ASKED)]
    with pytest.raises(ModelError, match="no reply left"):
        _ = [delta async for delta in model.stream(ASKED)]
    assert model.streaming == 0


async def test_streams_that_were_left_open_are_counted() -> None:
    model = ScriptedModel(["a", asyncio.Event()])
    stream = model.stream(ASKED)
    assert await anext(stream) == Text("a")
    assert model.streaming == 1
    await stream.aclose()
    assert model.streaming == 0


async def test_a_channel_remembers_and_performs_a_nonce_once() -> None:
    channel = RecordingChannel()
    door: Channel = channel
    first = await door.send("hi", nonce="1-1")
    assert await door.send("hi", nonce="1-1") == first
    await door.react("m1", "🥞", nonce="1-2")
    await door.react("m1", "🥞", nonce="1-2")
    await door.typing()
    door.show(Noted("hm"))
    door.show(Sent("hi"))
    assert channel.sent == ["hi"]
    assert channel.reactions == [("m1", "🥞")]
    assert channel.notes == ["hm"]
    assert channel.typed == 1
    assert channel.ended == []


async def test_a_channel_cuts_what_is_too_long_and_knows_what_it_was_sent_before() -> None:
    channel = RecordingChannel(part_length=3)
    door: Channel = channel
    assert list(door.parts("abcdefgh")) == ["abc", "def", "gh"]
    assert list(RecordingChannel().parts("abcdefgh")) == ["abcdefgh"]
    assert list(RecordingChannel().parts("")) == []
    assert not door.paced
    sent = await door.send("abc", nonce="1-1", answers="m1", reply_to="m0")
    assert await door.sent_before("abc", nonce="1-1", after="m1") == sent
    assert await door.sent_before("abc", nonce="1-2", after="m1") is None
    (post,) = channel.posts
    assert (post.id, post.answers, post.reply_to) == (sent, "m1", "m0")


async def test_a_channel_refuses_as_told() -> None:
    channel = RecordingChannel()
    channel.refuse |= {"send", "react", "typing"}
    for act in (channel.send("hi", nonce="1"), channel.react("m", "🥞", nonce="2"), channel.typing()):
        with pytest.raises(ChannelError):
            await act
    assert channel.sent == []
    assert channel.nonces == []


def test_messages_have_ids_authors_and_times_of_their_own() -> None:
    channel = RecordingChannel("test:x")
    one, two = channel.message("a"), channel.message("b", author="Ana", addressed=False, id="7")
    assert one.id != two.id == "7"
    assert one.author == Author("1", "Mo")
    assert two.author.name == "Ana"
    assert two.sent_at == one.sent_at + 1
    assert one.conversation == two.conversation == "test:x"


async def test_ten_lines_of_python() -> None:
    pixi = Persona(name="Pixi", prompt="You are Pixi, an art student who loves pancakes.")
    model = ScriptedModel("[REACT: 🥞]\n[SEND: pancakes!]\n[DRAW: a cat]")
    async with Engine(model=model, persona=pixi) as engine:

        @engine.command
        async def draw(context: Context, what: str) -> None:
            """draw a picture"""
            await context.send(f"*draws {what}*")

        channel = RecordingChannel()
        await engine.receive(channel.message("what's for breakfast?"), channel)
        await engine.settled()
    assert channel.sent == ["pancakes!", "*draws a cat*"]
    assert CommandEnded("send", "hi") == CommandEnded("send", "hi", complete=True)


async def test_a_sticker_waits_as_all_else_before_it_is_looked_for() -> None:
    channel = RecordingChannel()
    channel.refuse.add("sticker")
    with pytest.raises(ChannelError, match="refused to sticker"):
        await channel.sticker("wave", nonce="1")
