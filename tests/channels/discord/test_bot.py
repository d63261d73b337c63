import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord
import pytest
from aiohttp.client_reqrep import ConnectionKey
from discord.http import Route

from pixi.channels.discord import bot
from pixi.channels.discord.bot import Bot
from pixi.channels.discord.gateway import client
from pixi.channels.discord.gateway.client import Shards
from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import find_server
from pixi.core.errors import ConfigError, PixiError, StoreError
from pixi.core.spending import Rate, RateKey
from pixi.store.kept import ChannelConfig
from pixi.store.rates import Rates
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.incoming import PERSONAS
from tests.channels.discord.plain_server import TOKEN, PlainServer, plain_server
from tests.channels.discord.rest_discord import BOT, DM, GENERAL, GUILD
from tests.waiting import LIMIT, until, within


def backend() -> RecordingBackend:
    return RecordingBackend(personas=PERSONAS)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, but for the commands, of which a plain server knows nothing."""
    return [
        text for text in map(logging.LogRecord.getMessage, caplog.records) if "slash commands" not in text
    ]


def texts(backend: RecordingBackend) -> list[str]:
    return [message.text for message, _ in backend.received]


@asynccontextmanager
async def running(
    server: PlainServer,
    backend: RecordingBackend,
    *,
    shards: Shards | None = None,
    rates: Rates | None = None,
) -> AsyncIterator[list[str]]:
    """A bot that is connected and told everything; at the end it is cancelled, as by SIGTERM."""
    told: list[str] = []
    url = server.url
    run = Bot(backend, token=TOKEN, api_url=url, shards=shards, tell=told.append, rates=rates).run()
    task = asyncio.create_task(run)
    try:
        await until(lambda: task.done() or ("resume", ()) in backend.asked)
        if task.done():
            await task
        backend.asked.remove(("resume", ()))
        yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_bot_comes_hears_and_goes(server: PlainServer) -> None:
    here = backend()
    async with running(server, here) as told:
        await server.say("Pixi, hello")
        await server.say("hi", channel=DM)
        await until(lambda: len(here.received) == 2)

    assert told == ["Connected as Bot, in 1 server."]
    ids = {message.conversation: message.id for message, _ in here.received}
    assert ids.keys() == {f"discord:{BOT}:{GENERAL}:pixi", f"discord:{BOT}:{DM}:pixi"}
    assert here.asked[-1] == ("drain", (5.0,))
    assert here.marks[f"discord:{BOT}:{GENERAL}:"] == int(ids[f"discord:{BOT}:{GENERAL}:pixi"])
    assert server.close_codes == [1000]
    assert Route.BASE == "https://discord.com/api/v10"


async def test_its_requests_are_counted_where_another_server_limits_them() -> None:
    async def count(rates: Mapping[RateKey, Rate]) -> float:
        counted.extend(rates.values())
        return 0.0

    counted: list[Rate] = []
    rates = Rates()
    rates.shared = count
    async with plain_server() as server:
        here = backend()
        async with running(server, here, rates=rates):
            assert counted == []
        here.obey(requests_per_second=20)
        async with running(server, here, rates=rates):
            assert set(counted) == {Rate(18, 1.0)}


async def test_it_asks_for_no_more_than_it_needs() -> None:
    async with plain_server() as server, running(server, backend()):
        identify = server.identified[0]

        assert identify["intents"] == 1 << 0 | 1 << 3 | 1 << 9 | 1 << 12 | 1 << 15
        assert identify["token"] == TOKEN


async def test_edits_and_deletions_are_passed_on(server: PlainServer) -> None:
    here = backend()
    async with running(server, here):
        asked = server.event(await server.say("Pixi, pancakes?"))
        await until(lambda: here.received)
        await server.send("MESSAGE_UPDATE", {**asked, "embeds": [{"title": "a box"}]})
        await server.send("MESSAGE_UPDATE", {**asked, "content": "Pixi, waffles?"})
        gone = {"channel_id": asked["channel_id"], "guild_id": str(GUILD)}
        await server.send("MESSAGE_DELETE_BULK", {**gone, "ids": [asked["id"], str(2**62)]})
        await until(lambda: len(here.asked) >= 2)

    conversation = f"discord:{BOT}:{GENERAL}:pixi"
    assert here.asked[:2] == [
        ("edit", (conversation, asked["id"], "Pixi, waffles?")),
        ("withdraw", (conversation, asked["id"])),
    ]


async def test_a_resumed_session_brings_what_was_missed_and_repeats_do_no_harm(server: PlainServer) -> None:
    here = backend()
    async with running(server, here):
        first = server.event(await server.say("Pixi, one"))
        await until(lambda: here.received)
        server.again = [
            ("MESSAGE_CREATE", first),
            ("MESSAGE_CREATE", server.event(server.message("Pixi, two"))),
        ]
        await server.cut()
        await until(lambda: len(here.received) == 2)
        await server.say("Pixi, three")
        await until(lambda: len(here.received) == 3)

    assert server.resumed == 1
    assert texts(here) == ["Pixi, one", "Pixi, two", "Pixi, three"]
    assert not [path for _, path in server.asked if path.endswith("messages")][1:]


async def test_after_a_new_session_what_was_missed_is_heard_before_what_comes_now(
    server: PlainServer,
) -> None:
    here = backend()
    async with running(server, here):
        await server.say("Pixi, one")
        await until(lambda: here.received)
        server.message("Pixi, two")
        server.message("a chat")
        await server.op(9, False)
        await until(lambda: len(server.identified) == 2)
        await server.say("Pixi, three")
        await until(lambda: len(here.received) == 4)

    assert texts(here) == ["Pixi, one", "Pixi, two", "a chat", "Pixi, three"]


async def test_after_a_start_what_was_missed_is_heard_once(server: PlainServer) -> None:
    here = backend()
    async with running(server, here):
        await server.say("Pixi, one")
        await until(lambda: here.received)
    server.message("Pixi, two")
    async with running(server, here):
        await until(lambda: len(here.received) == 2)
    async with running(server, here):
        await server.say("Pixi, three")
        await until(lambda: len(here.received) == 3)

    assert texts(here) == ["Pixi, one", "Pixi, two", "Pixi, three"]


async def test_odd_events_cost_one_line_each_and_the_connection_lives(
    server: PlainServer, caplog: pytest.LogCaptureFixture
) -> None:
    here = backend()
    with caplog.at_level(logging.WARNING):
        async with running(server, here):
            await server.send("MESSAGE_UPDATE", {"id": "5", "channel_id": str(GENERAL), "embeds": []})
            await server.send("MESSAGE_CREATE", {"id": "x"})
            await server.send("CHANNEL_DELETE", {"id": str(GENERAL), "guild_id": str(GUILD)})
            await server.send("MESSAGE_DELETE", {"id": "5", "channel_id": "404", "guild_id": "404"})
            await server.send("GUILD_DELETE", {"id": str(GUILD)})
            await server.send("SOMETHING_NEW", {})
            await server.say("still there?", channel=DM)
            await until(lambda: here.received)

    assert len(lines(caplog)) == 1
    assert not any(record.exc_info for record in caplog.records)


async def test_a_fault_of_ours_costs_one_line_without_a_traceback(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    class OddHouse(RecordingBackend):
        def place(self, channel: str) -> ChannelConfig:
            raise KeyError("odd")

    async with plain_server() as server:
        here = OddHouse(personas=PERSONAS)
        with caplog.at_level(logging.WARNING):
            async with running(server, here):
                asked = await server.say("Pixi?", channel=DM)
                await until(lambda: lines(caplog))

        assert lines(caplog) == ["something broke while hearing: KeyError: 'odd'"]
        assert not any(record.exc_info for record in caplog.records)
        assert "Traceback" not in capfd.readouterr().err
        assert all(mark < int(asked["id"]) for mark in here.marks.values())


async def test_what_the_store_refuses_is_told_and_keeps_the_watermark_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class FullHouse(RecordingBackend):
        full = True

        async def receive(self, *args: object) -> None:
            if self.full:
                raise StoreError("The disk is full.")
            await super().receive(*args)  # type: ignore[arg-type]

    async with plain_server() as server:
        here = FullHouse(personas=PERSONAS)
        async with running(server, here):
            await server.say("hello everybody")
            await until(lambda: server.history)
            lost = await server.say("Pixi, one")
            await until(lambda: [record for record in caplog.records if lost["id"] in record.getMessage()])
            here.full = False
        server.message("Pixi, two")
        async with running(server, here):
            await until(lambda: len(here.received) == 3)

        assert texts(here) == ["hello everybody", "Pixi, one", "Pixi, two"]


async def test_leaving_takes_seconds_even_where_nothing_answers_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class EndlessHouse(RecordingBackend):
        async def drain(self, seconds: float) -> None:
            await asyncio.Event().wait()

    whole = bot._FOR_QUEUES + bot._FOR_DRAINING + 1.0 + bot._FOR_MARKS + bot._FOR_CLOSING
    monkeypatch.setattr(bot, "_FOR_DRAINING", 0.01)
    monkeypatch.setattr(bot, "_FOR_CLOSING", 0.05)
    async with plain_server() as server:
        async with running(server, EndlessHouse(personas=PERSONAS)):
            server.deaf = True
            await server.op(1)
            await until(lambda: server.asleep)

        assert whole < 9.5, "all that leaving may take"


# Coming.


async def refused(server: PlainServer, *, token: str = TOKEN, shards: Shards | None = None) -> PixiError:
    with pytest.raises(PixiError) as caught:
        async with within("the refusal"):
            await Bot(backend(), token=token, api_url=server.url, shards=shards, tell=lambda _: None).run()
    return caught.value


@pytest.mark.parametrize("token", ["", "  ", "to ken", "tok\nen", "tökén", "tok\x00en"])
async def test_what_is_no_token_is_not_even_tried(token: str) -> None:
    with pytest.raises(ConfigError, match="DISCORD_TOKEN"):
        await Bot(backend(), token=token, api_url="http://127.0.0.1:1", tell=lambda _: None).run()


@pytest.mark.parametrize(
    ("code", "words"),
    [(4004, "DISCORD_TOKEN"), (4014, "Message Content Intent"), (4010, "--shards"), (4011, "--shards")],
)
async def test_what_the_operator_must_mend_is_told_with_the_mend(
    server: PlainServer, code: int, words: str
) -> None:
    server.refuse = code
    error = await refused(server)

    assert isinstance(error, ConfigError)
    assert words in str(error)


@pytest.mark.parametrize(
    ("code", "page"),
    [(4004, "https://discord.com/developers/applications,"), (4014, f"/developers/applications/{BOT}/bot")],
)
async def test_on_discord_itself_the_page_is_named_where_it_is_mended(code: int, page: str) -> None:
    async with plain_server() as server:
        found = await find_server(server.url, TOKEN)
        with patched(found):
            connected = client.Client()
            await connected.login(TOKEN)
            try:
                with pytest.raises(ConfigError, match=re.escape(page)):
                    bot._refused(code, connected, None)
                with pytest.raises(ConfigError) as elsewhere:
                    bot._refused(code, connected, found)
            finally:
                await connected.close()
    assert "discord.com" not in str(elsewhere.value)


async def test_another_closing_for_good_is_told(server: PlainServer) -> None:
    server.refuse = 4013
    error = await refused(server)

    assert "4013" in str(error)


async def test_what_cannot_be_reached_is_tried_again_with_a_line_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bot, "_FIRST_WAIT", 0.01)
    async with plain_server() as server:
        server.cuts = 2
        async with running(server, backend()):
            pass

        waits = [record.getMessage() for record in caplog.records if "trying again" in record.getMessage()]
        assert waits[0].startswith("Discord cannot be reached: ")


async def logged_in(error: Exception, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Log in where that fails."""
    comes = client.Client()

    async def fail(token: str) -> None:
        raise error

    monkeypatch.setattr(comes, "login", fail)
    return await Bot(backend(), token=TOKEN, tell=lambda _: None)._log_in(comes, TOKEN, None, 1.0)


