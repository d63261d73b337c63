import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import discord
import pytest

import pixi.channels.discord
from pixi.channels.discord.slash.translations import Language, Translations

WORDS = Translations()
ENGLISH = WORDS.english
OTHERS = [language for language in WORDS.languages if language is not ENGLISH]
every_language = pytest.mark.parametrize("language", WORDS.languages, ids=lambda language: language.name)
every_other = pytest.mark.parametrize("language", OTHERS, ids=lambda language: language.name)


def placeholders(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def is_command_name(text: str) -> bool:
    """`^[-_'\\p{L}\\p{N}\\p{sc=Deva}\\p{sc=Thai}]{1,32}$`, with no letter that has a lower-case variant."""
    return (
        1 <= len(text) <= 32
        and all(each in "-_'" or unicodedata.category(each)[0] in "LN" for each in text)
        and text == text.lower()
    )


def options_of(language: Language) -> Iterator[tuple[str, str]]:
    """Command or subcommand, and the name of each of its options."""
    for key, text in language.texts.items():
        match = re.fullmatch(r"commands\.([a-z.]+)\.options\.[a-z]+\.name", key)
        if match:
            yield match[1], text


def test_the_languages_are_those_that_people_were_promised() -> None:
    assert {locale for language in WORDS.languages for locale in language.locales} == {
        *("en-US", "en-GB", "de", "fr", "es-ES", "es-419", "pt-BR", "zh-CN", "ja")
    }


def test_every_locale_is_one_of_discords_and_stands_in_one_file() -> None:
    count = Counter(locale for language in WORDS.languages for locale in language.locales)
    assert set(count) <= {locale.value for locale in discord.Locale}
    assert set(count.values()) == {1}


def test_a_language_that_is_not_there_is_english() -> None:
    assert WORDS.of("tlh") is ENGLISH
    assert WORDS.known("tlh") is None
    assert WORDS.of("es-419").name == "es"


@every_other
def test_every_language_has_every_text(language: Language) -> None:
    assert language.texts.keys() == ENGLISH.texts.keys()


@every_language
def test_every_text_says_something(language: Language) -> None:
    assert not [key for key, text in language.texts.items() if not text.strip() or text != text.strip()]


@every_other
def test_placeholders_are_the_same_in_every_language(language: Language) -> None:
    for key, text in ENGLISH.texts.items():
        assert placeholders(language.texts[key]) == placeholders(text), key


@every_other
def test_hardly_a_text_is_left_in_english(language: Language) -> None:
    same = [key for key, text in ENGLISH.texts.items() if len(text) > 20 and language.texts[key] == text]
    assert not same


@every_language
def test_texts_are_written_with_one_code_point_for_a_letter(language: Language) -> None:
    assert all(unicodedata.is_normalized("NFC", text) for text in language.texts.values())


@every_language
def test_names_of_commands_and_options_are_such_as_discord_takes(language: Language) -> None:
    names = {
        key: text
        for key, text in language.texts.items()
        if key.startswith("commands.") and key.endswith(".name")
    }
    assert names
    assert [key for key, text in names.items() if not is_command_name(text)] == []


@every_language
def test_descriptions_and_choices_have_at_most_100_characters(language: Language) -> None:
    long = {
        key: len(text)
        for key, text in language.texts.items()
        if key.startswith("commands.") and len(text) > 100
    }
    assert long == {}


@every_language
def test_names_in_menus_have_at_most_32_characters(language: Language) -> None:
    assert all(len(text) <= 32 for key, text in language.texts.items() if key.startswith("menus."))


@every_language
def test_no_two_commands_share_a_name(language: Language) -> None:
    names = [text for key, text in language.texts.items() if re.fullmatch(r"commands\.\w+\.name", key)]
    assert max(Counter(names).values()) == 1


@every_language
def test_no_two_options_of_a_command_share_a_name_with_each_other_or_with_an_english_one(
    language: Language,
) -> None:
    assert max(Counter(options_of(language)).values()) == 1
    english = dict.fromkeys(options_of(ENGLISH))
    for (command, name), (_, own) in zip(options_of(language), english, strict=True):
        assert (command, name) not in english or name == own


@every_language
def test_labels_of_buttons_and_headings_are_short(language: Language) -> None:
    assert all(len(language.texts[f"says.forget.{key}"]) <= 80 for key in ("yes", "no"))
    headings = [key for key in language.texts if key.endswith((".title", ".figures", ".sources", ".did"))]
    assert all(len(language.texts[key]) <= 100 for key in headings)


@pytest.mark.parametrize("prefix", ["says.", "menus."])
def test_every_text_is_used(prefix: str) -> None:
    folder = Path(pixi.channels.discord.__file__).parent
    code = "\n".join(path.read_text("utf-8").replace("'", '"') for path in folder.rglob("*.py"))
    built = ("says.why.", "says.status.whose.", "says.status.what.")  # put together from a part and a name
    unused = [
        key
        for key in ENGLISH.texts
        if key.startswith(prefix) and f'"{key}"' not in code and not key.startswith(built)
    ]
    assert unused == []


def test_values_are_put_in_as_they_are() -> None:
    assert ENGLISH.say("says.persona.here", name="{x} {0}") == "{x} {0} speaks here from now on."
