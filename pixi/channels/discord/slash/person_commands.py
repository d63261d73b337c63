"""The commands that tell what the bot is, and how it is doing."""

import math
import time
from collections.abc import Iterator, Mapping

import discord

from pixi.channels.discord.backend import BotBackend, BotStatus
from pixi.channels.discord.outgoing.formatting import clipped, escape_line
from pixi.channels.discord.outgoing.splitting import units
from pixi.channels.discord.slash.channel_commands import NEEDS, ChannelCommands, is_home
from pixi.channels.discord.slash.invocation import NAME, Invocation
from pixi.channels.discord.slash.translations import Translations
from pixi.channels.discord.slash.why import EmbedContent, EmbedField, dollars, number
from pixi.core.spending import Share, Spent

_FIELD = 1_024
_WORD = 40
_ABOUT = 150


class PersonCommands:
    """`/status` and `/help`."""

    def __init__(
        self, backend: BotBackend, words: Translations, governing: ChannelCommands, commands: tuple[str, ...]
    ) -> None:
        self._backend = backend
        self._words = words
        self._governing = governing
        self._commands = commands

    async def status(self, interaction: discord.Interaction) -> None:
        """Tell how the bot is doing, and who lives in a channel."""
        use = Invocation(interaction, self._backend, self._words)
        status = await use.within(self._backend.status(use.payer))
        await use.answer(
            told=EmbedContent(use.say("says.status.title"), fields=tuple(self._figures(use, status)))
        )

    async def help(self, interaction: discord.Interaction) -> None:
        """Tell what the bot is, and how to talk to it."""
        use = Invocation(interaction, self._backend, self._words)
        fields = (
            EmbedField(use.say("says.help.call"), clipped(self._how_to_call(use), _FIELD, backslash=True)),
            EmbedField(use.say("says.help.personas"), "\n".join(self._introduced(use))),
        )
        text = f"{use.say('says.help.about')}\n\n**{use.say('says.help.commands')}**\n{self._listed(use)}"
        await use.answer(told=EmbedContent(use.say("says.help.title"), text, fields))

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
            persona = self._backend.personas.get(name)
            for word in (persona.name, *persona.summon) if persona else ():
                words.setdefault(word.casefold(), f"**{escape_line(word, _WORD)}**")
        return use.say("says.help.call_names", mention=f"<@{use.bot}>", words=", ".join(words.values()))

    def _introduced(self, use: Invocation) -> Iterator[str]:
        """A line for each who lives here, as far as there is room."""
        room = _FIELD
        for name in use.channel_personas:
            persona = self._backend.personas.get(name)
            about = f" – {escape_line(persona.about, _ABOUT)}" if persona and persona.about else ""
            line = f"**{use.shown(name)}**{about}"
            room -= units(line) + 1
            if room < 0:
                return
            yield line

    def _listed(self, use: Invocation) -> str:
        """A line for each command; those that the guild hides from somebody are left out."""
        texts, rights = use.language.texts, use.interaction.permissions
        free = use.interaction.guild_id is None or rights.administrator or use.may_see_all
        return "\n".join(
            f"`/{command_name(texts, command)}` – {texts[f'commands.{command}.description']}"
            for command in self._commands
            if free or command not in NEEDS or rights >= NEEDS[command]
        )


def command_name(texts: Mapping[str, str], command: str) -> str:
    """What people type for a command or subcommand."""
    parts = command.split(".")
    return " ".join(texts[f"commands.{'.'.join(parts[: at + 1])}.name"] for at in range(len(parts)))


def _ping(use: Invocation) -> str:
    """How long Discord takes to answer on the shard of this guild."""
    client, guild = use.interaction.client, use.interaction.guild
    seconds = client.latency
    if guild is not None and isinstance(client, discord.AutoShardedClient):
        shard = client.get_shard(guild.shard_id)
        seconds = shard.latency if shard is not None else seconds
    return (
        use.say("says.status.milliseconds", count=number(round(seconds * 1_000)))
        if math.isfinite(seconds)
        else ""
    )


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


def _cost_of(spent: Spent) -> str:
    return dollars(spent.cost) + ("+?" if spent.unpriced else "")


def _share(use: Invocation, share: Share) -> str:
    whose, what = use.say(f"says.status.whose.{share.scope}"), use.say(f"says.status.what.{share.kind}")
    return f"{whose} – {what}: {number(share.used)} / {number(share.limit)}"
