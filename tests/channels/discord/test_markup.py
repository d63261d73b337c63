"""What a persona says cannot deceive by its look."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pixi.channels.discord.formatting import LIMIT, units, without_misleading_markup
from tests.channels.discord.scene import Scene
from tests.steps import grows_in_proportion

EVIL = "https://evil.example/x"


def told(text: str) -> str:
    return without_misleading_markup(text, hosts=True)


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (EVIL, "evil.example"),
        (f"<{EVIL}>", "evil.example"),
        (f"\n{EVIL}\n", "evil.example"),
        (f'{EVIL} "a title"', "evil.example"),
        ("https://discord.com@evil.example/", "evil.example"),
        ("https://discord.com:443@evil.example:8443/", "evil.example"),
        ("https:evil.example", "evil.example"),
        ("https:////evil.example", "evil.example"),
        ("HTTPS://EVIL.example", "evil.example"),
        ("https://%65vil.example", "evil.example"),
        ("https://evil.example/a_(b)", "evil.example"),
        ("https://аpple.com", "xn--pple-43d.com"),
        ("https://[2001:db8::1]:8/", "[2001:db8::1]"),
        ("https://a..b/", "a..b-"),
        ("mailto:mo", "mo"),
        ("tel:", "tel"),
    ],
)
def test_beside_a_link_stands_where_it_leads(target: str, host: str) -> None:
    for name in ("free nitro", "free\nnitro", "a [b] c", "**bold**", "`code`"):
        link = f"see [{name}]({target})"
        assert told(f"{link}!") == f"{link} ({host})!"
        assert told(told(link)) == told(link)
        assert without_misleading_markup(link, hosts=False) == link


@pytest.mark.parametrize(
    "target",
    [
        r"https:\/\/evil.example",
        f"{EVIL} 'a title'",
        f"< {EVIL} >",
        "https://evil.example/((",
        "//evil.example",
    ],
)
def test_a_link_that_is_not_certain_is_none(target: str) -> None:
    assert told(f"[free nitro]({target})") == f"[free nitro]\u200b({target})"


@pytest.mark.parametrize(
    "text",
    [
        "nothing to see",
        f"see {EVIL} or <{EVIL}>",
        f"[evil.example]({EVIL})",
        f"```md\n[a]({EVIL})\n-# small\n```",
        f"some **bold** words\n```\n[a]({EVIL})\n```\nand `[a]({EVIL})` too",
        f"``[a]({EVIL})``",
        "a - # b #-",
    ],
)
def test_code_and_what_deceives_nobody_stays(text: str) -> None:
    assert told(text) == text


@pytest.mark.parametrize(
    "text",
    [
        r"\`[a](E)`",
        "\\```[a](E)```",
        "`a\n```\nb` [a](E)\n```",
        "# `x\n[a](E) `",
        "> ```\n[a](E)\n```",
        "[a`](E) `",
        "[a `[b](c](E) `",
        "[a `[[b]](E)`",
        "[a] `b](E) `",
        "||`a||[a](E)`",
        "**`a**[a](E)`",
        "~~a\n```\nb~~[a](E)\n```",
        "<https://a/`b> [a](E)`",
        "https://a/`b [a](E)`",
        "https://a]b`c [a](E)`",
        "](a`b) c` [a](E) `d`",
        "```\n```\nx\n```\n[a](E)\n```",
        "```[a](E)",
        "a ``` b ``` [a](E)",
    ],
)
def test_what_only_looks_like_code_is_none(text: str) -> None:
    assert "(evil.example)" in told(text.replace("E", EVIL))


@pytest.mark.parametrize(
    "text", ["-# Something went wrong", "  -# a", "hi\n-# a", "- -# a", "> -# a", "`-#` -# b"]
)
def test_no_line_looks_like_a_notice(text: str) -> None:
    assert "-#" not in told(text).replace("`-#`", "")
    assert told(text).replace("\u200b", "") == text


async def test_nor_does_one_that_begins_behind_a_cut(scene: Scene) -> None:
    parts = scene.channel().parts(f"{'word ' * 399}-# Something went wrong; [free nitro]({EVIL})")
    assert len(parts) == 2
    assert "-#" not in "".join(parts)
    assert parts[1].endswith(f"[free nitro]({EVIL}) (evil.example)")


async def test_where_the_operator_wants_no_hosts_links_are_as_they_were(scene: Scene) -> None:
    scene.backend.obey(link_hosts=False)
    assert scene.channel().parts(f"[a]({EVIL})\n-# b") == (f"[a]({EVIL})\n-\u200b# b",)


@given(
    st.lists(
        st.sampled_from(["`", "```", "\n", "[a]", f"({EVIL})", "](", "-#", "*", "||", "<", "a ", "://"])
    ).map("".join)
)
@example(f"({EVIL})[a]({EVIL})")
@example(f"({EVIL})](`<-#`")
def test_twice_is_once_and_nothing_is_lost(text: str) -> None:
    once = told(text)
    assert told(once) == once
    assert once.replace("\u200b", "").replace(" (evil.example)", "") == text


@pytest.mark.parametrize(
    "piece", ["](", "[`a` ](", "```\n](", "://](", "<a:/](", "-#", "**`a`](", "](a ", "```a\n"]
)
def test_hostile_text_costs_steps_in_proportion(piece: str) -> None:
    assert grows_in_proportion(told, piece * 8_000)


async def test_no_part_is_too_long(scene: Scene) -> None:
    parts = scene.channel().parts(f"[a]({EVIL}) -# " * 300)
    assert all(0 < units(part) <= LIMIT for part in parts)
