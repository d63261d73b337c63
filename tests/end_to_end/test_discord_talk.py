"""Talks on Discord, over real sockets from the message to the reply."""

from pathlib import Path

from tests.end_to_end.bot import scene


async def test_who_mentions_the_bot_gets_several_messages_and_a_reaction(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, "[NOTE: aw][REACT: 🥞]\n[SEND: hey!]\n[SEND: pancakes?]") as here,
        here.bot(),
    ):
        asked = await here.room.say(here.mo, f"{here.discord.bot.mention} hi")

        await here.said("hey!", "pancakes?")
        assert list(asked.reactions) == ["🥞"]
        assert "hi" in here.heard()
        assert f"id {here.mo.id}" in here.heard()
