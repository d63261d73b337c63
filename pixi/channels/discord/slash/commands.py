"""The slash commands: what there is, in which languages, and who is let in."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import discord
from discord import app_commands
from discord.app_commands import AppCommandContext, AppInstallationType, locale_str

from pixi.channels.discord.access import may_talk
from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.places import requester_of
from pixi.channels.discord.requests import FAULTS
from pixi.channels.discord.slash.channel_commands import HOW, NEEDS, ChannelCommands, Wardrobe
from pixi.channels.discord.slash.failing import CommandErrors
from pixi.channels.discord.slash.invocation import Invocation
from pixi.channels.discord.slash.own_data import OwnDataCommands
from pixi.channels.discord.slash.person_commands import PersonCommands
from pixi.channels.discord.slash.recalling import RecordCommands
from pixi.channels.discord.slash.registering import CommandRegistration
from pixi.channels.discord.slash.translations import Translations

_log = logging.getLogger("pixi.discord")

COMMANDS = (
    *("reset", "persona", "model", "notes", "why", "stop"),
    *("forget.me", "export.me", "status", "help"),
)
"""The commands, in the order in which people are told of them."""

_FILE_LIMIT = 10 * 1024 * 1024  # what Discord takes of everybody
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_FOR_ALL = frozenset(("forget me", "export me"))  # whoever they are, their words are their own

_Command = app_commands.Command[Any, ..., None]
_Callback = Callable[..., Coroutine[Any, Any, None]]
_Suggest = Callable[[discord.Interaction, str], Coroutine[Any, Any, list[app_commands.Choice[str]]]]


def _nothing(_: str) -> None: ...


class SlashCommands:
    """The slash commands of a bot. To be made once, in the loop that the client lives in.

    Args:
        client: the bot.
        house: what it talks for.
        speakers: lets it show as a persona.
        words: the languages it speaks; None: all there are.
        forgotten: is told the id of a person whom the house forgot.
    """

    def __init__(
        self,
        client: discord.Client,
        backend: BotBackend,
        speakers: Wardrobe,
        *,
        words: Translations | None = None,
        forgotten: Callable[[str], None] = _nothing,
    ) -> None:
        self._client = client
        self._backend = backend
        self._words = words or Translations()
        self._failing = CommandErrors(backend, self._words)
        self._governing = ChannelCommands(backend, self._words, speakers)
        self._recalling = RecordCommands(backend, self._words)
        self._own_data = OwnDataCommands(backend, self._words, self._failing, forgotten)
        self._about = PersonCommands(backend, self._words, self._governing, COMMANDS)
        self._tree: _Tree | None = None

    def install(self) -> None:
        """Let the client hear commands from now on."""
        suggest: dict[tuple[str, str], _Suggest] = {
            ("persona", "name"): self._governing.suggest_persona,
            ("model", "name"): self._governing.suggest_model,
        }
        tree = self._tree = _Tree(self._client, self._backend, self._words, self._failing, suggest)
        for command in self._commands(suggest):
            tree.add_command(command)
        self._client.add_view(self._own_data.buttons("en-US"))  # of messages from before a restart
        parsers = self._client._connection.parsers
        parsers["INTERACTION_CREATE"] = _completed(parsers["INTERACTION_CREATE"])

    async def sync(self) -> None:
        """Register the commands, if the server knows others; take them away, if the rules say so.

        Nothing is raised: what fails costs a line.
        """
        if self._tree is None:
            return
        await self._tree.set_translator(_Translator(self._words))
        await CommandRegistration(self._tree).register(offered=self._backend.rules.slash)

    def _commands(
        self, suggest: "dict[tuple[str, str], _Suggest]"
    ) -> list[_Command | app_commands.Group | app_commands.ContextMenu]:
        governing, recalling, own = self._governing, self._recalling, self._own_data
        persona = self._command("persona", governing.persona)
        model = self._command("model", governing.model)
        choices = [self._choice("persona", "how", how) for how in HOW]
        app_commands.choices(how=choices)(persona)
        for command in (persona, model):
            app_commands.autocomplete(name=suggest[command.name, "name"])(command)
        return [
            self._command("reset", governing.reset),
            persona,
            model,
            self._command("notes", recalling.notes),
            self._command("why", recalling.why),
            self._command("stop", governing.stop),
            self._group("forget", own.forget_me),
            self._group("export", own.export_me),
            self._command("status", self._about.status),
            self._command("help", self._about.help),
            app_commands.ContextMenu(name=self._text("menus.why.name"), callback=recalling.why_this),
        ]

    def _command(
        self,
        key: str,
        callback: _Callback,
        parent: app_commands.Group | None = None,
    ) -> _Command:
        """A command whose texts are those of its key, and whose options are its callback's parameters."""
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
        """A command of one's own data: `/forget me`."""
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
        return locale_str(self._words.english.texts[key], key=key)


