"""A person is asked with two buttons: whose click counts, when, and what is left of the question."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import discord
import msgspec
import pytest

from pixi.channels.discord.bot import Bot
from pixi.channels.discord.formatting import units
from pixi.channels.discord.outgoing.approvals import Approvals, SharedQuestion
from pixi.channels.discord.outgoing.channel import DiscordChannel
from pixi.channels.discord.slash.translations import Translations
from pixi.core.channel import Question
from pixi.core.events import Verdict
from pixi.core.persona import Persona
from pixi.testing.discord import FakeChannel, FakeMessage, Interaction, Permission, User
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.room import Room, room_of
from tests.waiting import until

WORDS = Translations()
SAY = WORDS.english.say


def question(
    person: User | str, arguments: str = 'to: "Ana"\ntext: "hi"', *, nonce: str = "1-1-q"
) -> Question:
    who = person if isinstance(person, str) else str(person.id)
    return Question(who, "send_email", "Sends an email.", arguments, nonce)


class Asked:
    """A question that is open, and its message."""

    def __init__(self, answer: "asyncio.Task[Verdict]", message: FakeMessage) -> None:
        self.answer = answer
        self.message = message

    def button(self, said: str) -> str:
        (name,) = [name for name in self.message.buttons.values() if f":{said}:" in name]
        return name


@asynccontextmanager
async def asked(
    room: Room,
    this: Question | None = None,
    *,
    seconds: float = 30.0,
    channel: DiscordChannel | None = None,
    where: FakeChannel | None = None,
) -> AsyncIterator[Asked]:
    place = where or room.general
    if channel is None:
        channel, _ = await room.asked(where=where)
    before = len(place.messages)
    task = asyncio.create_task(channel.approve(this or question(room.mo), seconds=seconds))
    try:
        await room.discord.wait_for(lambda: len(place.messages) > before)
        yield Asked(task, place.messages[-1])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def pressed(
    room: Room, by: User, on: Asked, said: str = "yes", *, locale: str = "en-US"
) -> Interaction:
    begun = await room.discord.press(by, on.message, on.button(said), locale=locale)
    await begun.responded()
    return begun


async def loses_its_buttons(room: Room, message: FakeMessage) -> None:
    await room.discord.wait_for(lambda: not message.components)


# Asking.


async def test_a_question_of_any_length_fits_into_a_signal_to_another_process(room: Room) -> None:
    shared: list[SharedQuestion] = []

    async def share(question: SharedQuestion) -> bool:
        shared.append(question)
        return False

    async def post(*_: object) -> int:
        return 0

    approvals = Approvals(discord.Client(intents=discord.Intents.none()), RecordingBackend(), share)
    long = Question(str(room.mo.id), "\U0001f95e" * 200, "\U0001f95e" * 9_000, "\x01" * 9_000, "1-1-q")
    said = await approvals.ask(long, post, channel=1, guild=None, persona="pixi", seconds=1.0)
    assert said == "nobody"
    assert len(msgspec.json.encode(shared[0])) < 7_900


async def test_the_person_is_asked_and_pinged_and_nobody_else(room: Room) -> None:
    async with asked(room, question(room.mo, "note: @everyone <@&1>")) as open_:
        message = open_.message
        assert message.pinged == {room.mo.id}
        assert message.content.startswith(f"{room.mo.mention}, **Pixi** needs your yes for this:\n")
        assert "**send\\_email**: Sends an email." in message.content
        assert "```\nnote: @\u200beveryone <@\u200b&1>\n```" in message.content
        assert list(message.buttons) == ["Yes, do it", "No"]
        assert message.nonce == "1-1-q"


@pytest.mark.parametrize("said", ["yes", "no"])
async def test_their_click_is_the_answer_and_takes_the_buttons_away(room: Room, said: Verdict) -> None:
    async with asked(room) as open_:
        begun = await pressed(room, room.mo, open_, said)
        assert await open_.answer == said
        assert begun.response == 7  # the message itself was changed
        assert open_.message.components == []
        assert open_.message.content.startswith(f"{room.mo.mention} said {said}: **send\\_email**\n")
        assert 'to: "Ana"' in open_.message.content
    assert room.discord.asked("PATCH", "/messages/") == []


async def test_the_click_of_somebody_else_counts_for_nothing(room: Room) -> None:
    async with asked(room) as open_:
        for said in ("yes", "no"):
            begun = await pressed(room, room.ana, open_, said)
            assert begun.ephemeral
            assert begun.content == f"Only {room.mo.mention} can answer that."
            assert begun.original is not None
            assert begun.original.pinged == frozenset()
        assert not open_.answer.done()
        assert len(open_.message.buttons) == 2
        await pressed(room, room.mo, open_)
        assert await open_.answer == "yes"


async def test_who_was_blocked_meanwhile_allows_nothing(room: Room) -> None:
    async with asked(room) as open_:
        room.backend.obey(blocked_users=(room.mo.id,))
        begun = await pressed(room, room.mo, open_)
        assert begun.content == SAY("says.refused")
        assert not open_.answer.done()


async def test_the_first_click_counts(room: Room) -> None:
    async with asked(room) as open_:
        yes, no = open_.button("yes"), open_.button("no")
        first = await room.discord.press(room.mo, open_.message, no)
        second = await room.discord.press(room.mo, open_.message, yes)
        await first.responded()
        await second.responded()
        assert await open_.answer == "no"
        assert second.content == SAY("says.approve.closed")


async def test_it_can_be_asked_in_a_direct_message_and_in_a_thread(room: Room) -> None:
    for where in (room.discord.dm(room.mo), room.guild.thread(room.general)):
        async with asked(room, question(room.mo, nonce=str(where.id)), where=where) as open_:
            await pressed(room, room.mo, open_)
            assert await open_.answer == "yes"


async def test_questions_at_once_are_answered_each_for_itself(room: Room) -> None:
    channel, _ = await room.asked()
    async with (
        asked(room, question(room.mo, "a"), channel=channel) as first,
        asked(room, question(room.ana, "b", nonce="2"), channel=channel) as second,
    ):
        await pressed(room, room.ana, second, "no")
        assert await second.answer == "no"
        assert not first.answer.done()
        await pressed(room, room.mo, first)
        assert await first.answer == "yes"


async def test_a_webhook_s_persona_asks_by_the_bot(room: Room) -> None:
    room.backend.obey(faces="webhook")
    async with asked(room) as open_:
        assert open_.message.author is room.discord.bot
        assert open_.message.webhook is None
        await pressed(room, room.mo, open_)
        assert await open_.answer == "yes"


# The end of a question.


async def test_who_does_not_answer_in_time_said_nothing(room: Room) -> None:
    async with asked(room, seconds=0.3) as open_:
        name = open_.button("yes")
        assert await open_.answer == "nobody"
        await loses_its_buttons(room, open_.message)
        assert open_.message.content.startswith("Nobody answered in time: **send\\_email**")
        late = await room.discord.press(room.mo, open_.message, name)
        await late.responded()
        assert (late.ephemeral, late.content) == (True, "That question is no longer open.")


async def test_a_turn_that_is_stopped_takes_its_question_back(room: Room) -> None:
    async with asked(room) as open_:
        name = open_.button("yes")
        open_.answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await open_.answer
        await loses_its_buttons(room, open_.message)
        assert open_.message.content.startswith("No longer needed: **send\\_email**")
        late = await room.discord.press(room.mo, open_.message, name)
        await late.responded()
        assert late.content == "That question is no longer open."


async def test_a_bot_that_leaves_takes_its_questions_back_and_another_knows_none(room: Room) -> None:
    backend = RecordingBackend()
    async with room_of(backend) as here:
        channel, _ = await here.asked()
        task = asyncio.create_task(channel.approve(question(here.mo), seconds=30))
        await here.discord.wait_for(lambda: len(here.general.messages) > 1)
        message = here.general.messages[-1]
        (yes, _) = message.buttons.values()
        task.cancel()
        here.discord.fail("PATCH", "/messages/", 500)  # the last process had no time for it
        await asyncio.gather(task, return_exceptions=True)
        bot = Bot(backend, token=here.discord.token, api_url=here.discord.api_url, tell=lambda _: None)
        second = asyncio.create_task(bot.run())
        try:
            await here.discord.ready(2)
            begun = await here.discord.press(here.mo, message, yes, locale="de")
            await begun.responded()
            assert (begun.ephemeral, begun.content) == (True, "Diese Frage ist nicht mehr offen.")
        finally:
            second.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await second


async def test_a_button_that_somebody_made_up_does_nothing(room: Room) -> None:
    async with asked(room) as open_:
        for name in ("pixi:may:yes:", "pixi:may:perhaps:x", "pixi:may", "x"):
            await room.discord.press(room.mo, open_.message, name)
        begun = await room.discord.press(room.mo, open_.message, "pixi:may:yes:made-up")
        await begun.responded()
        assert begun.content == SAY("says.approve.closed")
        assert not open_.answer.done()


async def test_a_click_out_of_another_channel_counts_for_nothing(room: Room) -> None:
    other = room.guild.channel("other")
    async with asked(room) as open_:
        elsewhere = await other.say(room.ana, "look")
        begun = await room.discord.press(room.mo, elsewhere, open_.button("yes"))
        await begun.responded()
        assert begun.content == SAY("says.approve.closed")
        assert not open_.answer.done()


async def test_no_two_questions_have_the_same_buttons_and_nothing_of_one_is_kept(room: Room) -> None:
    channel, _ = await room.asked()
    names = set()
    for number in range(2):
        async with asked(room, question(room.mo, nonce=str(number)), channel=channel) as open_:
            names |= set(open_.message.buttons.values())
            await pressed(room, room.mo, open_)
            await open_.answer
    assert len(names) == 4
    assert all(len(name) >= 30 for name in names)
    assert vars(channel._context.approvals)["_open"] == {}


# Where nobody can be asked.


async def test_somebody_of_another_platform_cannot_be_asked_nor_anybody_where_the_bot_may_not_write(
    room: Room,
) -> None:
    channel, _ = await room.asked()
    for person in ("terminal:mo", "", "everyone"):
        assert await channel.approve(question(person), seconds=5) == "nobody"
    assert room.discord.asked("POST", "/messages$") == []
    room.general.overwrite(room.discord.bot, deny=Permission.SEND_MESSAGES)
    assert await channel.approve(question(room.mo), seconds=5) == "nobody"


async def test_a_connection_that_breaks_asks_once(room: Room) -> None:
    channel, _ = await room.asked()
    room.discord.hang_up("POST", "/messages$", took_effect=True, times=1)
    async with asked(room, channel=channel) as open_:
        await until(lambda: len(room.discord.asked("GET", "/messages$")) > 0)
        await room.discord.idle()
        await pressed(room, room.mo, open_)
        assert await open_.answer == "yes"
    assert len([each for each in room.general.messages if each.author is room.discord.bot]) == 1


async def test_an_answer_that_cannot_be_shown_is_an_answer(room: Room) -> None:
    async with asked(room) as open_:
        room.discord.fail("POST", "/callback$", 404, code=10062, times=1)
        await room.discord.press(room.mo, open_.message, open_.button("yes"))
        assert await open_.answer == "yes"
        await loses_its_buttons(room, open_.message)
        assert open_.message.content.startswith(f"{room.mo.mention} said yes")


# Words.


async def test_a_person_is_asked_in_the_language_they_chose(room: Room) -> None:
    spoken = WORDS.like("ja")
    async with asked(room) as open_:  # how the bot comes to know of it
        await pressed(room, room.mo, open_, "no", locale="ja")
        await open_.answer
    async with asked(room, question(room.mo, nonce="2")) as open_:
        assert list(open_.message.buttons) == [spoken.say("says.approve.yes"), spoken.say("says.approve.no")]
        begun = await pressed(room, room.ana, open_, locale="ja")
        assert begun.content == spoken.say("says.approve.others", person=room.mo.mention)


async def test_of_whom_no_language_is_known_the_server_s_is_spoken(room: Room) -> None:
    for server, persona, label in (
        ("en-US", "en", "Yes, do it"),
        ("de", "en", "Ja, mach das"),
        ("en-US", "zh", "可以"),
        ("ja", "zh", "はい、どうぞ"),
    ):
        room.backend.personas = {"pixi": Persona("Pixi", "", language=persona, summon=("pixi",))}
        room.guild.locale = server
        room.discord.world.tell_guild("GUILD_UPDATE", room.guild, room.guild.payload())
        async with asked(room, question(room.mo, nonce=label)) as open_:
            assert next(iter(open_.message.buttons)) == label


EVIL = (
    "```\n@everyone\n```",
    "`" * 3_000,
    "\u202e\x1b[2Jtxt.exe",
    "x" * 50_000,
    "🥞" * 5_000,
    "a\n" * 5_000,
    "",
)


async def test_whatever_the_arguments_are_they_are_shown_and_do_not_act(room: Room) -> None:
    for nonce, evil in enumerate(EVIL):
        does = f"**{evil}** [x](https://evil.example)"
        async with asked(room, Question(str(room.mo.id), "`t`" * 100, does, evil, str(nonce))) as open_:
            content = open_.message.content
            assert units(content) <= 2_000
            assert content.count("```") in (0, 2)
            assert open_.message.pinged == {room.mo.id}
            assert "\u202e" not in content
            assert "\x1b" not in content
            await pressed(room, room.mo, open_)
            assert await open_.answer == "yes"


async def test_the_end_of_long_arguments_is_shown_and_how_much_is_not(room: Room) -> None:
    async with asked(room, question(room.mo, "begin " + "x" * 5_000 + " end: delete everything")) as open_:
        content = open_.message.content
        assert "begin xxx" in content
        assert "end: delete everything\n```" in content
        assert "characters in the middle are not shown" in content
