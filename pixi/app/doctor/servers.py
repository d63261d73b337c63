"""The checks of `pixi-persona doctor` that ask somebody: models, MCP servers, the web, wikis, Discord."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from pixi.core.errors import ConfigError, ModelError, PixiError
from pixi.core.masking import SecretRedactor
from pixi.core.spending import how_many, some
from pixi.core.untrusted import escaped_line

if TYPE_CHECKING:
    from pixi.channels.discord.gateway.preflight import BotInfo
    from pixi.mcp.offers import ApprovedServer, Where
    from pixi.settings import McpSettings, ModelSettings, Settings, WikiSettings

LISTING_SECONDS = 10.0
"""Time for a server to list its models."""

_WIKI_SECONDS = 20.0
_SEARCHED = "pancakes"
"""Query to a search server of one's own. DuckDuckGo is left alone."""

_MOST_GUILDS = 20  # that are named, in which something is missing
_LONGEST_NAME = 60

NOT_SET_UP = "not set up; `pixi-persona discord` needs DISCORD_TOKEN in the environment or in .env"


class Finding(Struct, frozen=True):
    """A line of the report: `ok subject — text`, or `fail …` where `text` names the mend."""

    ok: bool
    subject: str
    text: str

    def __str__(self) -> str:
        text = " ".join(self.text.split())  # an error may have a second line for its mend
        return f"{'ok  ' if self.ok else 'fail'} {self.subject} — {text}"


# Models.


