import pytest

from pixi.channels.discord.formatting import one_line
from pixi.channels.discord.incoming.message import MarkupNames, named_markup
from tests.steps import grows_in_proportion

NAMES = MarkupNames(
    ours=(1, 9),
    user={1: "Pixi", 5: "Mo", 6: "a\nb\u202e@everyone"}.get,
    role={7: "cooks", 9: "Pixi"}.get,
    channel={8: "kitchen"}.get,
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<@1> hi", "hi"),
        ("<@!1> hi", "hi"),
        ("<@&9> hi", "hi"),
        ("hi <@1>", "hi"),
        ("  <@1>\n<@1>  hi there <@1> <@!1> ", "hi there"),
        ("<@1>", ""),
        ("what does <@1> think?", "what does @Pixi think?"),
        ("<@1>, hi", "@Pixi, hi"),
        ("is it you, <@1>?", "is it you, @Pixi?"),
        ("hi<@1>", "hi@Pixi"),
        ("<@5> <@1> !pizza", "@Mo @Pixi !pizza"),
        ("<@1> <@5> hi", "@Mo hi"),
        ("ask <@&7> in <#8>", "ask @cooks in #kitchen"),
        ("<@404> <@&404> <#404>", "@unknown @unknown #unknown"),
        ("nice <:pan:123><a:cake:456>", "nice :pan::cake:"),
        ("try </reset:99> or </notes all:99>", "try /reset or /notes all"),
        ("<@6>", "@a b @everyone"),
        (
            "<t:1700000000:R> <https://a.example> <3 <@x> < @1>",
            "<t:1700000000:R> <https://a.example> <3 <@x> < @1>",
        ),
        ("line one\n  line two", "line one\n  line two"),
        ("11", "11"),
    ],
)
def test_markup_becomes_names_and_only_the_mention_goes(content: str, text: str) -> None:
    assert named_markup(content, NAMES) == text


def test_names_are_one_short_line() -> None:
    assert one_line("  a\r\n\tb\x00c\u2028d  ") == "a b c d"
    assert one_line("x" * 500) == "x" * 79 + "…"
    assert one_line("👩\u200d🍳") == "👩\u200d🍳"


@pytest.mark.parametrize(
    "content", ["<@1>" * 12_500, "<@1> " * 12_500, " <@1>" * 12_500, "<" * 50_000, "</a" * 17_500]
)
def test_hostile_text_costs_steps_in_proportion(content: str) -> None:
    assert grows_in_proportion(lambda text: named_markup(text, NAMES), content)
