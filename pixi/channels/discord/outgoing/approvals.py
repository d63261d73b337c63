"""Asking a person with two buttons whether a tool may do something; nobody else's click counts."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import discord
import msgspec
from msgspec.structs import replace

from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.formatting import code_block, escape_line, number
from pixi.channels.discord.outgoing.content import MessageContent
from pixi.channels.discord.requests import FAULTS, send_request
from pixi.channels.discord.slash.invocation import Invocation
from pixi.channels.discord.slash.translations import Language, Translations
from pixi.core.channel import Question
from pixi.core.errors import ChannelError
from pixi.core.events import Verdict
from pixi.core.lru import LRU
from pixi.core.untrusted import clipped, without_middle
from pixi.settings.rules import may_talk

_log = logging.getLogger("pixi.discord")

_YES, _NO = "yes", "no"
_BUTTON = re.compile(r"pixi:may:(?P<said>yes|no):(?P<token>[\w-]{1,40})")
_TOOL, _DOES, _ARGUMENTS = 80, 300, 1_200  # all of it fits into one message in every language
_SHOWN = _ARGUMENTS - 60  # characters of the arguments
_GAP = "\n…\n"
_EDIT_SECONDS = 10.0
_REMEMBERED = 2_000  # people whose language is known

Post = Callable[[MessageContent, discord.AllowedMentions], Awaitable[int]]


class _Open(msgspec.Struct):
    """A question that is not answered yet; `persona` is the name that people see."""

    question: Question
    persona: str
    channel: int
    language: Language
    answer: "asyncio.Future[Verdict]" = msgspec.field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def person(self) -> int:
        return int(self.question.person)


class SharedQuestion(msgspec.Struct, frozen=True):
    """A question that one process asks while another one hears the click. It fits into a signal.

    Attributes:
        token: of its buttons.
        persona: the name of the file of the persona that wants to use the tool.
        channel: id of where it is asked.
        seconds: until it is too late.
    """

    token: str
    question: Question
    persona: str
    channel: int
    seconds: float


Share = Callable[[SharedQuestion], Awaitable[bool]]
"""Tells the process that hears clicks of a question; False: there is none. `Approvals.answered` follows."""


class Approvals:
    """The questions of one bot. They live as long as the process; a button of an older one answers nothing.

    Args:
        client: the bot.
        backend: tells who may talk to it.
        share: where clicks are heard by another process; None: by this one.
    """

    def __init__(self, client: discord.Client, backend: BotBackend, share: Share | None = None) -> None:
        self._client = client
        self._backend = backend
        self._translations = Translations()
        self._share = share
        self._open: dict[str, _Open] = {}
        self._locales: LRU[int, str] = LRU(_REMEMBERED)
        self._beside: set[asyncio.Task[None]] = set()

    def install(self) -> None:
        """Hear of clicks from now on; and, on the way, of the language of everybody who uses anything."""

        async def on_interaction(interaction: discord.Interaction) -> None:
            await self._hear(interaction)

        self._client.event(on_interaction)

    async def ask(
        self,
        question: Question,
        post: Post,
        *,
        channel: int,
        guild: discord.Guild | None,
        persona: str,
        seconds: float,
    ) -> Verdict:
        """Ask, and wait so long for the answer.

        Args:
            question: what is asked.
            post: posts the message, and may ping whom it is told.
            channel: id of where that is.
            guild: which server that is in.
            persona: the name of the file of the persona that wants to use the tool.
            seconds: from now until it is too late.
        """
        if not question.person.isdecimal():
            return "nobody"
        language, name = self._language(int(question.person), guild, persona), self._shown(persona)
        token = secrets.token_urlsafe(15)
        if self._share is not None:
            told = replace(
                question,
                tool=clipped(question.tool, _TOOL),
                does="",
                arguments=without_middle(question.arguments.strip(), _SHOWN - 60),
            )
            if not await self._share(SharedQuestion(token, told, persona, channel, seconds)):
                return "nobody"
        asked_now = _Open(question, name, channel, language)
        self._open[token] = asked_now
        content = MessageContent(_asking(asked_now, time.time() + seconds), view=_buttons(token, language))
        posting = asyncio.ensure_future(post(content, _pings(asked_now.person)))
        why = "says.approve.withdrawn"  # unless something else comes of it
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(posting)
                return await asked_now.answer
        except TimeoutError:
            why = "says.approve.silent"
        except ChannelError as error:
            _log.info("user %s could not be asked in channel %s: %s", question.person, channel, error)
        finally:
            del self._open[token]
            if not asked_now.answer.done() or asked_now.answer.cancelled():
                self._do_beside(self._take_back(channel, posting, _outcome(asked_now, language, why)))
        return "nobody"

    def answered(self, token: str, said: Verdict) -> None:
        """Take the answer that another process heard."""
        there = self._open.get(token)
        if there is not None and not there.answer.done():
            there.answer.set_result(said)

    async def expect(self, shared: SharedQuestion) -> Verdict:
        """Wait for the click on a question that another process asks; `nobody`: none came in time."""
        person = shared.question.person
        language = self._language(int(person), None, shared.persona)
        there = _Open(shared.question, self._shown(shared.persona), shared.channel, language)
        self._open[shared.token] = there
        try:
            async with asyncio.timeout(shared.seconds):
                return await there.answer
        except TimeoutError:
            return "nobody"
        finally:
            del self._open[shared.token]

    async def close(self) -> None:
        """End what is done beside; a question that was just closed gets a moment to lose its buttons."""
        if self._beside:
            await asyncio.wait([*self._beside], timeout=1.0)
        for task in [*self._beside]:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    # Clicks.

    async def _hear(self, interaction: discord.Interaction) -> None:
        """Take an answer; whoever else clicks, or clicks too late, is told so alone."""
        self._locales.put(interaction.user.id, str(interaction.locale))  # messages do not tell it
        pressed = interaction.data.get("custom_id") if interaction.data else None
        match = _BUTTON.fullmatch(str(pressed))
        if interaction.type is not discord.InteractionType.component or match is None:
            return
        there = self._open.get(match["token"])
        use = Invocation(interaction, self._backend, self._translations)
        try:
            if there is None or there.answer.done() or interaction.channel_id != there.channel:
                await use.answer(use.say("says.approve.closed"))
            elif interaction.user.id != there.person:
                await use.answer(use.say("says.approve.others", person=f"<@{there.person}>"))
            elif not may_talk(self._backend.rules, use.requester):
                await use.answer(use.say("says.refused"))
            else:
                said: Verdict = "yes" if match["said"] == _YES else "no"
                there.answer.set_result(said)
                why = "says.approve.allowed" if said == "yes" else "says.approve.refused"
                await self._settle(use, _outcome(there, use.language, why))
        except FAULTS as error:
            _log.debug("a click of user %s could not be answered: %s", interaction.user.id, error)

    async def _settle(self, use: Invocation, text: str) -> None:
        """Put what came of it in place of the question and its buttons."""
        interaction = use.interaction
        try:
            await use.replace(text)
        except FAULTS as error:
            _log.debug("a click of user %s could not be answered: %s", interaction.user.id, error)
            if interaction.message is not None and interaction.channel_id is not None:
                await self._replace(interaction.channel_id, interaction.message.id, text)

    async def _take_back(self, channel: int, posting: "asyncio.Future[int]", text: str) -> None:
        """Replace the question, once it is known where it is: it may be on its way yet."""
        with suppress(ChannelError):
            if message := await posting:
                await self._replace(channel, message, text)

    async def _replace(self, channel: int, message: int, text: str) -> None:
        try:
            there = self._client.get_partial_messageable(channel).get_partial_message(message)
            nobody = discord.AllowedMentions.none()
            await send_request(
                lambda: there.edit(content=text, view=None, allowed_mentions=nobody),
                "edit",
                seconds=_EDIT_SECONDS,
            )
        except ChannelError as error:
            _log.info("a question in channel %s keeps its buttons: %s", channel, error)

    def _do_beside(self, work: "Awaitable[None]") -> None:
        """Do it though whoever asked is gone."""
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # Words.

    def _language(self, person: int, guild: discord.Guild | None, persona: str) -> Language:
        """The language that somebody has chosen; where it is not known, the server's, then the persona's."""
        if locale := self._locales.get(person):
            return self._translations.of(locale)
        known, english = self._translations.known, self._translations.english
        language = known(str(guild.preferred_locale)) if guild is not None else None
        if language is not None and language is not english:  # which is what nobody has to choose
            return language
        spoken = self._backend.personas.get(persona)
        return self._translations.like(spoken.language) if spoken else english

    def _shown(self, persona: str) -> str:
        there = self._backend.personas.get(persona)
        return escape_line(there.name if there else persona, _TOOL)


def _pings(person: int) -> discord.AllowedMentions:
    return discord.AllowedMentions(
        everyone=False, roles=False, users=[discord.Object(person)], replied_user=False
    )


def _asking(this: _Open, closes: float) -> str:
    say, question = this.language.say, this.question
    arguments = question.arguments.strip()
    given, left_out = without_middle(arguments, _SHOWN, _GAP), max(0, len(arguments) - _SHOWN)
    lines = [
        say("says.approve.ask", person=f"<@{this.person}>", persona=f"**{this.persona}**"),
        f"**{escape_line(question.tool, _TOOL)}**: {escape_line(question.does, _DOES)}",
        *([code_block(given, _ARGUMENTS)] if given else []),
        *([f"-# {say('says.approve.cut', count=number(left_out))}"] if left_out else []),
        f"-# {say('says.approve.closes', when=f'<t:{int(closes)}:R>')}",
    ]
    return "\n".join(lines)


def _outcome(this: _Open, language: Language, why: str) -> str:
    """Tell what stays of a question: what came of it, and what it was about."""
    question = this.question
    tool = f"**{escape_line(question.tool, _TOOL)}**"
    told = language.say(why, person=f"<@{this.person}>", tool=tool)
    given = without_middle(question.arguments.strip(), _SHOWN, _GAP)
    return f"{told}\n{code_block(given, _ARGUMENTS)}" if given else told


def _buttons(token: str, language: Language) -> discord.ui.View:
    """Make the buttons. Their clicks are heard by their names, so that no view need be kept."""
    view = discord.ui.View(timeout=None)
    yes, no = language.say("says.approve.yes"), language.say("says.approve.no")
    for said, label, style in (
        (_YES, yes, discord.ButtonStyle.success),
        (_NO, no, discord.ButtonStyle.secondary),
    ):
        name = f"pixi:may:{said}:{token}"
        view.add_item(discord.ui.Button(style=style, label=label, custom_id=name))
    return view
