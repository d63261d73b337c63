"""The slash commands: what there is, in which languages, who is let in, and how Discord is told of them."""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import discord
from discord import app_commands
from discord.app_commands import AppCommandContext, AppInstallationType, locale_str
from discord.http import Route

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.requests import FAULTS, UNREADABLE, DiscordRefused, send_request
from pixi.channels.discord.slash.channel_commands import HOW, NEEDS, ChannelCommands, ShowAs
from pixi.channels.discord.slash.invocation import Invocation, Use
from pixi.channels.discord.slash.person_commands import OwnDataCommands, PersonCommands
from pixi.channels.discord.slash.translations import Translations
from pixi.channels.discord.slash.why import RecordCommands
from pixi.core.errors import ChannelError, silent
from pixi.settings.rules import may_talk

_log = logging.getLogger("pixi.discord")

COMMANDS = (
    *("reset", "persona", "model", "notes", "why", "stop"),
    *("forget.me", "export.me", "status", "help"),
)
"""The commands, in the order in which people are told of them."""

_FOR_ALL = frozenset(("forget me", "export me"))  # whoever they are, their words are their own

_SECONDS = 60.0  # for telling Discord of all commands

Json = Mapping[str, Any]
_Command = app_commands.Command[Any, ..., None]
_Callback = Callable[..., Coroutine[Any, Any, None]]
_Suggest = Callable[[discord.Interaction, str], Coroutine[Any, Any, list[app_commands.Choice[str]]]]

_PLAIN = ("name", "description", "type", "default_member_permissions", "required", "value")
_WITHIN = ("options", "choices")
_COMPARED = (
    "default_member_permissions",
    "nsfw",
    "required",
    "autocomplete",
    "value",
    "min_value",
    "max_value",
    "min_length",
    "max_length",
)


class SlashCommands:
    """The slash commands of a bot, which the client hears from now on. To be made once, in its loop.

    Args:
        client: the bot.
        backend: what it talks for.
        show_as: shows the bot as a persona.
        on_forget: is told the id of a person who is forgotten.
    """

    def __init__(
        self,
        client: discord.Client,
        backend: BotBackend,
        show_as: ShowAs,
        *,
        on_forget: Callable[[str], None] = silent,
    ) -> None:
        self._backend = backend
        self._translations = translations = Translations()

        def use(interaction: discord.Interaction) -> Invocation:
            return Invocation(interaction, backend, translations)

        governing, recalling = ChannelCommands(use, show_as), RecordCommands(use)
        own_data, about = OwnDataCommands(use, on_forget), PersonCommands(use, governing, COMMANDS)
        suggest = {"persona": governing.suggest_persona, "model": governing.suggest_model}
        persona, model = self._command("persona", governing.persona), self._command("model", governing.model)
        app_commands.choices(how=[self._choice("persona", "how", how) for how in HOW])(persona)
        for command in (persona, model):
            app_commands.autocomplete(name=suggest[command.name])(command)
        self._tree = _Tree(client, use, suggest)
        for each in (
            self._command("reset", governing.reset),
            persona,
            model,
            self._command("notes", recalling.notes),
            self._command("why", recalling.why),
            self._command("stop", governing.stop),
            self._group("forget", own_data.forget_me),
            self._group("export", own_data.export_me),
            self._command("status", about.status),
            self._command("help", about.help),
            app_commands.ContextMenu(name=self._text("menus.why.name"), callback=recalling.why_this),
        ):
            self._tree.add_command(each)
        client.add_view(own_data.buttons(translations.english))  # of messages from before a restart

    async def sync(self) -> None:
        """Register the commands, if the server knows others; take them away, if the rules say so.

        Nothing is raised: what fails costs a line.
        """
        await self._tree.set_translator(_Translator(self._translations))
        await self._tree.register(offered=self._backend.rules.slash)

    def _command(self, key: str, callback: _Callback, parent: app_commands.Group | None = None) -> _Command:
        """Make a command of the texts of its key, and of the parameters of its callback."""
        command: _Command = app_commands.Command(
            name=self._text(f"commands.{key}.name"),
            description=self._text(f"commands.{key}.description"),
            callback=callback,
            parent=parent,
        )
        command.default_permissions = NEEDS.get(key)
        options = [option.name for option in command.parameters]
        texts = f"commands.{key}.options"
        app_commands.describe(**{o: self._text(f"{texts}.{o}.description") for o in options})(command)
        app_commands.rename(**{o: self._text(f"{texts}.{o}.name") for o in options})(command)
        return command

    def _group(self, key: str, me: _Callback) -> app_commands.Group:
        """Return a command of one's own data: `/forget me`."""
        texts = f"commands.{key}"
        group = app_commands.Group(
            name=self._text(f"{texts}.name"), description=self._text(f"{texts}.description")
        )
        group.add_command(self._command(f"{key}.me", me, group))
        return group

    def _choice(self, command: str, option: str, value: str) -> app_commands.Choice[str]:
        text = self._text(f"commands.{command}.options.{option}.choices.{value}")
        return app_commands.Choice(name=text, value=value)

    def _text(self, key: str) -> locale_str:
        return locale_str(self._translations.english.texts[key], key=key)


