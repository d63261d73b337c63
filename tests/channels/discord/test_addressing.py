import pytest

from pixi.channels.discord.incoming.handler import (
    AddressingFacts,
    ChannelPersona,
    Why,
    fold,
    stands_in,
    who_is_meant,
)
from tests.steps import grows_in_proportion

PIXI = ChannelPersona("pixi", ("Pixi", "pancake fox"))
EDDA = ChannelPersona("edda", ("Edda",))
LAOQIN = ChannelPersona("laoqin", ("老秦", "Lǎo Qín"))
ALL = (PIXI, EDDA, LAOQIN)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pixi?", ["pixi"]),
        ("Hey, PIXI!", ["pixi"]),
        ("ｐｉｘｉ", ["pixi"]),
        ("(pixi)", ["pixi"]),
        ("pixi's pancakes", ["pixi"]),
        ("@pixi", ["pixi"]),
        ("**Pixi**, look", ["pixi"]),
        ("你好pixi呀", ["pixi"]),
        ("ピクシーpixiさん", ["pixi"]),
        ("pixi\u200b\ufe0f hello", ["pixi"]),
        ("dear pancake fox", ["pixi"]),
        ("dear pancake\nfox", ["pixi"]),
        ("Edda and pixi", ["pixi", "edda"]),
        ("老秦在吗", ["laoqin"]),
        ("请问老秦在吗", ["laoqin"]),
        ("LǍO QÍN", ["laoqin"]),
        ("la\u030co qi\u0301n", ["laoqin"]),
        ("pixiv", []),
        ("pixi_bot", []),
        ("npixi", []),
        ("pixi\u0301", []),
        ("pixie", []),
        ("pixi2", []),
        ("Pixí", []),
        ("пpixi", []),
        ("!pizza", []),
        ("the pancake foxes", []),
        ("老", []),
        ("秦老", []),
        ("<:pixi:123456789012345678>", []),
        ("<a:pixi:123456789012345678> hm", []),
        ("</pixi:123456789012345678>", []),
        ("https://pixi.example/a look", []),
        ("see https://example.org/pixi pixi", ["pixi"]),
        ("", []),
    ],
)
def test_a_name_calls_its_resident_as_a_whole_word(text: str, named: list[str]) -> None:
    assert list(who_is_meant(AddressingFacts(text), ALL, home=False)) == named


@pytest.mark.parametrize(
    ("word", "text", "stands"),
    [
        ("픽시", "픽시야 안녕", True),
        ("픽시", "픽시는 뭐해", True),
        ("픽시", "픽시에게", True),
        ("픽시", "안녕 픽시", True),
        ("픽시", "픽시님은?", True),
        ("픽시", "픽시브", False),
        ("픽시", "대픽시", False),
        ("พิกซี่", "สวัสดีพิกซี่ครับ", True),
        ("ก", "กา", True),
        ("ก", "กิ", False),
        ("Пикси", "привет, ПИКСИ!", True),
        ("Пикси", "Пиксибот", False),
        ("بيكسي", "يا بيكسي!", True),
        ("بيكسي", "بيكسيات", False),
        ("straße", "STRASSE", True),
        ("🥞", "🥞🥞", True),
        ("🥞", "a🥞b", True),
        ("❤️", "I ❤ you", True),
        ("c++", "learn c++11", True),
        ("r2d2", "R2D2.", True),
        ("r2d2", "r2d2x", False),
        ("ミク", "初音ミクさん", True),
    ],
)
def test_words_of_any_script_are_found_as_it_writes_them(word: str, text: str, stands: bool) -> None:
    assert stands_in(fold(word), fold(text)) is stands


CASES: dict[str, tuple[AddressingFacts, tuple[ChannelPersona, ...], bool, dict[str, Why]]] = {
    "a direct message is for the first": (AddressingFacts("hi", direct=True), ALL, False, {"pixi": "dm"}),
    "a direct message is for whom it names": (
        AddressingFacts("Edda?", direct=True),
        ALL,
        False,
        {"edda": "name"},
    ),
    "a mention is for the first": (
        AddressingFacts("<@1> hi", mentions_bot=True),
        ALL,
        False,
        {"pixi": "mention"},
    ),
    "a mention is for whom it names": (
        AddressingFacts("<@1> Edda?", mentions_bot=True),
        ALL,
        False,
        {"edda": "name"},
    ),
    "a reply is for whom it replies to": (
        AddressingFacts("hm", replies_to="edda", mentions_bot=True),
        ALL,
        False,
        {"edda": "reply"},
    ),
    "a reply may name another too": (
        AddressingFacts("and you, Pixi?", replies_to="edda"),
        ALL,
        False,
        {"pixi": "name", "edda": "reply"},
    ),
    "a reply to one who moved out is for the first": (
        AddressingFacts("hm", replies_to="gone"),
        ALL,
        False,
        {"pixi": "reply"},
    ),
    "a reply to the bot, nobody knows as whom, is for the first": (
        AddressingFacts("hm", replies_to=""),
        ALL,
        False,
        {"pixi": "reply"},
    ),
    "other talk is for nobody": (AddressingFacts("lovely weather"), ALL, False, {}),
    "at home everything is for the first": (AddressingFacts("lovely weather"), ALL, True, {"pixi": "home"}),
    "at home a name goes first": (AddressingFacts("Edda, lovely"), ALL, True, {"edda": "name"}),
    "at home what is for others is for nobody": (
        AddressingFacts("<@5> lovely", to_others=True),
        ALL,
        True,
        {},
    ),
    "at home the bot may be mentioned beside others": (
        AddressingFacts("<@5> <@1> lovely", to_others=True, mentions_bot=True),
        ALL,
        True,
        {"pixi": "mention"},
    ),
    "no resident hears itself": (AddressingFacts("I, Pixi", by="pixi"), ALL, True, {}),
    "a resident replying to itself means nobody": (
        AddressingFacts("and", by="pixi", replies_to="pixi"),
        ALL,
        True,
        {},
    ),
    "residents speak to each other by name": (
        AddressingFacts("Edda!", by="pixi"),
        ALL,
        True,
        {"edda": "name"},
    ),
    "residents reply to each other": (
        AddressingFacts("so", by="pixi", replies_to="edda"),
        ALL,
        True,
        {"edda": "reply"},
    ),
    "alone, nobody else is there to be meant": (AddressingFacts("Pixi!", by="pixi"), (PIXI,), True, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_decided_whom_a_message_is_for(case: str) -> None:
    said, residents, home, meant = CASES[case]

    assert who_is_meant(said, residents, home=home) == meant


@pytest.mark.parametrize(
    "text", ["pixi" * 10_000, "pix" * 14_000, "<" * 40_000, "<@" * 20_000, "<:a" * 14_000, "픽시" * 20_000]
)
def test_hostile_text_costs_steps_in_proportion(text: str) -> None:
    def meant(text: str) -> None:
        who_is_meant(AddressingFacts(text), (PIXI, ChannelPersona("k", ("픽시",))), home=False)

    assert grows_in_proportion(meant, text)


def test_a_word_of_nothing_calls_nobody() -> None:
    assert who_is_meant(AddressingFacts("hi"), (ChannelPersona("pixi", ("", "\u200b")),), home=False) == {}
