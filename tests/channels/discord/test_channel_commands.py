from typing import Any

import pytest

from pixi.core.persona import Persona
from pixi.store.kept import ChannelConfig
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.commands import Stage, stage
from tests.waiting import until


def place(here: Stage) -> ChannelConfig:
    return here.backend.place(here.address(here.general))


CALL = "An answer comes to a mention, to a reply, and to those who call somebody by name."


# Personas.


async def test_a_persona_that_speaks_here_is_the_only_one(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("pixi", "lao-qin"), "large", True)
    begun = await here.use("persona", here.boss, name="edda")
    assert begun.content == "**Edda\\_Storm** speaks here from now on."
    assert not begun.ephemeral
    assert place(here) == ChannelConfig(("edda",), "large", True)
    assert (await here.use("persona", here.boss)).content == (
        "Here you meet: **Edda\\_Storm**\nEvery message here is answered."
    )


async def test_a_persona_joins_those_who_are_here(here: Stage) -> None:
    begun = await here.use("persona", here.boss, name="edda", how="join")
    assert begun.content == "**Edda\\_Storm** joins in. Here you now meet: **Pixi**, **Edda\\_Storm**"
    assert place(here).personas == ("pixi", "edda")
    await here.use("persona", here.boss, name="edda", how="join")
    assert place(here).personas == ("pixi", "edda")


async def test_a_persona_leaves_and_the_others_stay(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("pixi", "edda"))
    begun = await here.use("persona", here.boss, name="pixi", how="leave")
    assert begun.content == "**Pixi** has left. Here you still meet: **Edda\\_Storm**"
    assert place(here).personas == ("edda",)


async def test_the_last_one_does_not_leave(here: Stage) -> None:
    begun = await here.use("persona", here.boss, name="pixi", how="leave")
    assert begun.content == "**Pixi** is the only one here. Choose who shall speak here instead."
    assert begun.ephemeral
    assert here.backend.places == {}


async def test_who_is_not_here_does_not_leave(here: Stage) -> None:
    begun = await here.use("persona", here.boss, name="edda", how="leave")
    assert begun.content == "**Edda\\_Storm** does not live here."
    assert here.backend.places == {}


@pytest.mark.parametrize("name", ["Edda_Storm", "EDDA", " edda "])
async def test_a_persona_is_known_by_both_of_its_names(here: Stage, name: str) -> None:
    await here.use("persona", here.boss, name=name)
    assert place(here).personas == ("edda",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("eda", "I know nobody called “eda”. Is it **Edda\\_Storm** that you mean?"),
        ("<@1>", "I know nobody called “\\<@1\\>”."),
        ("x" * 3_000, f"I know nobody called “{'x' * 79}…”."),
    ],
)
async def test_a_persona_that_nobody_knows_is_told(here: Stage, name: str, text: str) -> None:
    begun = await here.use("persona", here.boss, name=name)
    assert (begun.content, begun.ephemeral) == (text, True)
    assert here.backend.places == {}


async def test_who_is_meant_must_be_said(here: Stage) -> None:
    begun = await here.use("persona", here.boss, how="join")
    assert begun.content == "Please say who is meant, too."


async def test_a_channel_becomes_home_and_is_home_no_more(here: Stage) -> None:
    begun = await here.use("persona", here.boss, home=True)
    assert begun.content == "From now on every message here is answered."
    assert place(here) == ChannelConfig(home=True)
    begun = await here.use("persona", here.boss, name="edda", home=False)
    assert begun.content == (
        "**Edda\\_Storm** speaks here from now on.\n"
        "From now on an answer comes to a mention, to a reply, and to those who call somebody by name."
    )
    assert place(here) == ChannelConfig(("edda",))


async def test_a_thread_is_its_own_place_and_begins_as_its_channel(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("edda",), home=True)
    thread = here.guild.thread(here.general, "fog")
    await until(lambda: here.client.get_channel(thread.id) is not None)
    assert (await here.use("persona", here.boss, thread)).content == (
        "Here you meet: **Edda\\_Storm**\nEvery message here is answered."
    )
    await here.use("persona", here.boss, thread, name="pixi", how="join")
    assert here.backend.place(here.address(thread)) == ChannelConfig(("edda", "pixi"), home=True)
    assert place(here) == ChannelConfig(("edda",), home=True)


