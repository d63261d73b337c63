"""The commands that are for everybody: `/status`, `/help`, `/forget me` and `/export me`."""

import asyncio
import io
import json
import math
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import discord

from pixi.channels.discord.backend import BotStatus
from pixi.channels.discord.formatting import clipped, escape_line, number, units
from pixi.channels.discord.slash.channel_commands import NEEDS, ChannelCommands, is_home
from pixi.channels.discord.slash.invocation import NAME, EmbedContent, EmbedField, Invocation, Use
from pixi.channels.discord.slash.translations import Language
from pixi.channels.discord.slash.why import dollars
from pixi.core.spending import QuotaUsage, UsageEntry

_FIELD = 1_024
_WORD = 40
_ABOUT = 150

_FILE = "pixi.json"
Press = Callable[[discord.Interaction], Awaitable[None]]


class PersonCommands:
    """`/status` and `/help`."""

    def __init__(self, use: Use, governing: ChannelCommands, commands: tuple[str, ...]) -> None:
        self._use = use
        self._governing = governing
        self._commands = commands

    async def status(self, interaction: discord.Interaction) -> None:
        """Tell how the bot is doing, and which personas are in a channel."""
        use = self._use(interaction)
        status = await use.within(use.backend.status(use.payer))
        await use.answer(
            embed=EmbedContent(use.say("says.status.title"), fields=tuple(self._figures(use, status)))
        )

    async def help(self, interaction: discord.Interaction) -> None:
        """Tell what the bot is, and how to talk to it."""
        use = self._use(interaction)
        fields = (
            EmbedField(use.say("says.help.call"), clipped(self._how_to_call(use), _FIELD, backslash=True)),
            EmbedField(use.say("says.help.personas"), "\n".join(self._introduced(use))),
        )
        text = f"{use.say('says.help.about')}\n\n**{use.say('says.help.commands')}**\n{self._listed(use)}"
        await use.answer(embed=EmbedContent(use.say("says.help.title"), text, fields))

    def _figures(self, use: Invocation, status: BotStatus) -> Iterator[EmbedField]:
        def figure(key: str, value: str) -> EmbedField:
            return EmbedField(use.say(key), value or "–", inline=True)

        yield figure("says.status.version", escape_line(status.version, NAME))
        yield figure("says.status.since", f"<t:{int(time.time() - status.up_seconds)}:R>")
        yield figure("says.status.talking", number(status.talking))
        yield figure("says.status.ping", _ping(use))
        yield figure(
            "says.status.personas", clipped(use.all_shown(use.channel_personas), _FIELD, backslash=True)
        )
        yield figure("says.status.model", escape_line(self._governing.model_here(use), NAME))
        if use.may_see_all:
            today = status.today
            tally = use.say(
                "says.status.tally",
                turns=number(today.turns),
                prompt=number(today.usage.prompt_tokens),
                cached=number(today.usage.cached_tokens),
                completion=number(today.usage.completion_tokens),
                cost=dollars(today.cost),
            )
            yield EmbedField(use.say("says.status.today"), tally)
            yield EmbedField(use.say("says.status.month"), _of_the_month(use, status))
        if status.shares:
            told = "\n".join(_share(use, share) for share in status.shares)
            yield EmbedField(use.say("says.status.shares"), told)

    def _how_to_call(self, use: Invocation) -> str:
        if use.interaction.guild_id is None:
            return use.say("says.help.call_dm")
        if is_home(use):
            return use.say("says.help.call_home")
        words: dict[str, str] = {}
        for name in use.channel_personas:
            persona = use.backend.personas.get(name)
            for word in (persona.name, *persona.summon) if persona else ():
                words.setdefault(word.casefold(), f"**{escape_line(word, _WORD)}**")
        return use.say("says.help.call_names", mention=f"<@{use.bot}>", words=", ".join(words.values()))

    def _introduced(self, use: Invocation) -> Iterator[str]:
        """Write a line for each persona of the channel, as far as there is room."""
        room = _FIELD
        for name in use.channel_personas:
            persona = use.backend.personas.get(name)
            about = f" – {escape_line(persona.about, _ABOUT)}" if persona and persona.about else ""
            line = f"**{use.shown(name)}**{about}"
            room -= units(line) + 1
            if room < 0:
                return
            yield line

    def _listed(self, use: Invocation) -> str:
        """Write a line for each command; those that the guild hides from somebody are left out."""
        texts, rights = use.language.texts, use.interaction.permissions
        free = use.interaction.guild_id is None or rights.administrator or use.may_see_all
        return "\n".join(
            f"`/{command_name(texts, command)}` – {texts[f'commands.{command}.description']}"
            for command in self._commands
            if free or command not in NEEDS or rights >= NEEDS[command]
        )


def command_name(texts: Mapping[str, str], command: str) -> str:
    """Return what people type for a command or subcommand."""
    parts = command.split(".")
    return " ".join(texts[f"commands.{'.'.join(parts[: at + 1])}.name"] for at in range(len(parts)))