class _Translator(app_commands.Translator):
    """Gives the translations of a text by its key; of texts without a key there are none."""

    def __init__(self, words: Translations) -> None:
        self._words = words

    async def translate(
        self,
        string: locale_str,
        locale: discord.Locale,
        context: app_commands.TranslationContextTypes,
    ) -> str | None:
        """The text in that language, if it is there."""
        language = self._words.known(locale.value)
        key = string.extras.get("key")
        return language.texts[key] if language is not None and key is not None else None


class _Tree(app_commands.CommandTree[discord.Client]):
    """Lets in who may talk to the bot, and sees that nothing ends in a traceback."""

    def __init__(
        self,
        client: discord.Client,
        backend: BotBackend,
        words: Translations,
        failing: CommandErrors,
        suggest: dict[tuple[str, str], _Suggest],
    ) -> None:
        super().__init__(
            client,
            allowed_contexts=AppCommandContext(guild=True, dm_channel=True, private_channel=False),
            allowed_installs=AppInstallationType(guild=True, user=False),
        )
        self._backend = backend
        self._words = words
        self._failing = failing
        self._suggest = suggest

    async def interaction_check(self, interaction: discord.Interaction, /) -> bool:
        """Whether a command is to be carried out. What somebody may mean who types is answered here."""
        try:
            as_channel_error = self._refusal(interaction)
            if interaction.type is discord.InteractionType.autocomplete:
                await self._answer_typing(interaction, refused=bool(as_channel_error))
                return False
            if as_channel_error:
                use = Invocation(interaction, self._backend, self._words)
                await use.answer(use.say(as_channel_error))
        except FAULTS as error:
            _log.debug("a command of user %s could not be answered: %s", interaction.user.id, error)
            return False
        return not as_channel_error

    async def on_error(
        self, interaction: discord.Interaction, error: app_commands.AppCommandError, /
    ) -> None:
        """Tell what went wrong."""
        await self._failing.tell(interaction, error)

    async def _call(self, interaction: discord.Interaction) -> None:
        """discord.py's own door to all of it, which takes for granted that a server sends everything."""
        try:
            await super()._call(interaction)
        except _MALFORMED as error:
            _log.warning("a command could not be read: %s: %s", type(error).__name__, error)

    def _refusal(self, interaction: discord.Interaction) -> str:
        """The key of what whoever must not use a command is told; empty: they may."""
        if not self._backend.rules.slash:
            return "says.off"
        command = interaction.command
        if command is not None and command.qualified_name in _FOR_ALL:
            return ""
        allowed = may_talk(self._backend.rules, requester_of(interaction))
        return "" if allowed else "says.refused"

    async def _answer_typing(self, interaction: discord.Interaction, *, refused: bool) -> None:
        data: Any = interaction.data
        option: dict[str, Any] = next((each for each in data.get("options", []) if each.get("focused")), {})
        suggest = self._suggest.get((data["name"], option.get("name", "")))
        choices = [] if refused or suggest is None else await suggest(interaction, str(option["value"]))
        await interaction.response.autocomplete(choices)


def _completed(parser: Callable[[Any], None]) -> Callable[[Any], None]:
    """Interactions as discord.py needs them: not every server sends all that Discord sends."""

    def parse(data: Any) -> None:
        data.setdefault("attachment_size_limit", _FILE_LIMIT)
        data.setdefault("version", 1)
        if not data.get("channel") and data.get("channel_id"):
            data["channel"] = {"id": data["channel_id"], **({} if data.get("guild_id") else {"type": 1})}
        parser(data)

    return parse
