"""`discord --rehearse`: run the bot on a Discord in this process, where you type what people write."""

import asyncio
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from pixi.cli.exits import FINE
from pixi.core.errors import Reporter
from pixi.core.untrusted import printable, printable_line

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.testing.discord import FakeChannel, FakeMessage, Interaction, LoopbackDiscord, User

HELP = """\
This is a rehearsal, on a small Discord inside this program. Only the model's server gets what you type.
hello            write in the channel, as the person who wrote last
Ann: hello       write as Ann; a new name makes a new person
@name hello      mention somebody; the bot is @{bot}
#kitchen         go to that channel; /dm goes to a direct message with the bot
/reply hello     reply to the bot's last message
/react 🥞        react to that message; /press LABEL presses one of its buttons
/persona name=…  use a slash command of the bot; {me} manages this server
/help, /quit     show this; leave, as Ctrl-D does"""

_AS_SOMEBODY = re.compile(r"(\w[\w .'-]{0,31}):\s+(\S.*)", re.DOTALL)
_MENTIONED = re.compile(r"<@!?(\d+)>")
_TIME = re.compile(r"<t:(\d{1,10})(?::\w)?>", re.ASCII)
# None comes: within one process its answer can come before the client notes when it asked, and the client
# takes that for a connection that is a whole pause late.
_HEARTBEAT_SECONDS = 80_000.0
_QUIET_SECONDS = 0.3  # after which a reply that was posted by somebody else than the engine has come
_SLASH_SECONDS = 20.0  # for which the first line waits for the slash commands


