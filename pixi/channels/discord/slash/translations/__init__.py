"""The bot's own texts in the languages of people: one file for each language."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from msgspec import Struct

_ENGLISH = "en"


class Language(Struct, frozen=True):
    """The texts of one language.

    Attributes:
        name: of its file.
        locales: Discord's names of the languages that people may have chosen for it.
        texts: by their keys, such as `commands.reset.name`.
    """

    name: str
    locales: tuple[str, ...]
    texts: Mapping[str, str]

    def say(self, key: str, **values: object) -> str:
        """Put values in the placeholders of a text. They are put in as they are, and never read again."""
        return self.texts[key].format(**values)


class Translations:
    """All languages there are."""

    def __init__(self) -> None:
        self._languages = {each.name: each for each in _read_all()}
        self._by_locale = {
            locale: language for language in self._languages.values() for locale in language.locales
        }

    @property
    def languages(self) -> tuple[Language, ...]:
        """Every language."""
        return tuple(self._languages.values())

    @property
    def english(self) -> Language:
        """The language of those whose own is not there."""
        return self._languages[_ENGLISH]

    def known(self, locale: str) -> Language | None:
        """Return the language of one of Discord's locales; None where it is not there."""
        return self._by_locale.get(locale)

    def of(self, locale: str) -> Language:
        """Return the language of one of Discord's locales; English where it is not there."""
        return self._by_locale.get(locale, self.english)

    def like(self, code: str) -> Language:
        """Return the language of a code such as `de` or `zh`; English where it is not there."""
        wanted = code.casefold().split("-")[0]
        return next(
            (each for name, each in self._languages.items() if name.casefold().split("-")[0] == wanted),
            self.english,
        )


@cache  # some 30 ms
def _read_all() -> tuple[Language, ...]:
    languages = []
    for file in sorted(resources.files(__name__).iterdir(), key=lambda each: each.name):
        name, _, ending = file.name.rpartition(".")
        if ending == "toml":
            content = tomllib.loads(file.read_text("utf-8"))
            locales = tuple(content.pop("locales"))
            languages.append(Language(name, locales, dict(_flat(content))))
    return tuple(languages)


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
