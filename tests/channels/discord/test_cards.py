"""Cards on Discord: within all limits, with nothing in them that acts, posted once or not at all."""

import io
from collections.abc import AsyncIterator
from typing import Any

import discord
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from pixi.channels.discord.formatting import units
from pixi.channels.discord.outgoing.content import forms_of, public_address
from pixi.core.errors import ChannelError, ChannelLost
from pixi.core.events import Failed, TurnEnded
from pixi.core.message import Card, Field, Image
from pixi.core.persona import Persona
from pixi.testing.discord import FakeMessage, Permission
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.room import Room, room_of

LINK = "https://example.org/lemon"
PANCAKES = Card(
    "Lemon sugar",
    "Thin and hot.",
    (Field("Time", "20 minutes"), Field("Serves", "4")),
    "https://example.org/lemon.png",
    LINK,
)


def png(side: int = 4) -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", (side, side), "gold").save(file, "PNG")
    return file.getvalue()


@pytest.fixture
async def masked() -> AsyncIterator[Room]:
    """A server in which a persona speaks by a webhook."""
    backend = RecordingBackend(personas={"pixi": Persona("Pixi", "", summon=("pixi",))})
    backend.obey(faces="webhook")
    async with room_of(backend) as room:
        yield room


def posted(room: Room) -> list[FakeMessage]:
    return [each for each in room.general.messages if each.author.bot or each.webhook]


def box(message: FakeMessage) -> dict[str, Any]:
    (shown,) = message.embeds
    return dict(shown)


def sizes(embed: discord.Embed) -> list[tuple[int, int]]:
    """Lengths and their limits."""
    return [
        (units(embed.title or ""), 256),
        (units(embed.description or ""), 4_096),
        (len(embed.fields), 25),
        *((units(each.name or ""), 256) for each in embed.fields),
        *((units(each.value or ""), 1_024) for each in embed.fields),
        (
            units(embed.title or "")
            + units(embed.description or "")
            + sum(units(f"{each.name}{each.value}") for each in embed.fields),
            6_000,
        ),
    ]


# What is shown.


async def test_a_card_is_a_box_and_pings_nobody(room: Room) -> None:
    channel, asked = await room.asked()
    number = await channel.card(PANCAKES, nonce="1-1", answers=asked)
    (message,) = posted(room)
    assert str(message.id) == number
    assert message.nonce == "1-1"
    shown = box(message)
    assert (shown["title"], shown["description"], shown["url"]) == ("Lemon sugar", "Thin and hot.", LINK)
    assert [(each["name"], each["value"], each["inline"]) for each in shown["fields"]] == [
        ("Time", "20 minutes", True),
        ("Serves", "4", True),
    ]
    assert shown["image"]["url"] == "https://example.org/lemon.png"
    assert message.pinged == frozenset()
    assert message.content == ""


async def test_a_picture_is_uploaded_and_shown_in_the_box(room: Room) -> None:
    channel, _ = await room.asked()
    await channel.card(Card("Look", picture=Image("image/png", png())), nonce="1")
    (message,) = posted(room)
    assert [(each.name, each.data) for each in message.attachments] == [("picture.png", png())]
    assert box(message)["image"]["url"] == "attachment://picture.png"


async def test_a_persona_s_webhook_posts_it_under_its_name(masked: Room) -> None:
    channel, asked = await masked.asked()
    await masked.interrupted(channel)
    number = await channel.card(Card("Look", picture=Image("image/png", png())), nonce="1", answers=asked)
    (message,) = posted(masked)
    assert (message.shown, str(message.id)) == ("Pixi", number)
    assert [each.data for each in message.attachments] == [png()]
    assert box(message)["title"] == "Look"
    assert message.content.endswith(f"/{asked}")  # a webhook points by an address


async def test_it_points_at_what_it_answers_where_others_spoke_since(room: Room) -> None:
    channel, asked = await room.asked()
    await room.interrupted(channel)
    await channel.card(PANCAKES, nonce="1", answers=asked)
    (message,) = posted(room)
    assert message.answered is not None
    assert str(message.answered.id) == asked


