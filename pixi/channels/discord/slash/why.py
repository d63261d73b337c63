"""`/why` and `/notes`: what is on record behind a reply: thoughts, tools, sources, acts, figures."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlsplit

import discord
from msgspec import Meta, Struct, ValidationError, convert

from pixi.channels.discord.backend import ALL_ADDRESSES, parse_address
from pixi.channels.discord.formatting import code_block, escape_line, escape_markdown, number, units
from pixi.channels.discord.slash.invocation import EmbedContent, EmbedField, Invocation, Use
from pixi.core.conversation import all_notes, notes_in
from pixi.core.errors import PixiError
from pixi.core.language import REACT, SEND
from pixi.core.llm import AssistantLine, Line, ToolCall, ToolLine, sources_in
from pixi.settings.rules import is_admin
from pixi.store.kept import TurnRecord

_DATABASE_TOOL = re.compile(r"(?P<kind>query|search)_(?P<database>.+)_database")
_DATABASE = re.compile(r'"database"\s*:\s*"((?:[^"\\]|\\.){1,200})"')
_MOST = 50  # documents in one result
_READ = 200_000  # characters of one result
_DATABASE_NAME, _TITLE, _SECTION = 40, 70, 60
_BREAKS = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


Say = Callable[..., str]
"""Gives the text of a key in somebody's language, with values in its placeholders: `Language.say`."""

# What follows comes to less all together, names of fields included.
_NOTES = 1_800
_TOOLS = 1_800  # of all together
_TOOL = 1_000
_ARGUMENTS = 300
_SHOWN_TOOLS = 5
_SOURCES = 600
_SHOWN_SOURCES = 8
_LONGEST_SOURCE = 200  # an address that is cut leads nowhere
_NAME = 60
_SHOWN_NOTES = 10
_NOTE = 900
_NOTE_LIST = 4_000  # a description alone may have 4,096
_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\\[\]{}()]+")
_TURNS = 30  # in which the latest thoughts are looked for
_ID = r"(?P<id>\d{1,20})"
_REFERENCE = re.compile(
    rf"\s*<?(?:https?://[^\s<>]{{1,200}}?/channels/(?:@me|\d{{1,20}})/(?P<channel>\d{{1,20}})/)?{_ID}/?>?\s*"
)


_Count = Annotated[int, Meta(ge=0, lt=10_000_000)]


class _Cited(Struct, frozen=True):
    """A place in a document, as far as it was told; all of it strangers' words."""

    title: Annotated[str, Meta(pattern=r"\S")]
    section: str | None = None
    line: _Count | None = None
    page: _Count | None = None


def documents_in(lines: Sequence[Line], say: Say) -> list[str]:
    """List the documents that were read for a reply, a line each, fit to be shown; each once.

    Of a database that was only searched, what was found counts: the reply can rest on nothing else of it.
    """
    read = [*_found(lines, "query")]
    asked = {database for database, _ in read}
    found = [(database, cited) for database, cited in _found(lines, "search") if database not in asked]
    return list(dict.fromkeys(_document(database, cited, say) for database, cited in (*read, *found)))


def _found(lines: Sequence[Line], kind: str) -> Iterator[tuple[str, _Cited]]:
    """Return databases, each with a place in a document of it. A result can hold anything."""
    for line in lines:
        match = _DATABASE_TOOL.fullmatch(line.name) if isinstance(line, ToolLine) else None
        if isinstance(line, ToolLine) and match is not None and match["kind"] == kind:
            text = line.text[:_READ]
            database = _named(text) or match["database"]
            for each in _objects(text, "relevant" if kind == "query" else "results"):
                with suppress(ValidationError):
                    yield database, convert(each.get("source") if kind == "query" else each, _Cited)


def _named(text: str) -> str:
    """Return the name of the database; "" where the result does not tell."""
    match = _DATABASE.search(text)
    if match is None:
        return ""
    try:
        return str(json.loads(f'"{match[1]}"'))
    except ValueError:
        return ""


def _objects(text: str, key: str) -> Iterator[dict[str, object]]:
    """Return the objects in the list of a key; of a result that was cut off, those that are whole."""
    begun = re.search(rf'"{key}"\s*:\s*\[', text)
    if begun is None:
        return
    at = begun.end()
    for _ in range(_MOST):
        match = _BREAKS.match(text, at)
        at = match.end() if match else at
        if not text.startswith("{", at):
            return
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def _document(database: str, cited: _Cited, say: Say) -> str:
    """Write `pancakes: Lemon sugar › Toppings, line 12`, with nothing in it that acts."""
    database, title = escape_line(database, _DATABASE_NAME), escape_line(cited.title, _TITLE)
    section = escape_line(cited.section or "", _SECTION)
    where = f"{database}: {title}" + (f" › {section}" if section and section != title else "")
    if cited.line:
        return say("says.why.line", where=where, number=cited.line)
    return say("says.why.page", where=where, number=cited.page) if cited.page else where


