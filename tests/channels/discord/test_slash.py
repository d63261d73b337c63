import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import discord
import pytest
from msgspec.structs import replace

from pixi.channels.discord.backend import BotStatus
from pixi.channels.discord.gateway.client import quiet_logs
from pixi.channels.discord.slash import invocation
from pixi.channels.discord.slash.translations import Translations
from pixi.core.errors import ChannelError, StoreError
from pixi.core.llm import Usage
from pixi.core.spending import QuotaUsage, UsageEntry, UsageScope
from pixi.settings.rules import Rules
from pixi.store.kept import ChannelConfig
from pixi.testing.discord import Permission
from pixi.testing.discord import interactions as used
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.commands import JSON, PERSONAS, Stage, embed, fields, shown, stage
from tests.waiting import until

WORDS = Translations()


def registered(here: Stage) -> dict[str, JSON]:
    return {command.name: command.body for command in here.discord.commands}


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


# Registration.


async def test_all_commands_are_registered_in_all_languages(here: Stage) -> None:
    commands = registered(here)
    assert list(commands) == [
        *("reset", "persona", "model", "notes", "why", "stop", "forget", "export", "status", "help", "Why?")
    ]
    reset = commands["reset"]
    assert reset["name_localizations"]["de"] == "zurücksetzen"
    assert reset["description_localizations"]["ja"].startswith("ここで")
    name, how, home = commands["persona"]["options"]
    assert (name["autocomplete"], how["type"], home["type"]) == (True, 3, 5)
    assert name["name_localizations"]["fr"] == "nom"
    assert [choice["value"] for choice in how["choices"]] == ["here", "join", "leave"]
    assert how["choices"][2]["name_localizations"]["es-419"] == "se va"
    assert commands["forget"]["options"][0]["name_localizations"]["de"] == "mich"
    assert commands["Why?"]["name_localizations"]["zh-CN"] == "为什么？"


async def test_commands_are_for_guilds_and_direct_messages_with_the_bot(here: Stage) -> None:
    for body in registered(here).values():
        assert body["contexts"] == [0, 1]
        assert body["integration_types"] == [0]


async def test_what_changes_a_place_is_hidden_from_those_who_do_not_manage_it(here: Stage) -> None:
    hidden = {
        name: int(body["default_member_permissions"])
        for name, body in registered(here).items()
        if body["default_member_permissions"] is not None
    }
    manage_guild, manage_messages = 1 << 5, 1 << 13
    assert hidden == {"reset": manage_messages, "persona": manage_guild, "model": manage_guild}


async def test_no_command_is_longer_than_discord_takes_in_its_longest_translations(here: Stage) -> None:
    def longest(thing: JSON) -> int:
        size = sum(
            max(
                len(text)
                for text in (thing.get(key, ""), *(thing.get(f"{key}_localizations") or {}).values())
            )
            for key in ("name", "description")
        )
        below = [*thing.get("options", ()), *thing.get("choices", ())]
        return size + len(str(thing.get("value", ""))) + sum(map(longest, below))

    assert max(longest(body) for body in registered(here).values()) <= 8_000


async def test_translations_are_asked_for_when_what_is_registered_is_read(here: Stage) -> None:
    (call,) = here.discord.asked("GET", r"/commands$")
    assert call.query["with_localizations"] == "true"


async def test_nothing_is_registered_twice(here: Stage) -> None:
    await here.slash.sync()
    assert len(here.discord.asked("PUT", r"/commands$")) == 1


def change_description(body: JSON) -> None:
    body["description"] = "something else"


def change_translation(body: JSON) -> None:
    body["name_localizations"]["de"] = "anders"


def lose_translations(body: JSON) -> None:
    body["description_localizations"] = None


def change_permissions(body: JSON) -> None:
    body["default_member_permissions"] = None


def change_option(body: JSON) -> None:
    body["options"][0]["autocomplete"] = False