async def test_an_error_page_is_logged_as_its_status_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer: Any = SimpleNamespace(status=503, reason="Service Unavailable")
    assert not await logged_in(discord.DiscordServerError(answer, "<html>" * 9_000), monkeypatch)
    assert lines(caplog)[-1] == "Discord cannot be reached: HTTP status 503; trying again in 1 seconds"


@pytest.mark.parametrize(
    "error",
    [
        aiohttp.InvalidURL("http://:x"),
        aiohttp.ClientConnectorCertificateError(
            ConnectionKey("chat.example", 443, True, True, None, None, None),
            ssl.SSLCertVerificationError("self-signed"),
        ),
    ],
)
async def test_what_no_second_try_mends_ends_the_program_with_the_mend(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PixiError, match=r"discord\.api_url"):
        await logged_in(error, monkeypatch)


async def test_cancelling_while_the_bot_comes_ends_at_once(server: PlainServer) -> None:
    server.deaf = True
    task = asyncio.create_task(Bot(backend(), token=TOKEN, api_url=server.url, tell=lambda _: None).run())
    await until(lambda: ("GET", "/users/@me") in server.asked)
    task.cancel()
    async with within("the end of the bot"):
        with suppress(asyncio.CancelledError):
            await task


async def test_a_bot_that_is_told_to_end_before_it_is_ready_begins_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_LAST_GUILD", LIMIT)
    told: list[str] = []

    async def drain(self: RecordingBackend, seconds: float) -> None:
        assert ending._client is not None
        ending._client.dispatch("ready")  # as discord.py does until it is closed
        for _ in range(5):
            await asyncio.sleep(0)

    monkeypatch.setattr(RecordingBackend, "drain", drain)
    async with plain_server() as server:
        ending = Bot(backend(), token=TOKEN, api_url=server.url, tell=told.append)
        task = asyncio.create_task(ending.run())
        await until(lambda: server.identified)
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert told == []