class _Translator(app_commands.Translator):
    """Gives the translations of a text by its key; of texts without a key there are none."""

    def __init__(self, translations: Translations) -> None:
        self._translations = translations

    async def translate(
        self, string: locale_str, locale: discord.Locale, context: app_commands.TranslationContextTypes
    ) -> str | None:
        """Return the text in that language, if it is there."""
        language = self._translations.known(locale.value)
        key = string.extras.get("key")
        return language.texts[key] if language is not None and key is not None else None


class _Tree(app_commands.CommandTree[discord.Client]):
    """Lets in who may talk to the bot, sees that nothing ends in a traceback, and registers the commands.

    `suggest` makes suggestions for the option that is being typed, by the name of its command.
    """

    def __init__(self, client: discord.Client, use: Use, suggest: Mapping[str, _Suggest]) -> None:
        super().__init__(
            client,
            allowed_contexts=AppCommandContext(guild=True, dm_channel=True, private_channel=False),
            allowed_installs=AppInstallationType(guild=True, user=False),
        )
        self._use = use
        self._suggest = suggest

    async def interaction_check(self, interaction: discord.Interaction, /) -> bool:
        """Return whether a command is to be carried out. Suggestions while somebody types are made here."""
        try:
            use = self._use(interaction)
            refusal = self._refusal(use)
            if interaction.type is discord.InteractionType.autocomplete:
                await self._answer_typing(interaction, refused=bool(refusal))
                return False
            if refusal:
                await use.answer(use.say(refusal))
        except FAULTS as error:
            _log.debug("a command of user %s could not be answered: %s", interaction.user.id, error)
            return False
        return not refusal

    async def on_error(
        self, interaction: discord.Interaction, error: app_commands.AppCommandError, /
    ) -> None:
        """Tell what went wrong."""
        await self._use(interaction).fail(error)

    async def _call(self, interaction: discord.Interaction) -> None:
        """Take an interaction in place of discord.py, which takes for granted that all is sent."""
        try:
            await super()._call(interaction)
        except UNREADABLE as error:
            _log.warning("a command could not be read: %s: %s", type(error).__name__, error)

    def _refusal(self, use: Invocation) -> str:
        """Return the key of what is told to somebody who must not use a command; "": they may."""
        if not use.backend.rules.slash:
            return "says.off"
        command = use.interaction.command
        if command is not None and command.qualified_name in _FOR_ALL:
            return ""
        return "" if may_talk(use.backend.rules, use.requester) else "says.refused"

    async def _answer_typing(self, interaction: discord.Interaction, *, refused: bool) -> None:
        data: Any = interaction.data
        typed = next((str(each["value"]) for each in data.get("options", ()) if each.get("focused")), "")
        suggest = self._suggest.get(data["name"])
        choices = [] if refused or suggest is None else await suggest(interaction, typed)
        await interaction.response.autocomplete(choices)

    # Registering, for all guilds and DMs.

    async def register(self, *, offered: bool) -> None:
        """Register the commands where the server knows others; where they are not offered, take them away."""
        try:
            await (self._offer() if offered else self._withdraw())
        except ChannelError as error:
            _log.warning("the slash commands could not be registered: %s", error)
        except UNREADABLE as error:
            _log.warning("the slash commands could not be registered: %r in Discord's answer", error)

    async def _offer(self) -> None:
        wanted = await self._payload()
        try:
            known = _meanings(await self._known())
        except (ChannelError, *UNREADABLE) as error:
            _log.debug("which slash commands are registered could not be read: %s", error)
            known = []
        if known == _meanings(wanted):
            return
        try:
            await self._register(wanted)
        except DiscordRefused as error:
            if error.status != 400:
                raise
            _log.info("the slash commands are registered without translations and limits: %s", error)
            await self._register([_plain(command) for command in wanted])
        _log.info("%d commands were registered", len(wanted))

    async def _register(self, payload: list[dict[str, Any]]) -> None:
        upsert = partial(self.client.http.bulk_upsert_global_commands, self._application(), payload=payload)
        await send_request(upsert, "commands", seconds=_SECONDS)

    async def _withdraw(self) -> None:
        """Take away those that we registered; others that the application has stay."""
        ours = {(command["type"], command["name"]) for command in await self._payload()}
        for command in await self._known():
            if (command.get("type", 1), command["name"]) in ours:
                delete = self.client.http.delete_global_command
                deletion = partial(delete, self._application(), int(command["id"]))
                await send_request(deletion, "commands", seconds=_SECONDS)

    async def _payload(self) -> list[dict[str, Any]]:
        translator = self.translator
        assert translator is not None  # it is set before
        return [await command.get_translated_payload(self, translator) for command in self.get_commands()]

    async def _known(self) -> Sequence[Json]:
        """Ask what the server knows, with translations, which are left out unless asked for."""
        route = Route("GET", "/applications/{application_id}/commands", application_id=self._application())
        request = partial(self.client.http.request, route, params={"with_localizations": "true"})
        known: Sequence[Json] = await send_request(request, "commands", seconds=_SECONDS)
        return known

    def _application(self) -> int:
        user = self.client.user
        application = self.client.application_id or (user.id if user else None)
        if application is None:
            raise ChannelError("Discord did not tell the id of the application.")
        return application


