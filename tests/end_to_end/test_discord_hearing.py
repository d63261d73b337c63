"""What a persona is told of what people said, sent, changed and took back, and where its acts land."""

import base64
import re
from io import BytesIO
from pathlib import Path

from PIL import Image as Pillow

from pixi.testing.discord import Upload
from tests.end_to_end.bot import Scene, leaves, scene
from tests.servers.scripted_openai import Hang, Seen
from tests.waiting import until


def number_of(here: Scene, text: str) -> int:
    """By which the persona knows the message that says this."""
    lines = here.heard().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(">") and text in line)
    heads = [line for line in lines[:at] if not line.startswith(">")]
    found = re.findall(r"#(\d+)", heads[-1])
    assert found, f"no number above {text!r} in {here.heard()!r}"
    return int(found[-1])


# What came before.


async def test_a_reply_to_the_persona_itself_needs_no_mention(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: pancakes are round]", "[SEND: yes]") as here, here.bot():
        await here.ask()
        await here.said("pancakes are round")
        said = here.posted("pancakes are round")
        await here.room.say(here.mo, "are they?", reply_to=said, ping=False)

        await here.said("pancakes are round", "yes")


async def test_a_post_of_a_forum_is_answered_with_its_title_and_text(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: ok]") as here:
        forum = here.guild.forum("questions")
        async with here.bot():
            post = await forum.post(here.mo, "Syrup", f"{here.at} maple or not?")
            await here.said("ok", room=post)
    assert here.heard().index("Syrup") < here.heard().index("maple or not?")


async def test_a_direct_message_needs_no_mention(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: ok]") as here:
        letters = here.discord.dm(here.mo)
        async with here.bot():
            await letters.say(here.mo, "hi")
            await here.said("ok", room=letters)
    assert '"Mo"' not in here.heard()  # nobody else is there


# What changes.


async def test_an_edit_before_anything_was_seen_is_what_is_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, [Hang()], "[SEND: ok]") as here, here.bot() as service:
        asked = await here.ask("do you like wafles?")
        await until(lambda: here.asked)
        await asked.edit(f"{here.at} do you like waffles?")

        await here.said("ok")
        await here.answered(service, 2)
        await leaves(here.asked[0])
        assert "do you like waffles?" in here.heard()
        assert "wafles" not in here.whole()


async def test_an_edit_after_the_answer_changes_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: ok]") as here, here.bot() as service:
        asked = await here.ask("first")
        await here.said("ok")
        await here.answered(service, 1)
        await asked.edit(f"{here.at} second")
        await here.room.touch(asked, embeds=[{"title": "a preview"}])

        await here.ask("third")
        await here.said("ok", "ok")
        await here.answered(service, 2)


async def test_a_deleted_question_is_not_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, [Hang()], "[SEND: ok]") as here, here.bot() as service:
        asked = await here.ask("a secret")
        await until(lambda: here.asked)
        await asked.delete()
        await leaves(here.asked[0])
        await service.engine.settled()
        assert here.posts() == []

        await here.ask("anything else?")
        await here.said("ok")
        assert "secret" not in here.whole()


async def test_a_question_that_is_deleted_under_its_answer_ends_it_and_is_forgotten(tmp_path: Path) -> None:
    async with scene(tmp_path, ["[SEND: one]\n", Hang()], "[SEND: ok]") as here, here.bot() as service:
        asked = await here.ask("a secret")
        await here.said("one")
        await asked.delete()
        await leaves(here.asked[0])
        await service.engine.settled()

        await here.ask("what did you say?")
        await here.said("one", "ok")
        assert "[SEND: one]" in here.whole()
        assert "secret" not in here.whole()


# Where acts land.


async def test_reactions_and_replies_land_on_the_messages_that_they_name(tmp_path: Path) -> None:
    async with scene(tmp_path, "") as here, here.bot():
        ana = here.discord.person("Ana")

        def reply(_: Seen) -> str:
            joke, asked = number_of(here, "a funny joke"), number_of(here, "what do you say?")
            assert joke != asked
            return f"[REACT #{joke}: 😂]\n[REACT: 🥞]\n[REPLY #{joke}: good one]\n[SEND: well]"

        here.scripts[:] = [reply, "[REACT #1: 🎉]\n[REACT #99: 🎉]\n[SEND #99: hm]"]
        joke = await here.room.say(ana, "a funny joke")
        other = await here.room.say(ana, "something else")
        asked = await here.ask("what do you say?")

        await here.said("good one", "well")
        assert list(joke.reactions) == ["😂"]
        assert list(asked.reactions) == ["🥞"]
        assert other.reactions == {}
        assert here.posted("good one").answered is joke
        assert here.posted("well").answered is None

        await here.ask("and now?")
        await here.said("good one", "well", "hm")  # there is no 99: it is said without pointing
        assert list(joke.reactions) == ["😂", "🎉"]  # numbers stay what they are
        assert here.posted("hm").answered is None


async def test_an_emoji_is_understood_however_it_is_named(tmp_path: Path) -> None:
    reply = "[REACT: :pancakes:][REACT: thumbsup][REACT: blobfox][REACT: 🎉 yay][REACT: zzqqxx]"
    async with scene(tmp_path, reply + "[SEND: I :blobfox: you]") as here:
        own = here.guild.emoji("blobfox")
        async with here.bot():
            asked = await here.ask()
            await here.said(f"I {own.text} you")
            assert list(asked.reactions) == ["🥞", "👍", ":blobfox:", "🎉"]


# What messages carry.


def picture(color: str = "orange", side: int = 64) -> Upload:
    """A picture of one colour."""
    file = BytesIO()
    Pillow.new("RGB", (side, side), color).save(file, "PNG")
    return Upload(f"{color}.png", "image/png", file.getvalue())


def shown(here: Scene) -> list[Pillow.Image]:
    """The pictures that came with the last user line."""
    content = next(line["content"] for line in reversed(here.prompt()) if line["role"] == "user")
    if isinstance(content, str):
        return []
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return [Pillow.open(BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]


async def test_a_model_that_sees_is_shown_pictures(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, "[SEND: nice]") as here,
        here.bot(model__vision=True, discord__pictures=2, discord__picture_pixels=256),
    ):
        files = [picture("orange", 1_024), picture("teal"), picture("navy")]
        await here.room.say(here.mo, f"{here.at} look", attachments=files)

        await here.said("nice")
        assert [image.size for image in shown(here)] == [(256, 256), (64, 64)]
        assert "navy.png" in here.heard()  # named, not shown


async def test_a_picture_in_the_message_that_is_asked_about_is_shown(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: nice]") as here, here.bot(model__vision=True):
        above = await here.room.say(here.discord.person("Ana"), "my cat", attachments=[picture()])
        await here.room.say(here.mo, f"{here.at} what is this?", reply_to=above)

        await here.said("nice")
        assert len(shown(here)) == 1
        assert "my cat" in here.heard()


async def test_a_picture_is_still_shown_after_a_restart(tmp_path: Path) -> None:
    async with scene(tmp_path, [Hang()], "[SEND: nice]") as here:
        async with here.bot(model__vision=True):
            await here.room.say(here.mo, f"{here.at} look", attachments=[picture()])
            await until(lambda: here.asked)
        async with here.bot(model__vision=True):
            await here.said("nice")
            assert len(shown(here)) == 1


async def test_a_message_that_is_only_a_picture_is_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: nice]") as here:
        letters = here.discord.dm(here.mo)
        async with here.bot(model__vision=True):
            await letters.say(here.mo, attachments=[picture()])
            await here.said("nice", room=letters)
            assert len(shown(here)) == 1
