"""The companion as an addon: `addons = ["companion"]` in pixi.toml, and `tools: [companion]` in a persona."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pixi.companion.backend import CompanionBackend
from pixi.companion.cards import checked_scheme
from pixi.companion.data import CompanionData, CompanionError, SpotDraft, one_line
from pixi.companion.deciding import register_deciding
from pixi.companion.maps import find_map_link, resolve_map_link
from pixi.companion.routes import routes_of
from pixi.companion.tables import SCHEMA, CompanionTables
from pixi.companion.tools import SOURCE, Companion
from pixi.core.errors import ConfigError
from pixi.core.message import Message
from pixi.fetching.web import Web
from pixi.toolbox.addon import Addon
from pixi.toolbox.notices import Notice

_ADDRESS = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


@dataclass(frozen=True, slots=True)
class CompanionSettings:
    """`[addon.companion]`.

    Attributes:
        data: where spots, tricks and lists are kept: `store`, beside the talks; or the address of a host app.
        key: sent to the host app; better by PIXI_ADDON__COMPANION__KEY than in the file.
        app_keys: names of our keys that the host app has: their users are asked for by its own ids.
        deep_links: scheme of the links into the host app, e.g. `trickbook`; "": its cards have none.
        writes_per_hour: lists and drafts that are made for one person within an hour, all together.
    """

    data: str = "store"
    key: str = ""
    app_keys: tuple[str, ...] = ()
    deep_links: str = ""
    writes_per_hour: int = 5


def setup(addon: Addon) -> None:
    """Register the tools, the routes for those who approve, and what is noticed by itself."""
    settings = addon.settings("companion", CompanionSettings)
    if not 1 <= settings.writes_per_hour <= 1_000:
        raise ConfigError(
            f"[addon.companion] writes_per_hour is {settings.writes_per_hour}: it must be 1 to 1000."
        )
    data, web = _data(addon, settings), Web()
    addon.on_close(web.close)
    companion = Companion(data, web, checked_scheme(settings.deep_links), settings.writes_per_hour)
    companion.setup(addon)
    register_deciding(addon, data)
    for route in routes_of(companion):
        addon.route(route)
    if isinstance(data, CompanionTables):  # a host app tells its own people
        news = _News(data)
        addon.notice(Notice(SOURCE, news.look, news.answered))
    addon.notice(Notice(SOURCE, _Links(web).look))


def _data(addon: Addon, settings: CompanionSettings) -> CompanionData:
    if settings.data == "store":
        return CompanionTables(addon.tables(SCHEMA))
    if not _ADDRESS.fullmatch(settings.data):
        raise ConfigError(
            "[addon.companion] data is no address of an app: write store, or e.g. https://app.example.org, "
            "without a user or a password."
        )
    if not (settings.key.isascii() and settings.key.isprintable()):
        raise ConfigError("[addon.companion] key is not a key: copy it again, without line breaks or quotes.")
    backend = CompanionBackend(settings.data, settings.key, settings.app_keys)
    addon.on_close(backend.close)
    return backend


def _became(draft: SpotDraft, message: Message) -> str:
    """What became of a draft, in one line; the reason only where nobody else reads it."""
    why = f" The reason: {one_line(draft.why)}" if draft.why and not message.group else ""
    return f"The spot {draft.name!r} that they submitted was {draft.status}. Tell them so.{why}"


@dataclass(frozen=True, slots=True)
class _News:
    """Tells people what became of the spots that they submitted, until a reply to it stands."""

    data: CompanionTables

    async def look(self, message: Message) -> Sequence[str]:
        return [_became(draft, message) for draft in await self.data.news(message.author.id)]

    async def answered(self, message: Message, lines: Sequence[str]) -> None:
        news = await self.data.news(message.author.id)
        told = [draft.id for draft in news if _became(draft, message) in lines]
        await self.data.were_told(told)


@dataclass(frozen=True, slots=True)
class _Links:
    """Notices links to maps in messages."""

    web: Web

    async def look(self, message: Message) -> Sequence[str]:
        link = find_map_link(message.text)
        return [await self._place(link)] if link else []

    async def _place(self, link: str) -> str:
        try:
            found = await resolve_map_link(link, self.web)
        except CompanionError as error:
            return f"The link to a map in the message cannot be used: {error}"
        where = "" if found.latitude is None else f" at {found.latitude:.5f}, {found.longitude:.5f}"
        shown = f"{found.name or 'a place'}{where}"
        return f"The link to a map shows {shown}. It can be submitted as a spot with create_spot_draft."