def _ping(use: Invocation) -> str:
    """Return how long Discord takes to answer on the shard of this guild; "" where nothing came yet."""
    client, guild = use.interaction.client, use.interaction.guild
    seconds = client.latency
    if guild is not None and isinstance(client, discord.AutoShardedClient):
        shard = client.get_shard(guild.shard_id)
        seconds = shard.latency if shard is not None else seconds
    if not math.isfinite(seconds):
        return ""
    return use.say("says.status.milliseconds", count=number(round(seconds * 1_000)))


def _of_the_month(use: Invocation, status: BotStatus) -> str:
    spent, stop = status.month, status.month_dollars
    cost = _cost_of(spent)
    told = use.say(
        "says.status.spent",
        messages=number(spent.messages),
        prompt=number(spent.usage.prompt_tokens),
        cached=number(spent.usage.cached_tokens),
        completion=number(spent.usage.completion_tokens),
        cost=cost if stop is None else f"{cost} / {dollars(stop)}",
    )
    ways = (f"{way.model}: {number(way.usage.searches)} · {_cost_of(way)}" for way in status.searches)
    return "\n".join((told, *ways))


def _cost_of(spent: UsageEntry) -> str:
    return dollars(spent.cost) + ("+?" if spent.unpriced else "")


def _share(use: Invocation, share: QuotaUsage) -> str:
    whose, what = use.say(f"says.status.whose.{share.scope}"), use.say(f"says.status.what.{share.kind}")
    return f"{whose} – {what}: {number(share.used)} / {number(share.limit)}"


class OwnDataCommands:
    """`/forget me` and `/export me`.

    `on_forget` is told the id of a person who is forgotten.
    """

    def __init__(self, use: Use, on_forget: Callable[[str], None]) -> None:
        self._use = use
        self._on_forget = on_forget

    async def forget_me(self, interaction: discord.Interaction) -> None:
        """Ask whether a person shall be forgotten."""
        use = self._use(interaction)
        buttons = self.buttons(use.language)
        await use.answer(use.say("says.forget.ask"), view=buttons)
        buttons.stop()  # those that were installed hear the click; a timer would run for these in vain

    async def export_me(self, interaction: discord.Interaction) -> None:
        """Give a person all that is kept of them."""
        use = self._use(interaction)
        file = await use.within(self._export(use))
        if file is None:
            await use.answer(use.say("says.export.large"))
        else:
            await use.answer(use.say("says.export.here"), file=file)

    def buttons(self, language: Language) -> discord.ui.View:
        """Make the answers to the question of `/forget me`.

        Whoever presses is forgotten, and nobody else: the buttons know of no person.
        """
        say, view = language.say, _Buttons(self._use)
        danger, plain = discord.ButtonStyle.danger, discord.ButtonStyle.secondary
        view.add_item(_Button("pixi:forget-me", say("says.forget.yes"), danger, self._forget))
        view.add_item(_Button("pixi:keep-me", say("says.forget.no"), plain, self._keep))
        return view

    async def _forget(self, interaction: discord.Interaction) -> None:
        use = self._use(interaction)
        await use.replace("…")  # the buttons go at once: nothing is asked for twice
        person = str(interaction.user.id)
        count = await use.backend.engine.forget(person)
        self._on_forget(person)
        await use.replace(use.say("says.forget.done", count=number(count)))

    async def _keep(self, interaction: discord.Interaction) -> None:
        use = self._use(interaction)
        await use.replace(use.say("says.forget.kept"))

    async def _export(self, use: Invocation) -> tuple[str, bytes] | None:
        kept = await use.backend.store.export(str(use.interaction.user.id))
        return await asyncio.to_thread(_packed, kept, use.interaction.filesize_limit)


class _Buttons(discord.ui.View):
    def __init__(self, use: Use) -> None:
        super().__init__(timeout=None)
        self._use = use

    async def on_error(
        self, interaction: discord.Interaction, error: Exception, item: discord.ui.Item[Any], /
    ) -> None:
        """Tell what went wrong."""
        await self._use(interaction).fail(error)


class _Button(discord.ui.Button[_Buttons]):
    def __init__(self, key: str, label: str, style: discord.ButtonStyle, press: Press) -> None:
        super().__init__(custom_id=key, label=label, style=style)
        self._press = press

    async def callback(self, interaction: discord.Interaction) -> None:
        await self._press(interaction)


def _packed(kept: dict[str, Any], limit: int) -> tuple[str, bytes] | None:
    """Pack data as a file of at most so many bytes, compressed if need be; None: it cannot be."""
    text = json.dumps(kept, ensure_ascii=False, indent=2, default=str)
    content = text.encode("utf-8", "backslashreplace")  # which is how JSON writes half a character, too
    if len(content) <= limit:
        return _FILE, content
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_FILE, content)
    return (f"{_FILE}.zip", packed.getvalue()) if packed.tell() <= limit else None