async def test_a_thread_of_a_home_can_be_no_home(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(home=True)
    thread = here.guild.thread(here.general, "fog")
    await until(lambda: here.client.get_channel(thread.id) is not None)
    await here.use("persona", here.boss, thread, home=False)
    assert CALL in ((await here.use("persona", here.boss, thread)).content or "")


async def test_in_a_direct_message_it_is_chosen_for_that_alone(here: Stage) -> None:
    dm = here.discord.dm(here.mo)
    await here.use("persona", where=dm, name="edda")
    assert here.backend.places == {here.address(dm): ChannelConfig(("edda",))}
    assert (await here.use("persona", where=dm)).content == "Here you meet: **Edda\\_Storm**"


# One face for a guild.


async def test_with_one_face_for_a_guild_it_is_chosen_for_the_guild_and_worn(here: Stage) -> None:
    here.backend.obey(faces="profile")
    here.backend.places[here.address(here.general)] = ChannelConfig(("pixi",), "large")
    begun = await here.use("persona", here.boss, name="edda", home=True)
    assert begun.content == (
        "**Edda\\_Storm** speaks here from now on.\nFrom now on every message here is answered."
    )
    assert here.backend.places == {
        here.address(here.guild): ChannelConfig(("edda",)),
        here.address(here.general): ChannelConfig((), "large", True),
    }
    await until(lambda: here.shown)
    assert here.shown == [(here.guild.id, "edda")]
    assert "**Edda\\_Storm**" in ((await here.use("persona", here.boss)).content or "")


async def test_with_one_face_a_choice_made_before_for_a_channel_gives_way_in_its_threads(here: Stage) -> None:
    here.backend.obey(faces="profile")
    here.backend.places[here.address(here.general)] = ChannelConfig(("pixi",))
    thread = here.guild.thread(here.general, "fog")
    await until(lambda: here.client.get_channel(thread.id) is not None)
    await here.use("persona", here.boss, thread, name="edda")
    assert place(here) == ChannelConfig()
    assert "**Edda\\_Storm**" in ((await here.use("persona", here.boss, thread)).content or "")


async def test_in_a_direct_message_no_face_is_worn(here: Stage) -> None:
    here.backend.obey(faces="profile")
    dm = here.discord.dm(here.mo)
    await here.use("persona", where=dm, name="edda")
    assert here.backend.places == {here.address(dm): ChannelConfig(("edda",))}
    assert here.shown == []


@pytest.mark.parametrize("faces", ["off", "webhook"])
async def test_with_other_faces_nothing_is_worn(here: Stage, faces: str) -> None:
    here.backend.obey(faces=faces)
    await here.use("persona", here.boss, name="edda")
    assert here.shown == []
    assert place(here).personas == ("edda",)


# Suggestions.


async def names(here: Stage, typed: str) -> list[str]:
    return [
        each["value"]
        for each in await here.discord.complete(here.boss, here.general, "persona", "name", typed=typed)
    ]


async def test_personas_are_suggested_by_name_and_by_what_is_told_of_them(here: Stage) -> None:
    assert await names(here, "") == ["pixi", "edda", "lao-qin"]
    assert await names(here, "edd") == ["edda"]
    assert await names(here, "pancakes") == ["pixi"]
    assert await names(here, "老") == ["lao-qin"]


async def test_suggestions_keep_discords_limits() -> None:
    many = {f"p{n:03}": Persona(f"P{n} " + "x" * 150, "…", about="y" * 200) for n in range(60)}
    long = {"p" * 101: Persona("Pixi", "…")}
    async with stage(RecordingBackend(personas=many | long, default_persona="p000")) as here:
        offered = await here.discord.complete(here.boss, here.general, "persona", "name", typed="p")
        assert len(offered) == 25
        assert all(1 <= len(each["name"]) <= 100 and 1 <= len(each["value"]) <= 100 for each in offered)


async def test_models_are_suggested(here: Stage) -> None:
    offered = await here.discord.complete(here.boss, here.general, "model", "name", typed="lar")
    assert [each["value"] for each in offered] == ["large"]


# Models.


async def test_the_model_of_a_channel_is_told_and_chosen(here: Stage) -> None:
    assert (await here.use("model", here.boss)).content == "The model that writes here: **small**"
    begun = await here.use("model", here.boss, name="LARGE")
    assert (begun.content, begun.ephemeral) == ("The model that writes here from now on: **large**", False)
    assert place(here) == ChannelConfig(model="large")
    assert (await here.use("model", here.boss)).content == "The model that writes here: **large**"


async def test_the_first_model_is_the_default(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("edda",), "large")
    await here.use("model", here.boss, name="small")
    assert place(here) == ChannelConfig(("edda",))


async def test_a_thread_keeps_being_home_when_its_model_is_chosen(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("edda",), home=True)
    thread = here.guild.thread(here.general, "fog")
    await until(lambda: here.client.get_channel(thread.id) is not None)
    await here.use("model", here.boss, thread, name="large")
    assert (await here.use("persona", here.boss, thread)).content == (
        "Here you meet: **Edda\\_Storm**\nEvery message here is answered."
    )


async def test_a_model_that_there_is_not_is_told_with_those_that_there_are(here: Stage) -> None:
    begun = await here.use("model", here.boss, name="*huge*")
    assert begun.content == "There is no model called “\\*huge\\*”. There are: small, large"
    assert begun.ephemeral
    assert here.backend.places == {}


async def test_a_model_that_there_is_no_more_writes_nothing(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(model="gone")
    assert (await here.use("model", here.boss)).content == "The model that writes here: **small**"


# What is forgotten, and stopped.


async def test_reset_forgets_the_conversation_of_everybody_here_and_all_see_it(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("pixi", "edda"))
    begun = await here.use("reset", here.boss)
    assert (begun.content, begun.ephemeral) == ("What was said here is forgotten. We begin anew.", False)
    assert here.backend.asked == [
        ("reset", (here.address(here.general, "pixi"),)),
        ("reset", (here.address(here.general, "edda"),)),
    ]


async def test_stop_ends_the_replies_of_everybody_here(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("pixi", "edda"))
    begun = await here.use("stop")
    assert (begun.content, begun.ephemeral) == ("Stopped.", True)
    assert here.backend.asked == [
        ("stop", (here.address(here.general, "pixi"),)),
        ("stop", (here.address(here.general, "edda"),)),
    ]


async def test_where_nothing_is_written_stop_says_so(here: Stage) -> None:
    here.backend.stops = False
    assert (await here.use("stop")).content == "Nothing is being written here."


# What a guild gave to others, on Discord's page of integrations.


def given(here: Stage, *entries: dict[str, Any], app: bool = False) -> None:
    """Let Discord tell that these may use `/model`, or with `app` all commands."""
    command = here.discord.world.commands.kept.get((1, "model"))
    assert command is not None
    whose = here.discord.world.application_id if app else command.id
    told = {
        "id": str(whose),
        "application_id": str(here.discord.world.application_id),
        "guild_id": str(here.guild.id),
        "permissions": list(entries),
    }
    here.discord.world.commands.permissions = [told]


def entry(kind: int, whom: int, may: bool = True) -> dict[str, Any]:
    return {"id": str(whom), "type": kind, "permission": may}


async def may_choose(here: Stage) -> bool:
    await here.use_unseen("model", here.mo, name="large")
    return place(here).model == "large"


ROLE, USER = 1, 2


async def test_who_was_given_a_command_may_use_it(here: Stage) -> None:
    given(here, entry(USER, here.mo.id))
    assert await may_choose(here)


async def test_who_has_a_role_that_was_given_a_command_may_use_it(here: Stage) -> None:
    role = here.guild.role("Directors")
    here.guild.join(here.mo, roles=[role])
    given(here, entry(ROLE, role.id), entry(ROLE, here.guild.id, may=False))
    assert await may_choose(here)


async def test_a_command_that_was_given_to_everybody_is_everybodys(here: Stage) -> None:
    given(here, entry(ROLE, here.guild.id))
    assert await may_choose(here)


async def test_what_is_said_of_a_person_goes_before_what_is_said_of_roles(here: Stage) -> None:
    given(here, entry(ROLE, here.guild.id), entry(USER, here.mo.id, may=False))
    assert not await may_choose(here)


async def test_who_was_given_all_commands_may_use_this_one(here: Stage) -> None:
    given(here, entry(USER, here.mo.id), app=True)
    assert await may_choose(here)


async def test_that_everybody_may_use_the_bot_gives_nobody_a_command_of_managers(here: Stage) -> None:
    given(here, entry(ROLE, here.guild.id), app=True)
    assert not await may_choose(here)


async def test_what_was_given_to_somebody_else_is_not_theirs(here: Stage) -> None:
    given(here, entry(USER, here.boss.id))
    assert not await may_choose(here)


async def test_a_gift_does_not_help_whoever_is_blocked(here: Stage) -> None:
    given(here, entry(USER, here.mo.id))
    here.backend.obey(blocked_users=(here.mo.id,))
    assert not await may_choose(here)


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_where_nobody_tells_what_was_given_nothing_was(here: Stage, status: int) -> None:
    here.discord.fail("GET", r"/commands/permissions$", status)
    assert not await may_choose(here)