class Rehearsal:
    """Turns typed lines into what people do, and tells what the bot does.

    Args:
        discord: where it takes place.
        me: the name of who writes first.
        tell: told each thing that happens, as a line or several.
    """

    def __init__(self, discord: "LoopbackDiscord", me: str, tell: Reporter) -> None:
        self._discord = discord
        self._tell = tell
        self._me = me
        self.help = HELP.format(bot=discord.bot.name, me=me)
        self._people: dict[str, User] = {}
        self._speaker = self._person(me)
        self._guild = discord.guild("Rehearsal", owner=self._speaker)
        self._room: FakeChannel = self._guild.channel("general")
        self._known: dict[int, str] = {}  # messages of the bot that were told, as they stood
        self._reacted: set[tuple[int, str]] = set()
        self._typings: dict[int, int] = {}  # by room: the typing signals that were looked at
        self._typing: set[int] = set()  # rooms of which was told that the bot types, and of no message since
        self._last: FakeMessage | None = None  # of the bot
        # Commands and buttons that were used: some of what they are answered nobody else sees.
        self._begun: list[Interaction] = []

    @property
    def prompt(self) -> str:
        """The prompt of the line."""
        return f"{self._speaker.name} in {_place(self._room)} › "

    async def enter(self, line: str) -> bool:
        """Do what was typed; False: the person leaves.

        Raises:
            LookupError, PermissionError: Discord's client would not let them.
        """
        line = line.strip()
        if found := _AS_SOMEBODY.fullmatch(line):
            self._speaker, line = self._person(found[1]), found[2]
            if self._room.guild is None:
                self._room = self._discord.dm(self._speaker)
        (word, _, rest), last = line.partition(" "), self._last
        match word:
            case "":
                pass
            case "/quit" | "/exit":
                return False
            case "/help":
                self._tell(self.help)
            case "/dm":
                self._room = self._discord.dm(self._speaker)
            case "/reply" | "/react" | "/press" if last is None:
                raise LookupError("The bot has said nothing yet.")
            case "/reply" if last is not None:
                await last.channel.say(self._speaker, self._meant(rest), reply_to=last)
            case "/react" if last is not None:
                await last.react(self._speaker, rest.strip())
            case "/press" if last is not None:
                await self._press(last, rest.strip())
            case "#":
                raise LookupError("Name the channel: #kitchen.")
            case _ if word.startswith("#") and not rest:
                self._room = self._channel(word[1:])
            case _ if word.startswith("/"):
                await self._slash(line[1:])
            case _:
                await self._room.say(self._speaker, self._meant(line))
        return True

    async def watch(self) -> None:
        """Tell what the bot does, until cancelled."""
        while True:
            self.look()
            await self._discord.world.next_change()

    def look(self) -> None:
        """Tell what the bot did since the last look."""
        for room in [*self._discord.world.channels.values()]:
            for message in room.messages:
                self._look_at(room, message)
            self._look_for_typing(room)
        for begun in self._begun:
            if begun.original is not None and not begun.deferred:
                for message in (begun.original, *begun.followups):
                    self._look_at(begun.channel, message)

    def _look_for_typing(self, room: "FakeChannel") -> None:
        """Tell once that the bot types, until a message of it comes; nothing that a message has overtaken."""
        fresh = room.typings[self._typings.get(room.id, 0) :]
        self._typings[room.id] = len(room.typings)
        written = self._last.at if self._last is not None and self._last.channel is room else 0.0
        if room.id not in self._typing and any(each.at > written for each in fresh):
            self._typing.add(room.id)
            self._tell(f"{_place(room)} · {self._discord.bot.name} is typing …")

    def _look_at(self, room: "FakeChannel", message: "FakeMessage") -> None:
        for emoji, people in message.reactions.items():
            if self._discord.bot in people and (message.id, emoji) not in self._reacted:
                self._reacted.add((message.id, emoji))
                self._tell(
                    f"{_place(room)} · {self._discord.bot.name} reacts {emoji} to “{self._plain(message)}”"
                )
        if message.author in self._people.values():
            return
        now = "\n".join(self._shown(message))
        before = self._known.get(message.id)
        if now and before != now:
            self._known[message.id] = now
            self._last = message
            self._typing.discard(room.id)
            secret = " (only the person who asked sees this)" if message.ephemeral else ""
            edited = " (edited)" if before else ""
            self._tell(f"{_place(room)} · {message.shown} › {now}{edited}{secret}")

    def _shown(self, message: "FakeMessage") -> Iterator[str]:
        """Return the parts of a message that one can read: words, boxes, files, buttons."""
        if message.answered is not None:
            yield f"(to “{self._plain(message.answered)}”)"
        if message.content:
            yield printable(self._named(message.content))
        for box in message.embeds:
            parts = [box.get("title"), box.get("description")]
            parts += [f"{each['name']}: {each['value']}" for each in box.get("fields", ())]
            yield "\n".join(
                f"│ {line}"
                for part in parts
                if part
                for line in printable(self._named(str(part))).split("\n")
            )
        yield from (f"[file: {printable_line(file.name)}]" for file in message.attachments)
        yield from (f"[sticker: {printable_line(str(each['name']))}]" for each in message.stickers)
        if message.buttons:
            yield " ".join(f"[{printable_line(label)}]" for label in message.buttons)

    def _person(self, name: str) -> "User":
        key = name.casefold()
        if key not in self._people:
            self._people[key] = self._discord.person(name)
        return self._people[key]

    def _channel(self, name: str) -> "FakeChannel":
        rooms = (room for room in self._discord.world.channels.values() if room.guild is self._guild)
        return next((room for room in rooms if room.name == name), None) or self._guild.channel(name)

    def _meant(self, text: str) -> str:
        """Return the text with names after an @ as mentions."""

        bot = self._discord.bot
        known = {**self._people, bot.name.casefold(): bot}
        names = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))

        def mention(found: re.Match[str]) -> str:
            user = known.get(found[1].casefold())
            return user.mention if user else found[0]

        return re.sub(rf"@({names})(?!\w)", mention, text, flags=re.IGNORECASE)

    def _named(self, text: str) -> str:
        """Return the text with names in place of mentions, and times of this machine in place of marks."""
        users = self._discord.world.users
        text = _TIME.sub(lambda found: f"{datetime.fromtimestamp(int(found[1])):%H:%M}", text)
        return _MENTIONED.sub(
            lambda found: f"@{users[int(found[1])].name}" if int(found[1]) in users else found[0], text
        )

    def _plain(self, message: "FakeMessage") -> str:
        return printable_line(self._named(message.content))[:60]

    async def _slash(self, line: str) -> None:
        """Use one of the bot's commands: its name and those of subcommands, then options as `name=value`."""
        try:
            words = shlex.split(line)
        except ValueError:
            raise LookupError("A quotation mark in that line has no second one.") from None
        named = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        if not named:
            raise LookupError("Name a command behind the slash, such as /status.")
        try:
            self._begun.append(await self._discord.slash(self._speaker, self._room, " ".join(named), options))
        except PermissionError as error:
            raise PermissionError(f"{error} {self._me} may: {self._me}: /{line}") from None

    async def _press(self, message: "FakeMessage", label: str) -> None:
        known = {each.casefold(): name for each, name in message.buttons.items()}
        if label.casefold() not in known:
            raise LookupError(
                f"There is no button {label!r}; there are {', '.join(message.buttons) or 'none'}."
            )
        self._begun.append(await self._discord.press(self._speaker, message, known[label.casefold()]))