async def test_what_strangers_wrote_does_not_act(room: Room) -> None:
    evil = f"@everyone <@{room.ana.id}> **bold** [free nitro](https://evil.example) `x` # big\n> said"
    channel, _ = await room.asked()
    await channel.card(Card(evil, evil, (Field(evil, evil),)), nonce="1")
    (message,) = posted(room)
    assert message.pinged == frozenset()
    shown = box(message)
    texts = [shown["title"], shown["description"], *shown["fields"][0].values()]
    for text in filter(lambda each: isinstance(each, str), texts):
        assert r"\[free nitro\](https://evil.example)" in text
        assert r"\*\*bold\*\*" in text
        assert rf"\<@{room.ana.id}\>" in text


async def test_controls_and_turned_text_are_left_out(room: Room) -> None:
    channel, _ = await room.asked()
    await channel.card(Card("a\u202eb\x1b[31m", "c\u2066d\x00", (Field("e\x07", "f\u202a"),)), nonce="1")
    shown = box(posted(room)[0])
    assert (shown["title"], shown["description"]) == (r"ab\[31m", "cd")
    assert [(each["name"], each["value"]) for each in shown["fields"]] == [("e", "f")]


WILD = st.text(max_size=120).map(lambda text: text * 60)


@given(
    title=WILD,
    text=WILD,
    fields=st.lists(st.tuples(WILD, WILD), max_size=40),
    link=st.sampled_from(["", LINK, "javascript:alert(1)", "https://" + "a" * 3_000]),
)
def test_no_card_is_larger_than_discord_takes(
    title: str, text: str, fields: list[tuple[str, str]], link: str
) -> None:
    card = Card(title, text, tuple(Field(*each) for each in fields), None, link)
    for form in forms_of(card, boxes=True, files=True):
        assert units(form.text) <= 2_000
        assert form.text or form.embed
        if form.embed is not None:
            assert all(size <= limit for size, limit in sizes(form.embed))
            assert all(each.name and each.value for each in form.embed.fields)
            assert form.embed.url in (None, LINK)


async def test_a_card_that_is_too_large_is_shown_as_far_as_it_fits(room: Room) -> None:
    large = [
        Card("t" * 300, "x" * 9_000),
        Card("*" * 300, "_" * 9_000),
        Card("🥞" * 200, "🥞" * 5_000, tuple(Field("🥞" * 300, "🥞" * 2_000) for _ in range(30))),
        Card("t", "", tuple(Field("n" * 500, "v" * 5_000) for _ in range(30))),
        Card("t", "\n" * 50, (Field("", ""), Field("", "v"), Field("n", ""))),
    ]
    channel, _ = await room.asked()
    for number, card in enumerate(large):
        await channel.card(card, nonce=str(number))
    assert len(room.discord.asked("POST", "/messages$")) == len(large)  # each was taken as it came first
    assert all(each.embeds for each in posted(room))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (LINK, True),
        ("HTTPS://example.org", True),
        ("http://example.org", False),
        ("https://mo:secret@example.org/", False),
        ("https://token@example.org/", False),
        ("https://", False),
        ("https://[::1", False),
        ("https://example.org:port/", False),
        ("ftp://example.org/a.png", False),
        ("javascript:alert(1)", False),
        ("https://example.org/a b", False),
        ("https://example.org/\x00", False),
        ("https://example.org/\u202egnp", False),
        ("https://example.org/" + "a" * 3_000, False),
    ],
)
def test_only_an_address_that_everybody_may_see_is_a_picture(address: str, shown: bool) -> None:
    embed = forms_of(Card("Look", picture=address), boxes=True, files=True)[0].embed
    assert embed is not None
    assert ("image" in embed.to_dict()) is shown


def test_a_link_may_be_plain_http_and_a_picture_may_not() -> None:
    assert public_address("http://example.org", "http", "https") == "http://example.org"
    assert public_address("http://example.org", "https") == ""


@pytest.mark.parametrize(
    "picture",
    [
        Image("image/svg+xml", b"<svg/>"),
        Image("text/html", b"<script>"),
        Image("image/png", b""),
        Image("image/png", b"x" * 8_000_001),
    ],
)
def test_what_is_no_picture_is_not_uploaded(picture: Image) -> None:
    form = forms_of(Card("Look", picture=picture), boxes=True, files=True)[0]
    assert (form.file, form.embed and form.embed.title) == (None, "Look")


