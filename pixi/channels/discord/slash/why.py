"""What people are shown of a turn afterwards: thoughts, tools, sources, acts, figures."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pixi.channels.discord.outgoing.formatting import code_block, escape_line, escape_markdown
from pixi.channels.discord.outgoing.splitting import units
from pixi.channels.discord.slash.sources import Say, documents_in
from pixi.core.citing import sources_in
from pixi.core.language import REACT, SEND
from pixi.core.lines import AssistantLine, ToolCall, ToolLine
from pixi.core.notes import all_notes, notes_in
from pixi.store.kept import TurnRecord

# An embed may have 6,000 characters: title 256, text 4,096, each of 25 fields 256 and 1,024.
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


@dataclass(frozen=True, slots=True)
class EmbedField:
    """A part with a heading. `inline`: it may stand beside others."""

    name: str
    value: str
    inline: bool = False


@dataclass(frozen=True, slots=True)
class EmbedContent:
    """What an embed shows. All of it is Discord's Markdown; strangers' words in it are inert."""

    title: str
    text: str = ""
    fields: tuple[EmbedField, ...] = ()


def tell_notes(records: Sequence[TurnRecord], say: Say) -> EmbedContent | None:
    """The latest thoughts of some turns, oldest first, with their times; None where there are none."""
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


def tell_why(record: TurnRecord, say: Say) -> EmbedContent:
    """What is behind a turn."""
    fields = [*_tools(record, say), *_sources(record, say), *_acts(record, say), _figures(record, say)]
    return EmbedContent(
        title=say("says.why.title", persona=escape_line(record.persona, _NAME)),
        text=_thoughts(record, say),
        fields=tuple(fields),
    )


def number(count: int) -> str:
    """A number with its thousands apart, as all languages can read it."""
    return f"{count:,}".replace(",", "\u202f")


def dollars(cost: float | None) -> str:
    """A sum of money; small ones to the first two digits that count."""
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
    """Arguments and result, each as a block."""
    arguments = call.arguments.strip()
    shown = code_block(arguments, min(_ARGUMENTS, room // 3), "json") if arguments not in ("", "{}") else ""
    return shown + code_block(result.strip() or "–", room - units(shown))


def _sources(record: TurnRecord, say: Say) -> Iterator[EmbedField]:
    """Documents that were read, pages that were cited, and addresses that tools gave.

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
    """Inert text as a quotation, no longer than `limit`; of many short lines the last ones are left out."""
    lines: list[str] = []
    room = limit
    for line in text.split("\n"):
        room -= units(line) + 3
        if room < 0 and lines:
            break
        lines.append(f"> {line}")
    return "\n".join(lines)