def lose_choice(body: JSON) -> None:
    body["options"][1]["choices"].pop()


def change_contexts(body: JSON) -> None:
    body["contexts"] = [0]


CHANGES = (
    *(change_description, change_translation, lose_translations, change_permissions),
    *(change_option, lose_choice, change_contexts),
)


async def test_a_command_that_differs_at_the_server_is_registered_anew(here: Stage) -> None:
    before = json.dumps(registered(here))
    for count, change in enumerate(CHANGES, 2):
        change(registered(here)["persona"])
        await here.slash.sync()
        assert len(here.discord.asked("PUT", r"/commands$")) == count, change
        assert json.dumps(registered(here)) == before


async def test_translations_that_the_server_drops_because_they_are_like_the_original_are_no_difference(
    here: Stage,
) -> None:
    for body in registered(here).values():
        body["name_localizations"] = {
            locale: text for locale, text in body["name_localizations"].items() if text != body["name"]
        }
    await here.slash.sync()
    assert len(here.discord.asked("PUT", r"/commands$")) == 1


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_server_that_takes_no_commands_costs_one_line(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    async with stage(sync=False) as here:
        here.discord.fail("*", r"/commands$", 405 if status == 500 else status)
        await here.slash.sync()
    (line,) = lines(caplog)
    assert line.startswith("the slash commands could not be registered: Discord refused the commands:")


async def test_a_server_that_does_not_tell_what_is_registered_is_told_all_the_same() -> None:
    async with stage(sync=False) as here:
        here.discord.fail("GET", r"/commands$", 404)
        await here.slash.sync()
        assert len(registered(here)) == 11


async def test_where_commands_are_switched_off_ours_are_taken_away_and_others_stay() -> None:
    async with stage() as here:
        here.discord.world.commands.put({"name": "weather", "description": "Not ours", "type": 1})
        here.backend.obey(slash=False)
        await here.slash.sync()
        assert list(registered(here)) == ["weather"]
        await here.slash.sync()
        assert len(here.discord.asked("DELETE", r"/commands/")) == 11


async def test_a_command_used_although_they_are_switched_off_is_refused(here: Stage) -> None:
    here.backend.obey(slash=False)
    begun = await here.use("status")
    assert (begun.content, begun.ephemeral) == ("My commands are switched off here.", True)


# Who may.


async def test_who_may_not_talk_to_the_bot_is_refused_politely_and_nobody_sees_it(here: Stage) -> None:
    for key, who in (
        ("blocked_users", here.mo.id),
        ("blocked_channels", here.general.id),
        ("blocked_guilds", here.guild.id),
        ("allowed_users", here.boss.id),
        ("allowed_guilds", 5),
        ("allowed_channels", 5),
    ):
        here.backend.rules = Rules()
        here.backend.obey(**{key: (who,)})
        begun = await here.use("status")
        assert (begun.content, begun.ephemeral) == ("I cannot be used by you here.", True), key


async def test_who_is_blocked_by_a_role_is_refused(here: Stage) -> None:
    role = here.guild.role("Muted")
    here.guild.join(here.mo, roles=[role])
    here.backend.obey(blocked_roles=(role.id,))
    assert (await here.use("stop")).content == "I cannot be used by you here."


async def test_a_blocked_role_counts_while_the_guild_is_not_there(here: Stage) -> None:
    role = here.guild.role("Muted")
    here.guild.join(here.mo, roles=[role])
    here.backend.obey(blocked_roles=(role.id,))
    guild = here.client.get_guild(here.guild.id)
    assert guild is not None
    here.client._connection._remove_guild(guild)
    assert (await here.use("stop")).content == "I cannot be used by you here."


async def test_who_may_not_talk_to_the_bot_is_suggested_nothing(here: Stage) -> None:
    assert await here.discord.complete(here.boss, here.general, "persona", "name")
    here.backend.obey(blocked_users=(here.boss.id,))
    assert await here.discord.complete(here.boss, here.general, "persona", "name") == []


async def test_where_direct_messages_are_not_answered_commands_are_neither(here: Stage) -> None:
    here.backend.obey(dms=False)
    begun = await here.use("status", where=here.discord.dm(here.mo))
    assert begun.content == "I cannot be used by you here."


GOVERNING = ["reset", "persona", "model"]
OPTIONS: dict[str, dict[str, Any]] = {"reset": {}, "persona": {"name": "edda"}, "model": {"name": "large"}}


def changed(here: Stage) -> bool:
    """Whether anything was changed since this was asked last."""
    is_changed = bool(here.backend.places) or any(name == "reset" for name, _ in here.backend.asked)
    here.backend.places.clear()
    here.backend.asked.clear()
    return is_changed


async def test_who_manages_the_guild_governs_and_discord_hides_it_from_others(here: Stage) -> None:
    for line in GOVERNING:
        with pytest.raises(PermissionError):
            await here.use(line, **OPTIONS[line])
        for who in (here.boss, here.discord.landlord):
            await here.use(line, who, **OPTIONS[line])
            assert changed(here), (line, who)


async def test_where_a_server_does_not_hide_it_we_refuse_it_but_to_an_admin_of_the_settings(
    here: Stage,
) -> None:
    for line in GOVERNING:
        here.backend.rules = Rules()
        begun = await here.use_unseen(line, here.mo, **OPTIONS[line])
        assert (begun.content, begun.ephemeral) == ("That is for those who manage this server.", True)
        assert not changed(here)
        here.backend.obey(admins=(here.mo.id,))
        await here.use_unseen(line, here.mo, **OPTIONS[line])
        assert changed(here)


async def test_who_manages_the_guild_may_not_where_they_are_blocked(here: Stage) -> None:
    here.backend.obey(blocked_users=(here.boss.id,), admins=(here.boss.id,))
    for line in GOVERNING:
        begun = await here.use(line, here.boss, **OPTIONS[line])
        assert begun.content == "I cannot be used by you here."
        assert not changed(here)


async def test_who_manages_messages_may_reset_and_no_more(here: Stage) -> None:
    moderator = here.discord.person("Mod", permissions=Permission.MANAGE_MESSAGES)
    await here.use("reset", moderator)
    with pytest.raises(PermissionError):
        await here.use("model", moderator)


async def test_in_a_direct_message_everybody_governs_their_own_conversation(here: Stage) -> None:
    for line in GOVERNING:
        await here.use(line, where=here.discord.dm(here.mo), **OPTIONS[line])
        assert changed(here)


async def test_reading_who_lives_here_is_refused_to_nobody_who_sees_the_command(here: Stage) -> None:
    assert (await here.use_unseen("persona", here.mo)).content == (
        "Here you meet: **Pixi**\n"
        "An answer comes to a mention, to a reply, and to those who call somebody by name."
    )


# Languages.


async def test_answers_are_in_the_language_of_whoever_asks_else_in_english(here: Stage) -> None:
    for language in WORDS.languages:
        for locale in language.locales:
            begun = await here.use("notes", locale=locale)
            assert begun.content == language.texts["says.notes.nothing"]
    assert (await here.use("notes", locale="fi")).content == WORDS.english.texts["says.notes.nothing"]


async def test_help_and_status_are_told_in_every_language(here: Stage) -> None:
    for language in WORDS.languages:
        help_ = await here.use("help", here.boss, locale=language.locales[0])
        assert embed(help_)["title"] == language.texts["says.help.title"]
        names = (language.texts["commands.forget.name"], language.texts["commands.forget.me.name"])
        assert f"`/{' '.join(names)}`" in shown(help_)
        status = await here.use("status", locale=language.locales[0])
        assert fields(status)[language.texts["says.status.personas"]] == "**Pixi**"


# Status and help.


async def test_status_tells_how_the_bot_is_doing_and_who_lives_here(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("edda", "pixi"), "large")
    told = fields(await here.use("status"))
    assert told["Lives here"] == "**Edda\\_Storm**, **Pixi**"
    assert told["Model here"] == "large"
    assert told["Replies being written"] == "1"
    assert told["Ping"].endswith(" ms")
    assert told["Running since"].startswith("<t:")


async def test_what_it_costs_is_for_the_admins_of_the_settings(here: Stage) -> None:
    assert "Last 24 hours" not in fields(await here.use("status", here.boss))
    here.backend.obey(admins=(here.boss.id,))
    assert fields(await here.use("status", here.boss))["Last 24 hours"] == (
        "turns: 2\ntokens: 0 read, of these 0 cached; 0 written\ncost: $0.50"
    )


async def test_the_month_stands_beside_its_limit_for_the_admins_alone(here: Stage) -> None:
    here.backend.month = UsageEntry(messages=1_200, usage=Usage(30_000, 20_000, 900), unpriced=5, cost=2.5)
    here.backend.month_dollars = 20.0
    assert "This month" not in fields(await here.use("status", here.boss))
    here.backend.obey(admins=(here.boss.id,))
    assert fields(await here.use("status", here.boss))["This month"] == (
        "messages: 1\u202f200\ntokens: 30\u202f000 read, of these 20\u202f000 cached; 900 written\n"
        "cost: $2.50+? / $20.00"
    )
    here.backend.month, here.backend.month_dollars = UsageEntry(), None
    assert fields(await here.use("status", here.boss))["This month"].endswith("cost: $0.00")
    searched = UsageEntry(model="web search (native)", usage=Usage(searches=1_200), cost=12.0)
    here.backend.searches = (
        searched,
        UsageEntry(model="web search (mcp)", usage=Usage(searches=1), unpriced=1),
    )
    assert fields(await here.use("status", here.boss))["This month"].endswith(
        "\nweb search (native): 1\u202f200 · $12.00\nweb search (mcp): 1 · $0.00+?"
    )


async def test_everybody_sees_what_is_left_for_them(here: Stage) -> None:
    assert "Used today (UTC)" not in fields(await here.use("status"))
    here.backend.engine.shares = (
        QuotaUsage("person", "messages", 12, 20),
        QuotaUsage("channel", "tokens", 1_000, 50_000),
        QuotaUsage("guild", "writes", 0, 5),
    )
    assert fields(await here.use("status"))["Used today (UTC)"] == (
        "You – messages: 12 / 20\n"
        "This channel – tokens: 1\u202f000 / 50\u202f000\n"
        "This server – changes: 0 / 5"
    )
    thread = here.guild.thread(here.general)
    for where in (here.general, thread):
        await here.use("status", where=where)
        guild = f"discord:{here.guild.id}"
        assert here.backend.asked[-1] == (
            "status",
            (UsageScope(str(here.mo.id), f"discord:{here.general.id}", guild),),
        )
    dm = here.discord.dm(here.mo)
    await here.use("status", where=dm)
    assert here.backend.asked[-1] == ("status", (UsageScope(str(here.mo.id), f"discord:{dm.id}"),))


async def test_help_tells_how_to_call_those_who_live_here(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("edda", "pixi"))
    told = fields(await here.use("help"))
    assert told["How to talk to us"] == (
        f"Mention <@{here.discord.bot.id}>, reply to one of our messages, "
        "or call somebody by one of these words: **Edda\\_Storm**, **Pixi**, **pix**"
    )
    assert told["Who lives here"] == (
        "**Edda\\_Storm** – a storm watcher on a cliff\n**Pixi** – an art student who loves pancakes"
    )


async def test_help_tells_that_every_message_is_answered_where_it_is(here: Stage) -> None:
    told = fields(await here.use("help", where=here.discord.dm(here.mo)))
    assert told["How to talk to us"] == "Just write: here every message is answered."
    here.backend.obey(home_channels=(here.general.id,))
    told = fields(await here.use("help"))
    assert told["How to talk to us"] == "Just write: in this channel every message is answered."


async def test_help_leaves_out_what_somebody_cannot_see(here: Stage) -> None:
    assert "`/persona`" not in shown(await here.use("help"))
    assert "`/persona`" in shown(await here.use("help", here.boss))
    assert "`/persona`" in shown(await here.use("help", where=here.discord.dm(here.mo)))


async def test_help_and_status_fit_however_many_live_here() -> None:
    many = {f"p{n}": replace(PERSONAS["pixi"], name="*" * 90, about="[" * 900) for n in range(60)}
    async with stage(RecordingBackend(personas=many, default_persona="p0")) as here:
        here.backend.places[here.address(here.general)] = ChannelConfig(tuple(many))
        for line in ("help", "status"):
            box = embed(await here.use(line))
            assert all(len(each["value"]) <= 1_024 for each in box["fields"])
        assert len((await here.use_unseen("persona", here.mo)).content or "") <= 2_000


# What goes wrong.


class Broken(RecordingBackend):
    """A house whose store cannot be read."""

    async def status(self, payer: UsageScope) -> BotStatus:
        raise StoreError("/var/pixi.db cannot be read: put the disk back.")

    async def reset(self, conversation: str) -> None:
        raise ChannelError("*No* reset.")

    async def stop(self, conversation: str) -> bool:
        raise ZeroDivisionError("secret of the house")


@pytest.fixture
async def broken() -> AsyncIterator[Stage]:
    async with stage(Broken(personas=PERSONAS)) as set_up:
        yield set_up


@pytest.fixture
def one_line() -> Iterator[None]:
    with quiet_logs():
        yield


async def test_a_store_that_fails_is_one_line_for_each(
    broken: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    begun = await broken.use("status")
    assert begun.content == "My records could not be reached. Please try again in a minute."
    assert begun.ephemeral
    assert lines(caplog) == [
        f"status of user {broken.mo.id}: /var/pixi.db cannot be read: put the disk back."
    ]


async def test_what_failed_is_told_to_admins_of_the_settings(broken: Stage) -> None:
    broken.backend.obey(admins=(broken.boss.id,))
    begun = await broken.use("reset", broken.boss)
    assert begun.content == "Something went wrong. Please try again in a minute.\n\\*No\\* reset."


@pytest.mark.usefixtures("one_line")
async def test_a_fault_of_ours_ends_in_no_traceback(broken: Stage, caplog: pytest.LogCaptureFixture) -> None:
    begun = await broken.use("stop")
    assert begun.content == "Something went wrong. Please try again in a minute."
    assert begun.ephemeral
    assert lines(caplog) == [f"stop of user {broken.mo.id} broke: ZeroDivisionError: secret of the house"]
    assert not any(record.exc_info for record in caplog.records)


async def test_an_interaction_that_discord_knows_no_more_is_no_news(
    here: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pixi.discord")
    here.discord.fail("POST", r"/callback$", 404, 10062, "Unknown interaction")
    await here.discord.slash(here.mo, here.general, "status")
    await until(lambda: any("status of user" in record.getMessage() for record in caplog.records))
    assert lines(caplog) == []
    await here.discord.slash(here.mo, here.general, "help")
    here.backend.obey(blocked_users=(here.mo.id,))
    await here.discord.slash(here.mo, here.general, "stop")
    await until(lambda: any("could not be answered" in record.getMessage() for record in caplog.records))
    assert lines(caplog) == []


async def test_suggestions_that_come_too_late_are_no_news(
    here: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pixi.discord")
    here.discord.fail("POST", r"/callback$", 404, 10062, "Unknown interaction")
    with pytest.raises(TimeoutError):
        await here.discord.complete(here.boss, here.general, "persona", "name", timeout=0.2)
    assert lines(caplog) == []
    assert any("could not be answered" in record.getMessage() for record in caplog.records)


async def test_a_command_that_we_have_no_more_is_told_to_be_outdated(
    here: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    here.discord.world.commands.put({"name": "dance", "description": "Of old", "type": 1})
    begun = await here.use("dance")
    assert begun.content == "This command is not the same any more. Please restart Discord and try again."
    assert begun.ephemeral
    assert lines(caplog) == []


class Slow(RecordingBackend):
    """A house that takes as long as a test says."""

    def __init__(self) -> None:
        super().__init__(personas=PERSONAS)
        self.going = asyncio.Event()

    async def status(self, payer: UsageScope) -> BotStatus:
        await self.going.wait()
        return await super().status(payer)

    async def reset(self, conversation: str) -> None:
        await self.going.wait()
        await super().reset(conversation)


async def test_what_takes_long_is_put_off_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "_PATIENCE", 0.02)
    async with stage(slow := Slow()) as here:
        begun = await here.discord.slash(here.mo, here.general, "status")
        await begun.responded()
        assert (begun.response, begun.deferred, begun.ephemeral) == (5, True, True)
        slow.going.set()
        await begun.answered()
        assert fields(begun)["Version"] == "0"
        assert begun.ephemeral


async def test_a_work_goes_on_where_it_could_not_be_put_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(invocation, "_PATIENCE", 0.02)
    async with stage(slow := Slow()) as here:
        here.discord.fail("POST", r"/callback$", 404, 10062, "Unknown interaction")
        await here.discord.slash(here.boss, here.general, "reset")
        await here.discord.wait_for(lambda: here.discord.asked("POST", r"/callback$"))
        slow.going.set()
        await until(lambda: slow.asked)
        assert lines(caplog) == []


async def test_an_answer_pings_nobody(here: Stage) -> None:
    here.backend.personas = {"pixi": replace(PERSONAS["pixi"], name="@everyone <@1>")}
    await here.use_unseen("persona", here.mo)
    (call,) = here.discord.asked("POST", r"/callback$")
    assert call.body["data"]["allowed_mentions"] == {"parse": []}
    assert "@everyone \\<@1\\>" in call.body["data"]["content"]


@pytest.mark.parametrize(
    "missing", ["attachment_size_limit", "channel", "version", "locale", "app_permissions"]
)
async def test_a_server_that_leaves_something_out_is_understood(here: Stage, missing: str) -> None:
    command = here.discord.world.commands.kept.get((1, "status"))
    assert command is not None
    data = {"id": str(command.id), "name": "status", "type": 1}
    original = here.discord.world.tell_bot

    def tell(event: str, guild: Any, payload: JSON) -> None:
        payload.pop(missing, None)
        original(event, guild, payload)

    here.discord.world.tell_bot = tell  # type: ignore[method-assign]
    for where in (here.general, here.discord.dm(here.mo)):
        begun = used.begin(used.COMMAND, here.mo, where, data)
        await begun.answered()
        assert embed(begun)["title"] == "How I am doing"


async def test_an_interaction_that_makes_no_sense_ends_in_one_line(
    here: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    command = here.discord.world.commands.kept.get((1, "persona"))
    assert command is not None
    data = {"id": str(command.id), "name": "persona", "type": 1, "options": [{"type": 3}]}
    used.begin(used.COMMAND, here.boss, here.general, data)
    await until(lambda: lines(caplog))
    assert all("\n" not in line for line in lines(caplog))
    assert not any(record.exc_info for record in caplog.records)


async def test_a_server_that_tells_nothing_of_an_answer_has_taken_it(
    here: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def update(self: object, data: object) -> None:
        raise TypeError("string indices must be integers, not 'str'")

    monkeypatch.setattr(discord.interactions.InteractionCallbackResponse, "_update", update)
    begun = await here.use("stop")
    await here.discord.idle()
    assert begun.content == "Stopped."
    assert begun.followups == []
