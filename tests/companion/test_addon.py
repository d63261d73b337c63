"""The companion as an addon: its settings, and what it notices by itself."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.companion.addon import CompanionSettings, setup
from pixi.companion.data import NewDraft
from pixi.companion.tables import CompanionTables
from pixi.core.errors import ConfigError
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore
from pixi.toolbox.addon import Addon, AddonExtras
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox

MO = Author("discord:7", "Mo")


def loaded(**settings: Any) -> tuple[AddonExtras, Toolbox]:
    brought, tools = AddonExtras(), Toolbox()
    setup(Addon(CommandRegistry(), tools, brought, lambda name, kind: CompanionSettings(**settings)))
    return brought, tools


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"writes_per_hour": 0}, "writes_per_hour is 0: it must be 1 to 1000"),
        ({"deep_links": "javascript"}, "write the scheme of your app's links"),
        ({"data": "nonsense"}, "data is no address of an app: write store"),
        ({"data": "https://a@b.example"}, "data is no address of an app: write store"),
        ({"data": "file:///etc/passwd"}, "data is no address of an app: write store"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_is_told(settings: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        loaded(**settings)


async def test_a_decision_is_told_once_and_its_reason_in_private() -> None:
    brought, tools = loaded()
    store = await SqliteStore.open(":memory:")
    await store.open_tables(brought.tables[0])
    data = CompanionTables(brought.tables[0])
    notice, _ = tools.notices
    assert notice.answered
    said = Message("1", "discord:1", MO, "hello", 0.0)
    public = replace(said, group=True)
    for number, (message, reason) in enumerate(((said, " The reason: Not here."), (public, ""))):
        made = await data.create_draft(MO.id, NewDraft("Nook", "diy", "Wexcombe"), f"k{number}")
        assert await notice.look(message) == []
        await data.reject(made.id, "web:admin", "Not here.")
        assert await notice.look(replace(message, author=Author("discord:8", "Jo"))) == []
        told = f"The spot 'Nook' that they submitted was rejected. Tell them so.{reason}"
        for _ in range(2):  # until a reply to it stands
            assert await notice.look(message) == [told]
        await notice.answered(message, [told])
        assert await notice.look(message) == []
    for close in brought.closing:
        await close()
    await store.close()


async def test_a_link_to_a_map_is_noticed_also_where_it_is_none() -> None:
    brought, tools = loaded(data="http://127.0.0.1:9")
    assert brought.tables == []
    (notice,) = tools.notices
    for text, told in (
        ("look geo:54.9,-38.2!", "The link to a map shows a place at 54.90000, -38.20000."),
        ("https://www.google.com/maps?q=138.2,54.9", "cannot be used: The maps link cannot be right"),
        ("https://example.org/maps", ""),
    ):
        found = await notice.look(Message("1", "discord:1", MO, text, 0.0))
        assert len(found) == (told != "")
        assert told in "".join(found)
    for close in brought.closing:
        await close()
