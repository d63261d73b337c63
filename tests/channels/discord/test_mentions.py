"""Names in outgoing text become what Discord shows, where they are meant, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.channels.discord.formatting import with_mention
from pixi.channels.discord.outgoing.delivery import may_be
from pixi.channels.discord.outgoing.emoji import OwnEmoji, with_own_emoji

OWN = (OwnEmoji(1, "PixiWave"), OwnEmoji(2, "dance", animated=True))


@pytest.mark.parametrize(
    ("text", "posted"),
    [
        ("hi :PixiWave:", "hi <:PixiWave:1>"),
        ("hi :pixiwave:!", "hi <:PixiWave:1>!"),
        (":dance::dance:", "<a:dance:2><a:dance:2>"),
        ("hi <:PixiWave:1>", "hi <:PixiWave:1>"),
        ("`:PixiWave:`", "`:PixiWave:`"),
        ("```\n:PixiWave:\n```", "```\n:PixiWave:\n```"),
        ("https://a.example:dance:1/", "https://a.example:dance:1/"),
        ("at 12:30:45 :pancakes:", "at 12:30:45 :pancakes:"),
        ("no colons", "no colons"),
    ],
)
def test_the_server_s_own_emoji_are_put_in_by_name(text: str, posted: str) -> None:
    assert with_own_emoji(text, OWN) == posted


@pytest.mark.parametrize(
    ("text", "posted"),
    [
        ("@Mo hi", "<@7> hi"),
        ("hi @mo!", "hi <@7>!"),
        ("(@Mo)", "(<@7>)"),
        ("@Mo Farah, hi", "<@7>, hi"),
        ("@Mohammed", "@Mohammed"),
        ("write to x@Mo", "write to x@Mo"),
        ("`@Mo`", "`@Mo`"),
        ("```\n@Mo\n```", "```\n@Mo\n```"),
        ("https://a.example/@Mo", "https://a.example/@Mo"),
        ("@小明你好", "<@7>你好"),
        ("你好@小明", "你好<@7>"),
        ("@everyone and @here", "@everyone and @here"),
        ("<@8> <@&9>", "<@8> <@&9>"),
        ("Mo", "Mo"),
        ("@a.b*c", "<@7>"),
        ("@aXbbc", "@aXbbc"),
    ],
)
def test_the_person_s_name_after_an_at_sign_becomes_their_mention(text: str, posted: str) -> None:
    assert with_mention(text, 7, ("Mo", "Mo Farah", "小明", "a.b*c", "everyone", "here", "")) == posted


@pytest.mark.parametrize(
    ("posted", "text", "same"),
    [
        ("hi <@7>!", "hi @Mo!", True),
        ("<@7> and <@7>", "@Mo and @Mo Farah", True),
        ("hi", "hi", True),
        ("hi", "ho", False),
        ("hi <@8>", "hi @Mo", True),
        ("<@8> hi <@7>", "<@8> hi @Mo", True),
        ("<@8> hi <@7>", "@Mo hi @Ana", False),
        ("hi <@7>", "hi Mo", False),
        ("hi <@7>", "hi @", False),
        ("hi <@7>", f"hi @{'a' * 50}", False),
    ],
)
def test_a_posted_message_is_known_again(posted: str, text: str, same: bool) -> None:
    assert may_be(posted, text) is same


@given(st.text(alphabet="@Mo <>7 `\n", max_size=200))
def test_whatever_was_posted_is_known_again(text: str) -> None:
    assert may_be(with_mention(text, 7, ("Mo",)), text)


def test_comparing_takes_no_time_whatever_was_written() -> None:
    assert not may_be("".join(f"<@{number}>" for number in range(400)), "@" * 2_000)
    assert not may_be("<@7>" * 500, "@" * 2_000)
