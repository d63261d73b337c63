"""Whose words are these: talks in private are hidden from operators, or their opening is on record."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.app.service import BotService
from pixi.app.studio.rows import OPENED, hidden_among, is_private, may_read, private_among
from pixi.channels.http.access import LOCAL, VISITOR, address_of
from pixi.core.message import Author, Message
from pixi.core.routes import Caller
from pixi.store.kept import Talk
from tests.app.scene import hello, service_in, settings_file
from tests.servers.scripted_openai import ScriptedOpenAI
from tests.test_settings import fault, loaded

CHANNEL, DIRECT = "discord:1:77:pixi", "discord:1:78:pixi"
OWN = address_of(LOCAL, "pixi", "one")
USERS = address_of("web:shop:7", "pixi", "one")
VISITORS = address_of(f"{VISITOR}shop:aa", "pixi", "one")
TERMINAL, PROGRAM = "terminal:pixi:mo", "mcp:aa:pixi"
OPERATOR = Caller("web:desk", "desk")


@asynccontextmanager
async def house_with_talks(folder: Path, more: str = "") -> AsyncGenerator[BotService, None]:
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(folder, server, more)
        async with service_in(folder) as service:
            for number, (address, person) in enumerate(
                (
                    (CHANNEL, "5"),
                    (DIRECT, "5"),
                    (OWN, LOCAL),
                    (USERS, "web:shop:7"),
                    (VISITORS, f"{VISITOR}shop:aa"),
                    (TERMINAL, "terminal:mo"),
                    (PROGRAM, "mcp:mo"),
                )
            ):
                said = Message(
                    str(number), address, Author(person, "mo"), "hi", 1.7e9, group=address == CHANNEL
                )
                await service.store.receive(said)
                if address.startswith("http:"):
                    await service.store.keep_talk(Talk(address, person, "pixi", "one", 1.7e9, 1.7e9))
            yield service


async def test_only_talks_among_several_and_ones_own_are_not_private(tmp_path: Path) -> None:
    async with house_with_talks(tmp_path) as service:
        every = [CHANNEL, DIRECT, OWN, USERS, VISITORS, TERMINAL, PROGRAM]
        private = await private_among(service.store, every)
        assert private == {DIRECT, USERS, VISITORS, PROGRAM}
        assert await hidden_among(service, every) == private
        assert not await is_private(service.store, f"{OWN}~0.1"), "a branch is as its trunk"
        assert await is_private(service.store, f"{USERS}~0.1")
        await service.engine.reset(CHANNEL)
        assert await is_private(service.store, CHANNEL), "nothing tells any more that several wrote there"


async def test_what_is_private_is_hidden_and_nothing_is_put_on_record(tmp_path: Path) -> None:
    async with house_with_talks(tmp_path) as service:
        assert await may_read(service, OPERATOR, CHANNEL, "messages")
        assert await may_read(service, OPERATOR, OWN, "messages")
        assert not await may_read(service, OPERATOR, DIRECT, "messages")
        assert not await may_read(service, OPERATOR, "discord:1:404:pixi", "messages"), "nobody knows of it"
        assert await service.store.audit(9) == ()


async def test_where_the_settings_show_it_its_opening_is_on_record(tmp_path: Path) -> None:
    async with house_with_talks(tmp_path, "[studio]\nprivate = true\n") as service:
        assert await hidden_among(service, [DIRECT, USERS]) == frozenset()
        assert await may_read(service, OPERATOR, CHANNEL, "messages")
        assert await service.store.audit(9) == ()
        assert await may_read(service, OPERATOR, USERS, "why")
        (record,) = await service.store.audit(9)
    assert (record.deed.tool, record.deed.conversation, record.deed.person) == (OPENED, USERS, "web:desk")
    assert json.loads(record.deed.arguments) == {"what": "why"}
    assert (record.outcome, record.deed.persona) == ("done", "Pixi")
    assert record.began > 1.7e9


async def test_secrets_of_the_environment_and_of_addons_are_hidden_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "ambient-1234567890")
    async with house_with_talks(tmp_path) as service:
        service.engine.tools.mask.learn(["addon-1234567890"])
        for mask in (service.mask, service.engine.tools.mask):
            told = mask.redact("ambient-1234567890 addon-1234567890")
            assert "1234567890" not in told


def test_the_setting_is_off_unless_somebody_sets_it(tmp_path: Path) -> None:
    assert loaded(tmp_path).studio.private is False
    assert loaded(tmp_path, "[studio]\nprivate = true").studio.private is True
    assert loaded(tmp_path, PIXI_STUDIO__PRIVATE="true").studio.private is True


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("[studio]\nprivate = 3", "studio.private is 3; it must be true or false."),
        ("[studio]\nprivat = true", "[studio] has no key 'privat'; did you mean 'private'?"),
    ],
)
def test_what_is_wrong_with_it_is_told(tmp_path: Path, toml: str, told: str) -> None:
    assert told in fault(tmp_path, toml)