def _meanings(commands: Sequence[Json]) -> list[Json]:
    """Return what matters of commands, in one order."""
    return [_meaning(each) for each in sorted(commands, key=lambda each: (each.get("type", 1), each["name"]))]


def _meaning(thing: Json) -> Json:
    """Return what matters of a command, option or choice, in one form for what we send and a server keeps.

    What is empty counts like what is left out, and a translation that is like the original like none.
    """
    told: dict[str, Any] = {key: str(thing[key]) for key in _COMPARED if thing.get(key)}
    told |= {key: sorted(thing.get(key) or ()) for key in ("contexts", "integration_types")}
    told["type"] = thing.get("type", 1)
    for key in ("name", "description"):
        original = thing.get(key) or ""
        translations = (thing.get(f"{key}_localizations") or {}).items()
        told[key] = original, {locale: text for locale, text in translations if text and text != original}
    return told | {key: [_meaning(each) for each in thing.get(key) or ()] for key in _WITHIN}


def _plain(thing: Json) -> dict[str, Any]:
    """Return a command, option or choice with nothing but what every server takes."""
    plain = {key: thing[key] for key in _PLAIN if thing.get(key) is not None and thing[key] != ""}
    for key in _WITHIN:
        if thing.get(key):
            plain[key] = [_plain(each) for each in thing[key]]
    return plain
