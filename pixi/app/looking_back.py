"""Looks back at a turn: the request that its model was sent, made again from history and record.

No request is kept. What is kept of it are digests, so that it can be said for certain whether what is made
again is the same to the byte, and if not, which part of it has changed since.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.conversation import Bounds, Conversation, PastTurn
from pixi.core.llm import Line, Request, ToolLine, ToolSchema, UserLine
from pixi.core.message import Author, Message
from pixi.core.turn import Turn
from pixi.engine.capabilities import NO_ABILITIES
from pixi.engine.context import PersonaSession
from pixi.engine.engine import Engine
from pixi.store.framing import Framing, digest_of, digest_of_tools
from pixi.store.kept import LookedBack
from pixi.store.store import Store

_ENDLESS = 10**12  # tokens of a window that is never cut: it stands where it stood then


class RebuiltRequest(Struct, frozen=True):
    """A turn that is over, and its first request as it is made again.

    Attributes:
        looked_back: what stands on record.
        session: that speaks there now.
        prefix: the static lines.
        summary: the line with what is remembered of earlier turns; None: there is none.
        window: the turns that were shown, oldest first.
        tools: that were offered and are still there; `gone` has the names of the others.
        changed: the parts that are not as they were sent: `prefix`, `history`, `said`, `tools`. None: that
            is not known, since nothing of it was put on record.
    """

    looked_back: LookedBack
    session: PersonaSession
    prefix: tuple[Line, ...]
    summary: Line | None
    window: tuple[PastTurn, ...]
    tools: tuple[ToolSchema, ...]
    gone: tuple[str, ...]
    changed: frozenset[str] | None

    @property
    def said(self) -> UserLine | None:
        """The line that was answered; None: it was forgotten."""
        first = next(iter(self.looked_back.record.lines), None)
        return first if isinstance(first, UserLine) else None

    @property
    def history(self) -> tuple[Line, ...]:
        """The lines of the window, and of the summary before it."""
        before = () if self.summary is None else (self.summary,)
        return (*before, *(line for turn in self.window for line in turn.lines))

    def requests(self) -> list[Request]:
        """Return the requests of the turn, each with what came of those before it; none if forgotten."""
        if self.said is None:
            return []
        settings = self.session.shared.settings
        turn = Turn(
            prefix=self.prefix,
            history=self.history,
            said=self.said,
            names=self.session.capabilities.names,
            tools=self.tools,
            search=self.session.capabilities.searches,
            limits=self.session.limits,
            prose=settings.prose,
            grammar=self.session.capabilities.grammar,
        )
        first = turn.request()
        last = self.looked_back.record.steps > self.session.limits.tool_steps
        made = [
            replace(first, lines=(*first.lines, *more)) for more in _rounds(self.looked_back.record.lines[1:])
        ]
        if last and len(made) > self.session.limits.tool_steps:  # the last that may be has no tools
            made[-1] = replace(made[-1], tools=(), search=False)
        return made


async def look_back(engine: Engine, store: Store, turn: int) -> RebuiltRequest | None:
    """Return a turn that is over, and its request as it is made again; None: there is none of this number.

    Raises:
        StoreError: it could not be read.
        ConfigError: the persona names a command or a tool that is not registered.
    """
    found = await store.look_back(turn)
    if found is None:
        return None
    abilities = NO_ABILITIES if found.framing is None else found.framing.abilities
    return rebuilt(await engine.session(found.trunk, abilities), found)


def rebuilt(session: PersonaSession, looked_back: LookedBack) -> RebuiltRequest:
    """Make the request of a turn again, with the code that made it."""
    framing, names = looked_back.framing, session.capabilities.names
    bounds = Bounds(_ENDLESS, framing.first_turn, framing.notes_from) if framing else Bounds(_ENDLESS)
    summary = "" if session.role.model.traits.small else looked_back.summary
    window = Conversation(bounds, looked_back.past, summary=summary, names=names)
    bare = Conversation(bounds, looked_back.past, names=names)
    if framing is not None and framing.history == digest_of(bare.lines):
        window = bare  # there was no summary yet
    shown = window.lines
    remembered = shown[0] if len(shown) > len(bare.lines) else None
    tools, gone = _offered(session, framing)
    made = RebuiltRequest(
        looked_back,
        session,
        prefix=session.prefix(_answered(looked_back)),
        summary=remembered,
        window=_by_turn(bare.lines, looked_back.past),
        tools=tools,
        gone=gone,
        changed=None,
    )
    return made if framing is None else replace(made, changed=_changed(made, framing))


def _changed(made: RebuiltRequest, framing: Framing) -> frozenset[str]:
    """Return the parts that are not as they were sent."""
    said = [made.said] if made.said else []
    parts = {
        "prefix": digest_of(made.prefix) == framing.prefix,
        "history": digest_of(made.history) == framing.history,
        "said": digest_of(said) == framing.said,
        "tools": not made.gone and digest_of_tools(made.tools) == framing.tools,
    }
    return frozenset(part for part, same in parts.items() if not same)


def _offered(
    session: PersonaSession, framing: Framing | None
) -> tuple[tuple[ToolSchema, ...], tuple[str, ...]]:
    """Return the tools that were offered, as they are now, and the names of those that are there no more."""
    capabilities = session.capabilities
    if framing is None:
        return (capabilities.schemas if session.role.model.traits.tools else ()), ()
    found = {schema.name: schema for schema in capabilities.schemas}
    there = tuple(found[name] for name in framing.offered if name in found)
    return there, tuple(name for name in framing.offered if name not in found)


def _answered(looked_back: LookedBack) -> Message:
    """Return the message that was answered; one without name and place where it was forgotten."""
    meant = [message for message in looked_back.messages if message.addressed]
    unknown = Message("", looked_back.record.conversation, Author("", ""), "", 0.0)
    return meant[-1] if meant else unknown


def _by_turn(lines: Sequence[Line], past: Iterable[PastTurn]) -> tuple[PastTurn, ...]:
    """Return the lines of a window by turns, each of which begins with a user line."""
    starts = [number for number, line in enumerate(lines) if isinstance(line, UserLine)]
    ends = [*starts[1:], len(lines)][: len(starts)]
    ids = [turn.id for turn in past if isinstance(next(iter(turn.lines), None), UserLine)]
    shown = ids[len(ids) - len(starts) :]
    return tuple(
        PastTurn(number, tuple(lines[start:end]))
        for number, start, end in zip(shown, starts, ends, strict=True)
    )


def _rounds(lines: Sequence[Line]) -> Iterator[tuple[Line, ...]]:
    """Yield, for each request, the lines behind the first one's: all up to the answers of its tools."""
    yield ()
    for number, line in enumerate(lines):
        follows = lines[number + 1] if number + 1 < len(lines) else None
        if isinstance(line, ToolLine) and not isinstance(follows, ToolLine):
            yield tuple(lines[: number + 1])