def _place(room: "FakeChannel") -> str:
    return f"#{room.name}" if room.guild is not None else "direct message"


async def rehearse(settings: "Settings", addons: Sequence[Path], me: str) -> int:
    """Run the bot on a Discord in this process, until the person leaves or the input ends.

    What is said is kept in memory alone. Lists of whom the bot may talk to, and where, do not hold: the
    people and channels that they name are Discord's.
    """
    from pixi.app import find_persona
    from pixi.app.service import open_service
    from pixi.channels.discord.bot import Bot
    from pixi.cli.running import until_one_ends
    from pixi.testing.discord import LoopbackDiscord

    async with (
        LoopbackDiscord(find_persona(settings).name) as discord,
        _terminal() as (lines, tell, by_turns),
    ):
        rehearsal = Rehearsal(discord, me, tell)
        here = replace(settings.discord, api_url=discord.api_url, allowed_users=(), allowed_roles=())
        here = replace(here, allowed_channels=(), allowed_guilds=())
        settings = replace(settings, store=replace(settings.store, url=":memory:"), discord=here)
        discord.gateway.settings.heartbeat = _HEARTBEAT_SECONDS
        tell("The bot is starting …")
        async with open_service(settings, addons=addons, report=tell) as service:
            connected = asyncio.Event()
            bot = Bot(service, token=discord.token, api_url=discord.api_url, tell=lambda _: connected.set())

            async def type_lines() -> None:
                await connected.wait()
                if service.rules.slash:  # the first line may be a command
                    try:
                        await discord.wait_for(lambda: discord.world.commands.kept, _SLASH_SECONDS)
                    except TimeoutError:
                        tell(
                            "The bot's slash commands are not there yet: a line that begins with / may fail."
                        )
                tell(rehearsal.help)
                await until_one_ends(rehearsal.watch(), enter_lines())

            async def enter_lines() -> None:
                async with aclosing(lines(lambda: rehearsal.prompt)) as typed:
                    async for line in typed:
                        try:
                            if not await rehearsal.enter(line):
                                return
                        except (LookupError, PermissionError, ValueError) as error:
                            tell(printable_line(str(error)))
                        if by_turns:
                            await discord.idle(_QUIET_SECONDS)
                            await service.engine.settled()
                            await discord.idle(_QUIET_SECONDS)
                            rehearsal.look()

            await until_one_ends(bot.run(), type_lines())
    return FINE


Lines = Callable[[Callable[[], str]], "AsyncGenerator[str, None]"]


@asynccontextmanager
async def _terminal() -> "AsyncGenerator[tuple[Lines, Reporter, bool], None]":
    """Give what reads lines, what tells, and whether each line is answered before the next is read.

    Where somebody types, it is told above their line, and they may type on.
    """
    if not sys.stdin.isatty():
        from pixi.channels.terminal.lines import read_lines

        yield lambda _: read_lines(sys.stdin.fileno()), lambda line: print(line, flush=True), True
        return
    from prompt_toolkit import PromptSession
    from prompt_toolkit.patch_stdout import patch_stdout

    from pixi.channels.terminal.rows import wrapped

    session: PromptSession[str] = PromptSession()

    async def typed(prompt: Callable[[], str]) -> "AsyncGenerator[str, None]":
        while True:
            try:
                line = await session.prompt_async(prompt)
            except EOFError:
                return
            except KeyboardInterrupt:
                if not session.default_buffer.text:
                    return
            else:
                yield line

    def tell(text: str) -> None:
        columns = get_terminal_size().columns
        print("\n".join(row for line in text.split("\n") for row in wrapped(line, columns)))

    with patch_stdout():
        yield typed, tell, False