# An embed may have 6,000 characters: title 256, text 4,096, each of 25 fields 256 and 1,024.


def notes_embed(records: Sequence[TurnRecord], say: Say) -> EmbedContent | None:
    """Show the latest thoughts of some turns, oldest first, with their times; None: there are none."""
    several = len({record.persona for record in records}) > 1
    shown: list[str] = []
    room = _NOTE_LIST
    notes = [(record, note) for record in records for note in notes_in(record.lines)]
    for record, note in reversed(notes[-_SHOWN_NOTES:]):
        who = f" **{escape_line(record.persona, _NAME)}**" if several else ""
        told = f"<t:{int(record.began)}:R>{who}\n{_quoted(escape_markdown(note, _NOTE), _NOTE + 2)}"
        room -= units(told) + 1
        if room < 0:
            break
        shown.append(told)
    return EmbedContent(say("says.notes.title"), "\n".join(reversed(shown))) if shown else None


def why_embed(record: TurnRecord, say: Say) -> EmbedContent:
    """Show what is behind a turn."""
    fields = [*_tools(record, say), *_sources(record, say), *_acts(record, say), _figures(record, say)]
    return EmbedContent(
        title=say("says.why.title", persona=escape_line(record.persona, _NAME)),
        text=_thoughts(record, say),
        fields=tuple(fields),
    )


def dollars(cost: float | None) -> str:
    """Write a sum of money; small ones to the first two digits that count."""
    if cost is None:
        return "–"
    if 0 < cost < 0.0001:
        return "< $0.0001"
    return f"${cost:.2g}" if 0 < cost < 0.1 else f"${cost:.2f}"


def _thoughts(record: TurnRecord, say: Say) -> str:
    if not record.lines and record.finish is not None:
        return say("says.why.forgotten")
    notes = notes_in(record.lines)
    if not notes:
        return say("says.why.no_notes")
    notes = notes[:_SHOWN_NOTES]
    room = _NOTES // len(notes) - 2
    return "\n\n".join(_quoted(escape_markdown(note, room - 2), room) for note in notes)