async def test_there_is_no_empty_card(room: Room) -> None:
    channel, _ = await room.asked()
    with pytest.raises(ChannelError):
        await channel.card(Card(""), nonce="1")
    await channel.card(Card(" \n", "\x00", (Field("", ""),), None, LINK), nonce="2")
    assert [each.content for each in posted(room)] == [f"<{LINK}>"]


# What Discord does not take.


async def test_without_the_permission_for_boxes_it_comes_as_text(room: Room) -> None:
    room.general.overwrite(room.discord.bot, deny=Permission.EMBED_LINKS)
    await room.discord.idle()
    channel, _ = await room.asked()
    await channel.card(PANCAKES, nonce="1")
    (message,) = posted(room)
    assert message.embeds == []
    assert message.content.split("\n") == [
        "**Lemon sugar**",
        f"<{LINK}>",
        "Thin and hot.",
        "**Time:** 20 minutes",
        "**Serves:** 4",
        "<https://example.org/lemon.png>",
    ]
    assert len(room.discord.asked("POST", "/messages$")) == 1


async def test_a_permission_that_was_lost_unnoticed_is_found_out(room: Room) -> None:
    channel, _ = await room.asked()
    room.discord.fail("POST", "/messages$", 403, code=50013, times=2)
    await channel.card(PANCAKES, nonce="1")
    assert posted(room)[0].embeds == []
    assert len(room.discord.asked("POST", "/messages$")) == 3


async def test_without_the_permission_for_files_the_box_comes_alone(room: Room) -> None:
    room.general.overwrite(room.discord.bot, deny=Permission.ATTACH_FILES)
    await room.discord.idle()
    channel, _ = await room.asked()
    await channel.card(Card("Look", picture=Image("image/png", png())), nonce="1")
    (message,) = posted(room)
    assert (message.attachments, box(message)["title"]) == ([], "Look")


async def test_a_file_that_is_too_large_for_the_server_is_left_out(room: Room) -> None:
    room.discord.world.attachment_limit = 10
    channel, _ = await room.asked()
    await channel.card(Card("Look", picture=Image("image/png", png())), nonce="1")
    (message,) = posted(room)
    assert (message.attachments, box(message)["title"]) == ([], "Look")


async def test_a_channel_that_is_closed_refuses_it_like_a_message(room: Room) -> None:
    channel, _ = await room.asked()
    room.discord.fail("POST", "/messages$", 403, code=50001)
    with pytest.raises(ChannelError):
        await channel.card(PANCAKES, nonce="1")
    with pytest.raises(ChannelError):
        await channel.send("hi", nonce="2")
    assert len(room.discord.asked("POST", "/messages$")) == 1  # then nothing more is tried in this turn


# What became of it.


@pytest.mark.parametrize("took_effect", [False, True])
async def test_a_connection_that_breaks_posts_it_once(room: Room, took_effect: bool) -> None:
    channel, _ = await room.asked()
    room.discord.hang_up("POST", "/messages$", took_effect=took_effect, times=1)
    number = await channel.card(PANCAKES, nonce="1")
    assert [str(each.id) for each in posted(room)] == [number]


@pytest.mark.parametrize("took_effect", [False, True])
async def test_a_webhook_s_card_of_unknown_fate_is_not_posted_again(masked: Room, took_effect: bool) -> None:
    channel, _ = await masked.asked()
    await channel.card(Card("first"), nonce="0")
    masked.discord.hang_up("POST", r"/webhooks/\d+/[^/]+$", took_effect=took_effect, times=1)
    with pytest.raises(ChannelLost):
        await channel.card(PANCAKES, nonce="1")
    assert len(posted(masked)) == (2 if took_effect else 1)


async def test_no_message_is_taken_for_a_card_nor_a_card_for_a_message(room: Room) -> None:
    channel, asked = await room.asked()
    await channel.card(PANCAKES, nonce="1")
    assert await channel.sent_before("", nonce="2", after=asked) is None


async def test_a_card_is_something_that_people_saw(room: Room) -> None:
    channel, _ = await room.asked()
    await channel.card(PANCAKES, nonce="1-1")
    channel.show(Failed("the model broke off"))
    channel.show(TurnEnded("error", 1))
    await room.discord.idle()
    assert len(posted(room)) == 1
