"""The part of `doctor` that looks at Discord: token, intent, permissions in each server, invitation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pixi.core.errors import PixiError
from pixi.core.masking import Mask
from pixi.core.untrusted import escaped_line

if TYPE_CHECKING:
    from pixi.channels.discord.gateway.preflight import BotInfo
    from pixi.settings import Settings

_SHOWN = 20  # servers in which something is missing
_LONGEST_NAME = 60

NOT_SET_UP = "not set up; `pixi-persona discord` needs DISCORD_TOKEN in the environment or in .env"


async def look_at_discord(settings: "Settings") -> list[tuple[bool, str]]:
    """What is fine (True) and what is not, a line each."""
    token = settings.discord.token
    if token is None:
        return [(True, NOT_SET_UP)]
    try:  # discord.py takes a second, and may be one that does not fit
        from pixi.channels.discord.gateway.preflight import look_up
    except PixiError as error:
        return [(False, escaped_line(str(error)))]
    mask = Mask()
    mask.learn([token.reveal()])
    source = settings.sources.get("discord.token", "the settings")
    try:
        account = await look_up(settings.discord, token.reveal(), settings.discord.api_url)
    except PixiError as error:
        return [(False, escaped_line(mask.hide(f"the token set by {source}: {error}")))]
    told = [(True, f"{account.name} at {account.host}, by the token set by {source}"), *_findings(account)]
    return [(fine, escaped_line(mask.hide(text))) for fine, text in told]


def _findings(account: "BotInfo") -> Iterator[tuple[bool, str]]:
    if account.reads is None:
        yield True, "the server tells nothing of intents"
    elif account.reads:
        yield True, "it is shown what people write (Message Content Intent)"
    else:
        where = f" at {account.portal}/bot" if account.portal else ""
        yield False, f"it is not shown what people write: switch on Message Content Intent{where}"
    lacking = [guild for guild in account.guilds if guild.missing]
    for guild in lacking[:_SHOWN]:
        name = " ".join(guild.name.split())[:_LONGEST_NAME]
        yield (
            False,
            f"in {name} it may not: {', '.join(guild.missing or ())}; give its role these permissions",
        )
    if len(lacking) > _SHOWN:
        yield False, f"… and in {len(lacking) - _SHOWN} more servers something is missing"
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