def _tools(record: TurnRecord, say: Say) -> Iterator[EmbedField]:
    results = {line.call_id: line.text for line in record.lines if isinstance(line, ToolLine)}
    calls = [call for line in record.lines if isinstance(line, AssistantLine) for call in line.calls]
    shown = calls[:_SHOWN_TOOLS]
    for call in shown:
        room = min(_TOOL, _TOOLS // len(shown))
        value = _use(call, results.get(call.id, ""), room)
        yield EmbedField(say("says.why.tool", name=escape_line(call.name, _NAME)), value)
    if len(calls) > len(shown):
        yield EmbedField("…", say("says.why.more_tools", count=number(len(calls) - len(shown))))


def _use(call: ToolCall, result: str, room: int) -> str:
    """Show arguments and result of a tool, each as a block."""
    arguments = call.arguments.strip()
    shown = code_block(arguments, min(_ARGUMENTS, room // 3), "json") if arguments not in ("", "{}") else ""
    return shown + code_block(result.strip() or "–", room - units(shown))


def _sources(record: TurnRecord, say: Say) -> Iterator[EmbedField]:
    """Show documents that were read, pages that were cited, and addresses that tools gave.

    Nobody needs a password to be shown.
    """
    documents = documents_in(record.lines, say)
    cited = {
        each.url: each.title
        for each in sources_in(all_notes(record.lines))
        if len(each.url) <= _LONGEST_SOURCE
    }
    found: dict[str, None] = {}
    for line in record.lines:
        if isinstance(line, ToolLine):
            for match in _ADDRESS.finditer(line.text):
                address = match[0].rstrip(".,;:!?*_~")
                if len(address) <= _LONGEST_SOURCE and _is_public(address):
                    found[address] = None
    told, room = [], _SOURCES
    pages = [f"{escape_line(title, _NAME)} <{url}>".strip() for url, title in cited.items()]
    addresses = [f"<{address}>" for address in found if address not in cited]
    for source in [*documents, *pages, *addresses][:_SHOWN_SOURCES]:
        room -= units(source) + 3
        if room >= 0:
            told.append(f"- {source}")
    if told:
        yield EmbedField(say("says.why.sources"), "\n".join(told))


def _is_public(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.hostname) and parts.password is None and parts.username is None


def _acts(record: TurnRecord, say: Say) -> Iterator[EmbedField]:
    done = [effect for effect in record.effects if effect.outcome == "done"]
    kinds = Counter(effect.kind for effect in done if effect.kind != REACT)
    told = []
    if messages := kinds.pop(SEND, 0):
        told.append(say("says.why.messages", count=number(messages)))
    if reactions := [effect.payload for effect in done if effect.kind == REACT]:
        told.append(say("says.why.reactions", what=" ".join(escape_line(each, 32) for each in reactions[:5])))
    for kind, count in kinds.most_common(3):
        told.append(say("says.why.other", name=escape_line(kind, 32), count=number(count)))
    outcomes = Counter(effect.outcome for effect in record.effects)
    if refused := outcomes["refused"]:
        told.append(say("says.why.refused", count=number(refused)))
    if unsure := outcomes["unknown"] + outcomes[None]:
        told.append(say("says.why.unsure", count=number(unsure)))
    if told:
        yield EmbedField(say("says.why.did"), "\n".join(told))


def _figures(record: TurnRecord, say: Say) -> EmbedField:
    usage = record.usage
    tokens = say(
        "says.why.token_counts",
        prompt=number(usage.prompt_tokens),
        cached=number(usage.cached_tokens),
        completion=number(usage.completion_tokens),
    )
    people = " ".join(f"<@{person}>" for person in record.people[:5] if person.isdecimal())
    rows = (
        ("model", escape_line(record.model, _NAME)),
        ("steps", number(record.steps)),
        ("tokens", tokens),
        ("cost", dollars(record.cost)),
        ("time", f"<t:{int(record.began)}:F>"),
        ("answered", people),
        ("finish", say(f"says.why.finishes.{record.finish or 'running'}")),
    )
    lines = [f"**{say(f'says.why.{key}')}** {value}" for key, value in rows if value]
    return EmbedField(say("says.why.figures"), "\n".join(lines))


def _quoted(text: str, limit: int) -> str:
    """Quote an escaped text within `limit`; of many short lines the last ones are left out."""
    lines: list[str] = []
    room = limit
    for line in text.split("\n"):
        room -= units(line) + 3
        if room < 0 and lines:
            break
        lines.append(f"> {line}")
    return "\n".join(lines)


class RecordCommands:
    """`/notes`, `/why`, and the latter in the menu of a message."""

    def __init__(self, use: Use) -> None:
        self._use = use

    async def notes(self, interaction: discord.Interaction, public: bool = False) -> None:
        """Show the latest thoughts about what was said in a channel."""
        use = self._use(interaction)
        if public and interaction.guild_id is not None and not is_admin(use.backend.rules, use.requester):
            await use.answer(use.say("says.managers"))
            return
        told = notes_embed(await use.within(self._records(use)), use.say)
        if told is None:
            await use.answer(use.say("says.notes.nothing"))
        else:
            await use.answer(embed=told, public=public)

    async def why(self, interaction: discord.Interaction, message: str | None = None) -> None:
        """Show what is behind a message of ours in this channel: the one of a link or id, or the last."""
        use = self._use(interaction)
        if message is None:
            spoken = [each for each in await use.within(self._records(use)) if _spoke(each)]
            if spoken:
                await use.answer(embed=why_embed(spoken[-1], use.say))
            else:
                await use.answer(use.say("says.why.silent"))
            return
        match = _REFERENCE.fullmatch(message)
        if match is None:
            await use.answer(use.say("says.why.unreadable"))
        elif match["channel"] and int(match["channel"]) != use.channel:
            await use.answer(use.say("says.why.elsewhere"))
        else:
            await self._why_embed(use, match["id"])

    async def why_this(self, interaction: discord.Interaction, message: discord.Message) -> None:
        """Show what is behind the message whose menu was opened."""
        await self._why_embed(self._use(interaction), str(message.id))

    async def _why_embed(self, use: Invocation, message_id: str) -> None:
        record = await use.within(use.backend.store.turn_behind(ALL_ADDRESSES, message_id))
        if record is None:
            await use.answer(use.say("says.why.strange"))
        elif not _was_here(record, use):
            await use.answer(use.say("says.why.elsewhere"))
        else:
            await use.answer(embed=why_embed(record, use.say))

    async def _records(self, use: Invocation) -> list[TurnRecord]:
        """Return the last turns of all personas of a channel, oldest first."""
        records = [
            record
            for conversation in use.conversations
            for record in await use.backend.store.turns(conversation, _TURNS)
        ]
        return sorted(records, key=lambda record: (record.began, record.id))[-_TURNS:]


def _spoke(record: TurnRecord) -> bool:
    return any(effect.kind == SEND and effect.outcome == "done" for effect in record.effects)


def _was_here(record: TurnRecord, use: Invocation) -> bool:
    """Return whether a turn was in this channel; what was said elsewhere is not told here."""
    try:
        address = parse_address(record.conversation)
    except PixiError:
        return False
    return (address.bot, address.channel) == (use.bot, use.channel)
