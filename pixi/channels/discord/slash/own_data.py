"""What people may ask about themselves, whoever they are: to be forgotten, and to be given what is kept."""

import asyncio
import io
import json
import zipfile
from collections.abc import Awaitable, Callable
from typing import Any

import discord

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.slash.failing import CommandErrors
from pixi.channels.discord.slash.invocation import Invocation
from pixi.channels.discord.slash.translations import Translations
from pixi.channels.discord.slash.why import number

_FILE = "pixi.json"

Press = Callable[[discord.Interaction], Awaitable[None]]


class OwnDataCommands:
    """`/forget me` and `/export me`.

    `forgotten` is told the id of a person whom the house forgot.
    """

    def __init__(
        self,
        backend: BotBackend,
        words: Translations,
        failing: CommandErrors,
        forgotten: Callable[[str], None],
    ) -> None:
        self._backend = backend
        self._forgotten = forgotten
        self._words = words
        self._failing = failing

    async def forget_me(self, interaction: discord.Interaction) -> None:
        """Ask whether a person shall be forgotten."""
        use = Invocation(interaction, self._backend, self._words)
        buttons = self.buttons(str(interaction.locale))
        await use.answer(use.say("says.forget.ask"), view=buttons)
        buttons.stop()  # those that were installed hear the click; a timer would run for these in vain

    async def export_me(self, interaction: discord.Interaction) -> None:
        """Give a person all that is kept of them."""
        use = Invocation(interaction, self._backend, self._words)
        file = await use.within(self._export(str(interaction.user.id), interaction.filesize_limit))
        if file is None:
            await use.answer(use.say("says.export.large"))
        else:
            await use.answer(use.say("says.export.here"), file=file)

    def buttons(self, locale: str) -> discord.ui.View:
        """The answers to the question of `/forget me`.

        Whoever presses is forgotten, and nobody else: the buttons know of no person.
        """
        say = self._words.of(locale).say
        view = _Buttons(self._failing)
        danger, plain = discord.ButtonStyle.danger, discord.ButtonStyle.secondary
        view.add_item(_Button("pixi:forget-me", say("says.forget.yes"), danger, self._forget))
        view.add_item(_Button("pixi:keep-me", say("says.forget.no"), plain, self._keep))
        return view

    async def _forget(self, interaction: discord.Interaction) -> None:
        use = Invocation(interaction, self._backend, self._words)
        await use.replace("…")  # the buttons go at once: nothing is asked for twice
        person = str(interaction.user.id)
        count = await self._backend.forget(person)
        self._forgotten(person)
        await use.replace(use.say("says.forget.done", count=number(count)))

    async def _keep(self, interaction: discord.Interaction) -> None:
        use = Invocation(interaction, self._backend, self._words)
        await use.replace(use.say("says.forget.kept"))

    async def _export(self, person: str, limit: int) -> tuple[str, bytes] | None:
        kept = await self._backend.export(person)
        return await asyncio.to_thread(_packed, kept, limit)


class _Buttons(discord.ui.View):
    def __init__(self, failing: CommandErrors) -> None:
        super().__init__(timeout=None)
        self._failing = failing

    async def on_error(
        self, interaction: discord.Interaction, error: Exception, item: discord.ui.Item[Any], /
    ) -> None:
        """Tell what went wrong."""
        await self._failing.tell(interaction, error)


class _Button(discord.ui.Button[_Buttons]):
    def __init__(self, key: str, label: str, style: discord.ButtonStyle, press: Press) -> None:
        super().__init__(custom_id=key, label=label, style=style)
        self._press = press

    async def callback(self, interaction: discord.Interaction) -> None:
        await self._press(interaction)


def _packed(kept: dict[str, Any], limit: int) -> tuple[str, bytes] | None:
    """As a file that is no larger than so many bytes, compressed if need be; None: it cannot be."""
    text = json.dumps(kept, ensure_ascii=False, indent=2, default=str)
    content = text.encode("utf-8", "backslashreplace")  # which is how JSON writes half a character, too
    if len(content) <= limit:
        return _FILE, content
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_FILE, content)
    return (f"{_FILE}.zip", packed.getvalue()) if packed.tell() <= limit else None