async def check_model(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that the model is there to be asked, and each that stands in for it."""
    async for finding in _models_found("model", settings.model):
        yield finding


async def check_found_models(settings: "Settings") -> AsyncIterator[Finding]:
    """Tell which models are there to be chosen: at servers of this machine, and for keys that are set."""
    for line in await _look_for_models():
        yield Finding(True, "found", line)
    if not settings.model_is_set:
        yield Finding(True, "found", "no model is set: `pixi-persona chat` on a terminal asks for one, once")


async def check_other_models(settings: "Settings") -> AsyncIterator[Finding]:
    """Check the models that have a section of their own: the helper, and those by name."""
    others = {"helper_model": settings.helper_model} | {
        f"models.{name}": model for name, model in settings.models.items()
    }
    for subject, model in others.items():
        if model != settings.model:
            async for finding in _models_found(subject, model):
                yield finding


async def check_embedding_model(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that the embedding model turns a word into a vector, if one is set."""
    from pixi.app.databases import open_embedder
    from pixi.knowledge.database import require_numpy

    chosen = settings.embedding_model
    if chosen is None:
        return
    try:
        require_numpy()
        embedder = open_embedder(chosen)
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                (vector,) = await embedder.embed(["pancake"])
        finally:
            await embedder.close()
    except TimeoutError:
        yield Finding(False, "embedding_model", f"{chosen.base_url} sent no vector in {LISTING_SECONDS:g} s")
    except (ModelError, ConfigError) as error:
        yield Finding(False, "embedding_model", str(error))
    else:
        yield Finding(True, "embedding_model", f"{chosen.name}: vectors of {len(vector):,} dimensions")


async def _models_found(subject: str, model: "ModelSettings") -> AsyncIterator[Finding]:
    """Yield a model, then those that are asked in its place, by their numbers."""
    yield await _model_found(subject, model)
    for number, stand_in in enumerate(model.fallback, start=1):
        yield await _model_found(f"{subject}.fallback {number}", stand_in)


async def _look_for_models() -> "list[str]":
    """Return a line for each server of this machine that may have models, and one for the keys that are set.

    Only servers of this machine are asked, and for a listing alone.
    """
    from pixi.core.providers import providers_with_key
    from pixi.models.machine import KNOWN_SERVERS, find_servers, trouble_of
    from pixi.settings.sources import variables_in

    lines = []
    for server in await find_servers():
        told = trouble_of(server) or f"has {some(server.models)}: to use it set model.base_url and model.name"
        lines.append(f"{server.kind} at {server.base_url} {told}")
    if not lines:
        looked = ", ".join(f"{each.kind} ({each.port})" for each in KNOWN_SERVERS)
        lines.append(f"no model server on this machine; looked for {looked}")
    keys = [f"{each.title} ({each.key_name})" for each in providers_with_key(variables_in(Path()))]
    if keys:
        lines.append(f"keys of {', '.join(keys)}: set model.base_url and model.name to use one")
    return lines


async def _model_found(subject: str, model: "ModelSettings") -> Finding:
    from pixi.settings.model_choice import runs_here

    try:
        told = _found_on_this_machine(model) if runs_here(model) else await _found_at_server(model)
    except (ModelError, ConfigError) as error:
        return Finding(False, subject, str(error))
    return Finding(True, subject, told)


def _found_on_this_machine(model: "ModelSettings") -> str:
    from pixi.models import weights
    from pixi.models.llama import file_traits
    from pixi.models.traits import describe

    if find_spec("xllamacpp") is None:
        raise ConfigError("the runtime of local models is missing: pip install 'pixi-persona[local]'")
    is_bundled = model.name == "local"
    path = weights.installed() or weights.cached() if is_bundled else weights.checked(Path(model.name))
    if path is None:
        return f"the bundled one; its {weights.SMOLLM2.megabytes} MB are fetched at the first start"
    size = describe(file_traits(path, parameters=model.parameters, tools=model.tools))
    return f"the bundled one, {path.name} ({size})" if is_bundled else f"{path} ({size})"


async def _found_at_server(model: "ModelSettings") -> str:
    from pixi.app.models import server_model_of
    from pixi.models.deadlines import Deadlines

    # Each provider lists its models for its own API; what they all list for chat completions is the same.
    server = server_model_of(model, model.name, native=True, deadlines=Deadlines(first=LISTING_SECONDS))
    try:
        listed = await server.models()
    finally:
        await server.close()
    host = urlsplit(model.base_url).netloc.rpartition("@")[2]
    if model.name in listed:
        return f"{model.name} at {host} ({await _size_at_server(model, model.name)})"
    if not model.name and len(listed) == 1:
        return f"{listed[0]} at {host}, the only one there ({await _size_at_server(model, listed[0])})"
    raise ConfigError(_not_listed(model.name, listed, host))


async def _size_at_server(model: "ModelSettings", name: str) -> str:
    from pixi.app.models import server_model_of
    from pixi.models.deadlines import Deadlines
    from pixi.models.traits import describe

    server = server_model_of(model, name, native=False, deadlines=Deadlines(first=LISTING_SECONDS))
    try:
        await server.learn()
        return describe(server.traits)
    finally:
        await server.close()


def _not_listed(name: str, listed: list[str], host: str) -> str:
    from rapidfuzz import fuzz, process

    if not listed:
        return f"{host} lists no model: load one there, or set model.base_url to another server."
    if not name:
        return f"{host} has several models: set model.name to one of {some(listed)}."
    nearest = process.extractOne(name, listed, scorer=fuzz.ratio, score_cutoff=60)
    mend = f"do you mean {nearest[0]}?" if nearest else f"set model.name to one of {some(listed)}."
    return f"{host} does not list {name}: {mend}"


# MCP servers.


async def check_mcp(settings: "Settings") -> AsyncIterator[Finding]:
    """Tell of each MCP server what it runs, whether it starts, its tools, and what waits for consent.

    Servers are started side by side, as far as they were approved. Nothing is recorded.
    """
    if not settings.mcp:
        return
    from pixi.app.mcp_integration import lock_of, require_sdk, server_addresses

    try:
        require_sdk()
        wheres = server_addresses(settings)
        lock = lock_of(settings)
        approved = {name: await lock.approved(name) for name in wheres}
    except ConfigError as error:
        yield Finding(False, "mcp", str(error))
        return
    looks = (_mcp_found(name, where, approved[name], settings.mcp[name]) for name, where in wheres.items())
    for findings in await asyncio.gather(*looks):
        for finding in findings:
            yield finding


async def _mcp_found(
    name: str, where: "Where", approved: "ApprovedServer | None", its: "McpSettings"
) -> list[Finding]:
    from pixi.addons.mcp import register
    from pixi.app.mcp_integration import START_SECONDS
    from pixi.mcp.connection import connected
    from pixi.mcp.offers import compare_with_approved, visible
    from pixi.toolbox.tools import Toolbox

    subject = f"mcp.{name}"
    if approved is not None and approved.mark != where.mark:
        mend = f"approved was {visible(approved.shown)}; if that is meant: pixi-persona approve {name}"
        return [
            Finding(False, subject, f"{where.shown}: waits for consent, so that it is not started; {mend}")
        ]
    try:
        async with connected(name, where, START_SECONDS) as connection:
            listing = await connection.list()
            found = compare_with_approved(approved, listing.tools)
            left_out = register(found.fit, connection, Toolbox(), its)  # tried with a toolbox of its own
    except PixiError as error:
        return [Finding(False, subject, f"{where.shown}: {error}")]
    new = "; used for the first time" if approved is None else ""
    told = [Finding(True, subject, f"{where.shown}: {how_many(len(found.fit), 'tool')}{new}")]
    told += [Finding(False, subject, remark) for remark in listing.remarks]
    if found.changed:
        names = ", ".join(visible(tool.name) for tool in found.changed)
        mend = f"if that is meant: pixi-persona approve {name}"
        told.append(
            Finding(False, subject, f"described otherwise than approved, so left out: {names}; {mend}")
        )
    return told + [Finding(False, subject, line) for line in left_out]


# The web.


async def check_web_pages(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that pages of the web can be read, if they are to be."""
    pages = settings.web_pages
    if not pages.read:
        return
    from pixi.app.tool_integrations import require_page_reader

    try:
        require_page_reader()
    except ConfigError as error:
        yield Finding(False, "web_pages", str(error))
    else:
        robots = "robots.txt is heeded" if pages.robots else "robots.txt is not looked at"
        yield Finding(True, "web_pages", f"read_page: pages of up to {pages.megabytes:g} MB; {robots}")


async def check_web_search(settings: "Settings") -> AsyncIterator[Finding]:
    """Tell which service searches the web, if one is set."""
    if settings.web_search.engine == "off":
        return
    try:
        fine, told = await _searcher_found(settings)
    except ConfigError as error:
        fine, told = False, str(error)
    yield Finding(fine, "web_search", told)


async def _searcher_found(settings: "Settings") -> tuple[bool, str]:
    from pixi.app.models import searches
    from pixi.web.search_engines import require_ddgs

    search = settings.web_search
    price = "" if search.price is None else f", ${search.price:g} a search"
    match search.engine:
        case "searxng":
            return await _at_search_server(search.url, price, settings.web_pages.contact)
        case "mcp":
            return True, f"by the tool {search.tool} of an MCP server{price}"
    model = settings.model
    if search.engine == "native" and searches(model):
        return True, f"by the provider of {model.name}, within its reply{price}"
    require_ddgs()
    why = f"{model.name} cannot search by itself: " if search.engine == "native" else ""
    return True, f"{why}by DuckDuckGo, through ddgs {version('ddgs')}{price}"


async def _at_search_server(url: str, price: str, contact: str) -> tuple[bool, str]:
    from pixi.fetching.web import Web
    from pixi.web.search_engines import SearchError, SearXNG

    async with Web() as web:
        web.contact = contact
        try:
            found = await SearXNG(web, url).search(_SEARCHED, 3, "en")
        except SearchError as error:
            return False, str(error)
    if not found:
        return False, f"{url} finds nothing for {_SEARCHED!r}; see which engines it has"
    return True, f"by the SearXNG server at {url}{price}"


async def check_wikis(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that each wiki can be asked."""
    if not settings.wiki:
        return
    from pixi.fetching.web import Web
    from pixi.web.wiki import wikipedia_in
    from pixi.web.wiki_api import WikiApi, WikiError

    async def look_at(name: str, wanted: "WikiSettings") -> Finding:
        url = wanted.url or wikipedia_in("en")[0]
        section = f"wiki.{name}"
        try:
            async with asyncio.timeout(_WIKI_SECONDS):
                site = await WikiApi(web, url, trusted=bool(wanted.url)).site()
        except TimeoutError:
            return Finding(False, section, f"{url} took longer than {_WIKI_SECONDS:g} seconds")
        except WikiError as error:
            return Finding(False, section, str(error))
        told = "; each persona asks the one in its language"
        if not web.contact:
            told += "; set `contact` in [web_pages], as Wikipedia wants to know who asks"
        return Finding(True, section, f"{site.name} at {site.api}{'' if wanted.url else told}")

    async with Web() as web:
        web.contact = settings.web_pages.contact
        for found in await asyncio.gather(*(look_at(*wiki) for wiki in settings.wiki.items())):
            yield found


async def check_gifs(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that pictures can be found, if they are wanted.

    Of a service, one picture is searched for, to see whether it takes the key.
    """
    if settings.gifs.engine == "off":
        return
    from pixi.app.command_integrations import gif_source_of
    from pixi.fetching.web import Web
    from pixi.web.gif_sources import GifError, GifFolder

    try:
        async with Web() as web:
            source = gif_source_of(settings.gifs, web)
            if isinstance(source, GifFolder):
                count, folder = await asyncio.to_thread(source.count), settings.gifs.folder
                lack = f"there is no picture in {folder}: put some there, named by what they show"
                yield Finding(
                    bool(count), "gifs", f"{how_many(count, 'picture')} in {folder}" if count else lack
                )
                return
            await source.find("cat", "en")
    except (ConfigError, GifError) as error:
        yield Finding(False, "gifs", str(error))
        return
    key = settings.sources.get("gifs.api_key", "code")
    told = f"{source.service} takes the key, set by {key}; rated {settings.gifs.rating} at most"
    yield Finding(True, "gifs", told)


# Discord.


async def check_discord(settings: "Settings") -> AsyncIterator[Finding]:
    """Check whether a bot could go on Discord; that it is not set up is no fault."""
    token = settings.discord.token
    if token is None:
        yield Finding(True, "discord", NOT_SET_UP)
        return
    mask = SecretRedactor()
    mask.learn([token.reveal()])
    source = settings.sources.get("discord.token", "the settings")
    told: list[tuple[bool, str]]
    try:  # discord.py takes a second, and may be one that does not fit
        from pixi.channels.discord.gateway.preflight import look_up

        try:
            account = await look_up(settings.discord, token.reveal(), settings.discord.api_url)
        except PixiError as error:
            told = [(False, f"the token set by {source}: {error}")]
        else:
            named = f"{account.name} at {account.host}, by the token set by {source}"
            told = [(True, named), *_told_of_bot(account)]
    except PixiError as error:
        told = [(False, str(error))]
    for fine, text in told:
        yield Finding(fine, "discord", escaped_line(mask.hide(text)))


def _told_of_bot(account: "BotInfo") -> Iterator[tuple[bool, str]]:
    if account.reads is None:
        yield True, "the server tells nothing of intents"
    elif account.reads:
        yield True, "it is shown what people write (Message Content Intent)"
    else:
        where = f" at {account.portal}/bot" if account.portal else ""
        yield False, f"it is not shown what people write: switch on Message Content Intent{where}"
    lacking = [guild for guild in account.guilds if guild.missing]
    for guild in lacking[:_MOST_GUILDS]:
        name = " ".join(guild.name.split())[:_LONGEST_NAME]
        yield (
            False,
            f"in {name} it may not: {', '.join(guild.missing or ())}; give its role these permissions",
        )
    if len(lacking) > _MOST_GUILDS:
        yield False, f"… and in {len(lacking) - _MOST_GUILDS} more servers something is missing"
    count = len(account.guilds)
    if not count:
        yield True, "it is in no server yet"
    elif untold := sum(guild.missing is None for guild in account.guilds):
        servers = "server" if count == 1 else "servers"
        yield True, f"in {count} {servers}; of {untold} it is not told what it may do there"
    elif not lacking:
        yield True, f"in {count} server{'' if count == 1 else 's'}, with all permissions that it needs"
    if account.invitation:
        yield True, f"invite it with {account.invitation}"
    else:
        number = account.application or "its own id"
        yield True, f"to invite it: client id {number}, permissions {account.permissions}"
