"""Whatever a persona writes for an emoji becomes the one that is meant, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.channels.discord.outgoing.emoji import EmojiNames, OwnEmoji, emoji_markup, find_emoji
from tests.rows import row

WAVE, CAKES, DANCE = OwnEmoji(1, "PixiWave"), OwnEmoji(2, "fire"), OwnEmoji(3, "blob_dance", animated=True)
OWN = (WAVE, CAKES, DANCE)


@pytest.fixture(scope="module")
def names() -> EmojiNames:
    return EmojiNames()


MEANT: list[tuple[str, str | OwnEmoji | None]] = [
    # Themselves.
    ("🥞", "🥞"),
    (" 🥞 ", "🥞"),
    ("❤", "❤️"),
    ("❤️", "❤️"),
    ("☺", "☺️"),
    ("👍🏽", "👍🏽"),
    ("👋🏿", "👋🏿"),
    ("😂😭", "😂"),
    ("lol 😂 so good 😭", "😂"),
    ("💀💀💀", "💀"),
    ("👩‍👩‍👧", "👩‍👩‍👧"),
    ("👁‍🗨", "👁️‍🗨️"),
    ("🇩🇪", "🇩🇪"),
    ("1️⃣", "1️⃣"),
    ("“🥰”", "🥰"),
    ("`🥰`", "🥰"),
    # Shortcodes.
    (":pancakes:", "🥞"),
    ("pancakes", "🥞"),
    ("Pancakes", "🥞"),
    (":thumbsup:", "👍"),
    ("thumbsup", "👍"),
    ("thumbs_up", "👍"),
    ("thumbs up", "👍"),
    ("Thumbs-Up!", "👍"),
    ("+1", "👍"),
    (":+1:", "👍"),
    ("-1", "👎"),
    (":joy:", "😂"),
    (":sob: :joy:", "😭"),
    (":tada:", "🎉"),
    (":white_check_mark:", "✅"),
    (":100:", "💯"),
    ("100", "💯"),
    ("x", "❌"),
    ("heart, sparkles", "❤️"),
    (":nothing_at_all: 😂", "😂"),
    # Discord's own shortcodes.
    (":slight_smile:", "🙂"),
    ("upside_down", "🙃"),
    (":face_with_symbols_over_mouth:", "🤬"),
    (":wave_tone3:", "👋🏽"),
    (":wave::skin-tone-2:", "👋🏻"),
    (":thumbsup_tone5:", "👍🏿"),
    (":pancakes_tone1:", "🥞"),
    ("flag_de", "🇩🇪"),
    (":flag_jp:", "🇯🇵"),
    # Words.
    ("heart", "❤️"),
    ("red heart", "❤️"),
    ("pancake", "🥞"),
    (":pancake:", "🥞"),
    ("thinking", "🤔"),
    ("thinking face", "🤔"),
    ("monocle", "🧐"),
    ("tears of joy", "😂"),
    ("the rocket", "🚀"),
    ("**rocket**", "🚀"),
    ("eyes emoji", "👀"),
    ("woman dancing", "💃"),
    ("sparkling hart", "💖"),
    ("laugh", "😂"),
    ("love", "❤️"),
    # The server's own.
    ("PixiWave", WAVE),
    (":PixiWave:", WAVE),
    ("pixiwave", WAVE),
    ("pixi wave", WAVE),
    ("pixiwav", WAVE),
    ("<:PixiWave:1>", WAVE),
    ("<:renamed_since:1>", WAVE),
    ("<a:blob_dance:3>", DANCE),
    ("blob dance", DANCE),
    ("yes :blob_dance: 😂", DANCE),
    ("fire", CAKES),
    (":fire:", CAKES),
    ("🔥", "🔥"),
    ("<:heart:99>", "❤️"),
    # Nothing that there is.
    ("", None),
    ("asdfgh", None),
    ("none", None),
    ("<:gone:99>", None),
    ("🏽", None),
    ("c", None),
    ("1", None),
    ("(", None),
    ("::", None),
    ("\ud83d", None),
    ("hello there, how are you", None),
    ("a" * 100_000, None),
]


def test_what_is_meant(names: EmojiNames) -> None:
    for text, meant in MEANT:
        with row(text):
            assert find_emoji(text, names, OWN) == meant


@pytest.mark.parametrize(
    ("language", "text", "meant"),
    [
        ("de", "Pfannkuchen", "🥞"),
        ("de", "daumen hoch", "👍"),
        ("zh", "红心", "❤️"),
        ("zh-Hans", ":红心:", "❤️"),
        ("ru", "блины", "🥞"),
        ("de", "pancakes", "🥞"),
        ("tlh", "pancakes", "🥞"),
        ("en", "Pfannkuchen", None),
    ],
)
def test_a_persona_may_name_it_in_its_own_language(
    names: EmojiNames, language: str, text: str, meant: str | None
) -> None:
    assert find_emoji(text, names, (), language) == meant


def test_every_emoji_and_every_english_name_is_found_as_itself(names: EmojiNames) -> None:
    from emoji import EMOJI_DATA, STATUS

    whole = [each for each, about in EMOJI_DATA.items() if about["status"] == STATUS["fully_qualified"]]
    assert len(whole) > 3_000
    assert [each for each in whole if find_emoji(each, names) != each] == []
    unnamed = [each for each in whole if find_emoji(EMOJI_DATA[each]["en"], names) is None]
    assert unnamed == []


@given(text=st.text(max_size=60), language=st.text(max_size=8))
def test_whatever_is_written_nothing_breaks(names: EmojiNames, text: str, language: str) -> None:
    found = find_emoji(text, names, OWN, language)
    assert found is None or isinstance(found, str | OwnEmoji)


def test_a_server_emoji_is_written_with_its_id() -> None:
    assert emoji_markup(WAVE) == "<:PixiWave:1>"
    assert emoji_markup(DANCE) == "<a:blob_dance:3>"
