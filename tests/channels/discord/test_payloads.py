import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from pixi.channels.discord.gateway.payloads import complete, complete_answer
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.plain_server import PlainServer, plain_server
from tests.channels.discord.rest_discord import BOT, GENERAL, GUILD, MO
from tests.channels.discord.test_bot import backend, lines, running, texts
from tests.waiting import until


def lean(number: int, text: str, **more: Any) -> dict[str, Any]:
    """As little of a message as tells who said what where."""
    author = {"id": str(MO), "username": "mo"}
    return {"id": str(number), "channel_id": str(GENERAL), "author": author, "content": text, **more}


async def test_a_server_that_tells_not_where_to_resume_is_talked_on_and_resumed(server: PlainServer) -> None:
    server.silent = True
    here = backend()
    async with running(server, here):
        await server.say(f"<@{BOT}> one")
        await until(lambda: len(texts(here)) == 1)
        await server.cut()
        await until(lambda: server.resumed)
        await server.say(f"<@{BOT}> two")
        await until(lambda: len(texts(here)) == 2)
    assert len(server.identified) == 1


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"guild_id": str(GUILD), "member": {}},
        dict.fromkeys(("guild_id", "member", "nonce", "webhook_id", "poll", "flags", "embeds", "thread")),
    ],
)
async def test_a_message_of_which_little_is_told_is_heard(server: PlainServer, more: dict[str, Any]) -> None:
    here = backend()
    async with running(server, here):
        newest = int(server.message("before")["id"])
        await server.send("MESSAGE_CREATE", lean(newest + 1, f"<@{BOT}> hi", **more))
        await until(lambda: texts(here))
    assert texts(here)[-1] == "hi"


async def test_an_edit_of_which_only_the_words_are_told_is_passed_on(server: PlainServer) -> None:
    here = backend()
    async with running(server, here):
        asked = await server.say(f"<@{BOT}> one")
        await until(lambda: texts(here))
        part = {"id": asked["id"], "channel_id": asked["channel_id"], "guild_id": str(GUILD)}
        await server.send("MESSAGE_UPDATE", part | {"embeds": []})
        await server.send("MESSAGE_UPDATE", part | {"content": f"<@{BOT}> two"})
        await until(lambda: [each for each in here.asked if each[0] == "edit"])
    edits = [each for each in here.asked if each[0] == "edit"]
    assert len(edits) == 1
    assert "two" in str(edits)


async def test_a_guild_is_there_whatever_is_odd_in_it(
    server: PlainServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.guild["channels"] = [{"id": str(GENERAL), "type": 0, "name": "general"}]
    server.guild |= {"threads": [{"id": "7"}], "members": None, "stickers": [{}], "voice_states": [7]}
    here = backend()
    with caplog.at_level(logging.WARNING):
        async with running(server, here) as told:
            await server.say(f"<@{BOT}> hi")
            await until(lambda: texts(here))
    assert told == ["Connected as Bot, in 1 server."]
    assert [line.partition(":")[0] for line in lines(caplog)] == ["an event GUILD_CREATE could not be read"]


async def test_a_history_that_nobody_can_read_does_not_stop_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = PlainServer.rest

    async def odd(self: PlainServer, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/messages"):
            return web.json_response([{"id": "5", "weird": True}])
        return await usual(self, request)

    monkeypatch.setattr(PlainServer, "rest", odd)
    async with plain_server() as server:
        here = backend()
        async with running(server, here):
            await server.say(f"<@{BOT}> hi")
            await until(lambda: texts(here), "the answer")


def test_nobody_passes_for_a_person_without_roles() -> None:
    told = lean(5, "hi", guild_id=str(GUILD), member={"nick": "Mo"})
    assert complete("MESSAGE_CREATE", told)
    assert "member" not in told


def test_a_deleted_message_that_was_answered_stays_known_as_deleted() -> None:
    told = lean(5, "hi", message_reference={"message_id": "4"}, referenced_message=None)
    assert complete("MESSAGE_CREATE", told)
    assert told["referenced_message"] is None
    assert told["type"] == 19


LEAN: list[dict[str, Any]] = [
    {"thread": None},
    {"thread": {"id": "7", "name": "About syrup"}},
    {"reactions": [{"count": 1, "emoji": {"id": None, "name": "👍"}}]},
    {"attachments": [{"id": "8"}]},
    {"member": {"roles": [{"id": "9"}], "permissions": None}},
    {"mentions": None, "mention_roles": None, "attachments": None, "embeds": None, "components": None},
    {"message_reference": {"message_id": "4"}, "referenced_message": {"id": "4", "content": "what?"}},
    {"interaction": None, "interaction_metadata": None, "poll": None, "call": None, "application": None},
]
ODD: list[dict[str, Any]] = [
    {"message_reference": {"message_id": "4"}, "referenced_message": {"weird": True}},
    {"message_reference": {"message_id": "4"}, "referenced_message": "what?"},
    {"poll": {"weird": True}},
    {"reactions": [7], "sticker_items": [{}], "embeds": ["?"]},
    {"message_reference": "4"},
]


async def test_the_words_of_a_message_are_heard_whatever_is_odd_beside_them(server: PlainServer) -> None:
    here = backend()
    async with running(server, here):
        newest = int(server.message("before")["id"])
        for count, more in enumerate([*LEAN, *ODD], 1):
            told = lean(newest + count, f"<@{BOT}> hi", guild_id=str(GUILD)) | copy.deepcopy(more)
            await server.send("MESSAGE_CREATE", told)
            await count_of(heard, here, count, more)
            del told["guild_id"]
            await server.send(
                "MESSAGE_UPDATE", told | {"content": f"two {count}", "author": {"username": "mo"}}
            )
            await count_of(edits, here, count, more)


def heard(here: RecordingBackend) -> list[Any]:
    return [each for each in texts(here) if each.startswith("hi")]


def edits(here: RecordingBackend) -> list[Any]:
    return [each for each in here.asked if each[0] == "edit"]


async def count_of(
    found: Callable[[RecordingBackend], list[Any]], here: RecordingBackend, count: int, more: object
) -> None:
    await until(lambda: len(found(here)) == count, f"what is told with {more}")


async def test_a_history_is_read_whatever_the_server_leaves_out(server: PlainServer) -> None:
    here = backend()
    async with running(server, here):
        await server.say(f"<@{BOT}> one")
        await until(lambda: texts(here), "the first message")
    for more in LEAN:
        missed = server.message(f"<@{BOT}> two")
        for key in ("mentions", "mention_roles", "attachments", "type"):
            del missed[key]
        missed |= copy.deepcopy(more)
    async with running(server, here):
        await until(lambda: len(texts(here)) == 1 + len(LEAN), "what was missed")


def test_roles_that_are_told_whole_are_roles() -> None:
    member: dict[str, Any] = {"user": {"id": "1"}, "roles": [{"id": "5", "name": "cook"}, "6"]}
    complete_answer("/guilds/{guild_id}/members/{member_id}", member)
    assert member["roles"] == ["5", "6"]
    assert member["user"]["username"] == ""
