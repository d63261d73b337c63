"""Application commands: registered, checked, and found again when somebody uses one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pixi.testing.discord.calls import Json, invalid, within
from pixi.testing.discord.ids import Snowflakes

CHAT, MESSAGE = 1, 3
SUBCOMMAND, GROUP = 1, 2
LOCALES = frozenset((
    "id", "da", "de", "en-GB", "en-US", "es-ES", "es-419", "fr", "hr", "it", "lt", "hu", "nl", "no", "pl",
    "pt-BR", "ro", "fi", "sv-SE", "vi", "tr", "cs", "el", "bg", "ru", "uk", "hi", "th", "zh-CN", "ja",
    "zh-TW", "ko",
))  # fmt: skip
_LEAN_FIELDS = frozenset({"name", "description", "type", "required", "choices", "value", "options"})
"""Fields of an option that a server knows which only speaks like Discord."""

_NAME = re.compile(r"^[-_'\w\u0900-\u097f\u0e00-\u0e7f]{1,32}$")


@dataclass(eq=False, slots=True)
class FakeCommand:
    """A command as it was registered."""

    id: int
    body: Json
    version: int

    @property
    def name(self) -> str:
        """Return what it is called where nothing is translated."""
        return str(self.body["name"])

    @property
    def type(self) -> int:
        """1 is typed, 2 is on a person, 3 on a message."""
        return int(self.body.get("type") or CHAT)

    def payload(self, application_id: int) -> Json:
        """Return the client's view."""
        return {
            "default_member_permissions": None,
            "nsfw": False,
            "description": "",
            "options": [],
            **self.body,
            "id": str(self.id),
            "application_id": str(application_id),
            "type": self.type,
            "version": str(self.version),
        }


class Commands:
    """Commands of the application, which are those of every guild."""

    def __init__(self, ids: Snowflakes) -> None:
        self.kept: dict[tuple[int, str], FakeCommand] = {}
        self.permissions: list[Json] = []  # what a guild gave to others, as Discord tells it
        self._ids = ids

    def put(self, body: Json) -> FakeCommand:
        """Register one; one of the same name and type is replaced."""
        key = int(body.get("type") or CHAT), str(body["name"])
        known = self.kept.get(key)
        command_id = known.id if known else self._ids.next()
        command = self.kept[key] = FakeCommand(command_id, dict(body), self._ids.next())
        return command


def check(body: Json, place: tuple[str | int, ...], *, lean: bool) -> None:
    """Raises `RefusedCall`: something is wrong with a command. A `lean` server knows fewer fields."""
    typed = (body.get("type") or CHAT) == CHAT
    _names(body, place, typed=typed)
    if typed:
        _description(body, place)
        _options(body.get("options") or [], (*place, "options"))
    if _length(body) > 8000:
        raise invalid(place, "APPLICATION_COMMAND_TOO_LARGE", "Command exceeds maximum size (8000)")
    if lean:
        for at, option in enumerate(body.get("options") or []):
            if set(option) - _LEAN_FIELDS:
                raise invalid(("options", at), "BASE_TYPE_BAD", "must NOT have additional properties")


def _names(body: Json, place: tuple[str | int, ...], *, typed: bool) -> None:
    translated = body.get("name_localizations") or {}
    every = {("name",): body.get("name")} | {
        ("name_localizations", key): one for key, one in translated.items()
    }
    for where, name in every.items():
        spot = (*place, *where)
        if not name:
            raise invalid(spot, "BASE_TYPE_REQUIRED", "This field is required")
        if not isinstance(name, str) or not 1 <= len(name) <= 32:
            raise invalid(spot, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 32 in length.")
        if typed and (not _NAME.match(name) or name != name.lower()):
            raise invalid(spot, "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    _locales(translated, (*place, "name_localizations"))


def _locales(translated: Json, place: tuple[str | int, ...]) -> None:
    for key in translated:
        if key not in LOCALES:
            raise invalid((*place, key), "BASE_TYPE_CHOICES", f"Locale '{key}' is not supported.")


def _description(body: Json, place: tuple[str | int, ...]) -> None:
    translated = body.get("description_localizations") or {}
    if not body.get("description"):
        raise invalid((*place, "description"), "BASE_TYPE_REQUIRED", "This field is required")
    within((*place, "description"), body["description"], 1, 100)
    for key, one in translated.items():
        within((*place, "description_localizations", key), one, 1, 100)
    _locales(translated, (*place, "description_localizations"))


def _options(options: list[Json], place: tuple[str | int, ...]) -> None:
    for at, option in enumerate(options):
        spot = (*place, at)
        _names(option, spot, typed=True)
        _description(option, spot)
        for number, choice in enumerate(option.get("choices") or []):
            within((*spot, "choices", number, "name"), choice.get("name"), 1, 100)
        _options(option.get("options") or [], (*spot, "options"))


def _length(body: Json) -> int:
    size = len(str(body.get("name") or "")) + len(str(body.get("description") or ""))
    size += sum(
        len(str(choice.get("name"))) + len(str(choice.get("value"))) for choice in body.get("choices") or []
    )
    return size + sum(_length(option) for option in body.get("options") or [])
