"""The service behind a bot: who speaks where, on which model, and what is kept."""

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from pixi.app.service import open_service
from pixi.channels.discord.backend import BotBackend
from pixi.core.channel import Channel
from pixi.core.errors import ConfigError
from pixi.core.spending import QuotaUsage, UsageScope
from pixi.store.kept import ChannelConfig
from pixi.testing import RecordingChannel
from tests.app.scene import (
    BOT,
    CHANNEL,
    address,
    hello,
    message,
    persona_file,
    reading,
    service_in,
    settings_file,
)
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream
from tests.waiting import until

HERE = f"discord:{BOT}:{CHANNEL}:"
FAST = '[models.fast]\nname = "second"\nvision = true\nprices = { prompt = 1, completion = 2 }\n'


async def test_each_persona_speaks_in_its_own_conversation(tmp_path: Path) -> None:
    persona_file(tmp_path, "wren")
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server)
        async with service_in(tmp_path) as service:
            behind: BotBackend = service
            assert (behind.default_persona, behind.models) == ("pixi", ("default",))
            channel = RecordingChannel()
            for number, persona in enumerate(("wren", "pixi", "nobody"), start=1):
                await service.receive(message(number, persona=persona), channel)
                await service.engine.settled()
            prompts = [str(seen.json()["messages"][0]["content"]) for seen in server.requests]
    assert "You are Wren." in prompts[0]
    assert "Wren" not in prompts[1]
    assert prompts[2] == prompts[1], "who is not on the shelf is stood in for by the default"


async def test_a_channel_has_the_model_that_was_chosen_for_it(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server, FAST)
        channel = RecordingChannel()
        async with service_in(tmp_path) as service:
            assert service.models == ("default", "fast")
            assert not service.sees(HERE)
            await service.set_place(HERE, ChannelConfig(model="fast"))
            assert service.place(HERE) == ChannelConfig(model="fast")
            assert service.sees(HERE)
            await service.receive(message(1), channel)
            await service.receive(message(2, channel=78), channel)
            await service.engine.settled()
        assert sorted(channel.sent) == ["first", "second"]
        # What was chosen outlives the process, and is taken back.
        async with service_in(tmp_path) as service:
            await service.receive(message(3), channel)
            await service.engine.settled()
            assert channel.sent[-1] == "second"
            await service.set_place(HERE, ChannelConfig())
            await service.receive(message(4), channel)
            await service.engine.settled()
            assert channel.sent[-1] == "first"


async def test_a_model_that_cannot_be_opened_is_stood_in_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(
            tmp_path, server, '[models.far]\nname = "gpt"\nbase_url = "https://api.openai.com/v1"\n'
        )
        channel = RecordingChannel()
        async with service_in(tmp_path) as service:
            await service.set_place(HERE, ChannelConfig(model="far"))
            for number in (1, 2):
                await service.receive(message(number), channel)
                await service.engine.settled()
    assert channel.sent == ["first", "first"]
    told = [record.message for record in caplog.records if record.name == "pixi.models"]
    assert len(told) == 1, "not for each message"
    assert told[0].startswith("[models.far] cannot be used, the default model stands in: There is no key")


async def test_the_records_of_a_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pixi.turns")
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server)
        async with service_in(tmp_path) as service:
            await service.receive(message(1, "a very private word"), RecordingChannel())
            await service.engine.settled()
            (record,) = await service.store.turns(address(), 5)
            assert (record.persona, record.model, record.people) == ("Pixi", "first", ("5",))
            posted = next(effect.platform_id for effect in record.effects if effect.kind == "send")
            if posted is not None:
                assert await service.store.turn_behind("discord:", posted) == record
            assert await service.store.turn_behind("discord:", "404") is None
            assert (await service.status(UsageScope())).today.turns == 1
            assert "a very private word" in str(await service.store.export("5"))
            assert await service.engine.forget("5") == 1
            assert "a very private word" not in str(await service.store.export("5"))
            await service.store.mark({HERE: 9})
            assert await service.store.watermarks("discord:") == {HERE: 9}
    (line,) = (each for each in caplog.records if each.name == "pixi.turns")
    assert "Pixi on first" in line.message
    assert "to 5 in discord:1:77:pixi" in line.message
    assert "1 send" in line.message
    assert "private" not in caplog.text


async def test_what_waits_is_answered_after_a_start(tmp_path: Path) -> None:
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server)
        channel = RecordingChannel()
        new = replace(message(1), sent_at=time.time())
        async with service_in(tmp_path) as service:
            await service.engine.drain(1)
            await service.receive(new, channel)
            await service.engine.settled()
        assert channel.sent == []

        async def opened(where: str) -> Channel:
            assert where == address()
            return channel

        async with service_in(tmp_path) as service:
            await service.resume("discord:1:", opened)
            await service.engine.settled()
        assert channel.sent == ["first"]


async def test_personas_that_cannot_answer_are_told_and_left_out(tmp_path: Path) -> None:
    persona_file(tmp_path, "jay", "---\nnmae: Jay\n---\nHello.")
    persona_file(tmp_path, "wren", "---\nname: Wren\ncommands: [send, dance]\n---\nHello.")
    told: list[str] = []
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server)
        async with open_service(reading(tmp_path)(), report=told.append) as service:
            assert not {"jay", "wren"} & set(service.personas)
        settings_file(tmp_path, server, '[persona]\ndefault = "wren"\n')
        with pytest.raises(ConfigError, match="no command 'dance'"):
            async with service_in(tmp_path):
                pass
    broken, lacking = told
    assert "jay.md:2: unknown key `nmae`" in broken
    assert "no command 'dance'" in lacking


async def test_limits_hold_in_a_house_and_what_it_used_is_told(tmp_path: Path) -> None:
    persona_file(tmp_path, "pixi")
    async with ScriptedOpenAI(choose=hello) as server:
        limits = "[limits]\nperson_messages = 1\nmonth_dollars = 5\n"
        settings_file(tmp_path, server, f"{limits}[prices]\nfirst = {{ prompt = 1, completion = 1 }}\n")
        async with service_in(tmp_path) as service:
            channel = RecordingChannel(address())
            for number in (1, 2, 3):
                await service.receive(message(number), channel)
                await service.engine.settled()
            assert [text[:11] for text in channel.sent] == ["first", "That is all"]
            status = await service.status(UsageScope("5", address()))
            assert status.shares == (QuotaUsage("person", "messages", 1, 1),)
            assert status.month.messages == 1
            assert status.month.cost > 0
            assert status.month_dollars == 5


async def test_a_helper_model_does_tasks_of_programs_and_that_is_in_the_ledger(tmp_path: Path) -> None:
    def helped(seen: Seen) -> Reply:
        return stream(f"{seen.json()['model']} ", finish())

    async with ScriptedOpenAI(choose=helped) as server:
        settings_file(tmp_path, server)
        async with service_in(tmp_path) as service:
            assert await service.helper_answer("A title, please.") is None
        settings_file(tmp_path, server, f'[helper_model]\nname = "cheap"\nbase_url = "{server.base_url}"\n')
        async with service_in(tmp_path) as service:
            assert await service.helper_answer("A title, please.") == "cheap"

            async def booked() -> list[str]:
                return [each.model for each in await service.store.usage(0, 10**6, "model")]

            assert await until(booked) == ["task (cheap)"]
