"""Talks of every channel: listed, searched, read, exported, reset, and who speaks there on which model."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from pixi.app.service import BotService
from pixi.app.studio.rows import (
    LONGEST_CURSOR,
    FoundRow,
    TalkRow,
    cursor_of,
    hidden_among,
    may_read,
    names_of_personas,
    operator_route,
    place_behind,
    private_among,
    talk_row,
)
from pixi.channels.http.replies import acts_of, messages_reacted_to
from pixi.core.conversation import notes_in
from pixi.core.events import to_json
from pixi.core.message import Author, Message
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.store.kept import FoundWords, ListedTalk, TalkFilter, TurnRecord
from pixi.store.statements.branches import trunk

_TALKS, _TALK = "/api/studio/talks", "/api/studio/talks/{address}"
_PORTIONS = 300  # of talks that are looked through for words, for one request; the next goes on from there
_AT_ONCE = 200  # turns that are read at once for an export
_EXCERPT = 160  # characters
_HOSTED = ("discord:", "http:", "mcp:")  # talks whose model the service chooses


class TalksQuery(Struct):
    """A search for talks.

    Attributes:
        search: words that all stand in one message, or in the names and the address.
        channel: `discord`, `http`, `terminal`, `mcp`.
        persona: the name of who answered last.
        place: as a row has it.
        day: on which something was said, in UTC: `2026-11-24`.
        person: the id of an author.
        after: `next` of the page before.
    """

    search: Annotated[str, Meta(max_length=200)] = ""
    channel: Annotated[str, Meta(max_length=20)] = ""
    persona: Annotated[str, Meta(max_length=200)] = ""
    place: Annotated[str, Meta(max_length=300)] = ""
    day: Annotated[str, Meta(max_length=10)] = ""
    person: Annotated[str, Meta(max_length=300)] = ""
    after: Annotated[str, Meta(max_length=LONGEST_CURSOR)] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class TalksShown(Struct):
    """Talks, the latest first.

    Attributes:
        next: for `after`, to go on; "": there are no more.
        personas: the names of those who can be asked for.
    """

    talks: list[TalkRow]
    next: str
    personas: list[str]


class SaidRow(Struct):
    """A message of a person. `addressed`: it was meant for the persona."""

    id: str
    number: int
    author: Author
    text: str
    at: float
    addressed: bool
    reply_to: str | None


class TurnRow(Struct):
    """A turn: what was said, and what the persona did.

    Attributes:
        said: messages of people, oldest first.
        events: what stands in the chat, in the form of `chat --json`.
        notes: thoughts that nobody saw.
        cost: in dollars; None: not known.
    """

    id: int
    began: float
    persona: str
    model: str
    finish: str
    steps: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float | None
    said: list[SaidRow]
    events: list[dict[str, Any]]
    notes: list[str]


class PersonaChoice(Struct):
    """A persona that can be chosen: the name of its file, and its name."""

    id: str
    name: str


class PlaceShown(Struct):
    """The persona that speaks in a place, and its model, as people chose it.

    Attributes:
        personas: names of files, the first speaks unless another is named; empty: the usual ones.
        model: "": the usual one.
        home: every message there is meant for the first persona.
        choose: what can be chosen there: `persona`, `model`.
        all_personas, all_models: that there are.
    """

    personas: list[str]
    model: str
    home: bool
    choose: list[str]
    all_personas: list[PersonaChoice]
    all_models: list[str]


class PlaceChoice(Struct, forbid_unknown_fields=True):
    """A choice for a place; what is left out stays."""

    personas: Annotated[list[str], Meta(max_length=20)] | None = None
    model: str | None = None
    home: bool | None = None


class TurnsQuery(Struct):
    """A choice of turns: the last ones of a talk, or the last ones before one."""

    before: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class TalkShown(Struct):
    """A talk. Where it is hidden, its turns are without words.

    Attributes:
        turns: oldest first.
        waiting: messages that are not answered yet.
        more: there are turns before these.
        branches: addresses of what was taken out of it.
    """

    talk: TalkRow
    place: PlaceShown
    turns: list[TurnRow]
    waiting: list[SaidRow]
    more: bool
    branches: list[str]


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes of the screen."""

    async def listed(caller: Caller, asked: TalksQuery) -> TalksShown:
        return await _listed(service, asked)

    async def talk(caller: Caller, asked: TurnsQuery) -> TalkShown:
        listed = await _known(service, caller)
        reads = await may_read(service, caller, listed.address, "messages")
        return await _shown(service, listed, asked.before, asked.limit, reads=reads)

    async def export(caller: Caller, asked: None) -> TalkShown:
        listed = await _known(service, caller)
        if not await may_read(service, caller, listed.address, "export"):
            raise RouteError(403, "In private", "This talk is in private; see [studio] private.")
        shown = await _shown(service, listed, None, _AT_ONCE, reads=True)
        while shown.more:
            earlier = await _shown(service, listed, shown.turns[0].id, _AT_ONCE, reads=True)
            shown.turns, shown.more = earlier.turns + shown.turns, earlier.more
        return shown

    async def reset(caller: Caller, asked: None) -> None:
        await service.engine.reset((await _trunk(service, caller)).address)

    async def choose(caller: Caller, asked: PlaceChoice) -> PlaceShown:
        return await _choose(service, (await _trunk(service, caller)).address, asked)

    return (
        operator_route("GET", _TALKS, listed, "List talks of all channels"),
        operator_route("GET", _TALK, talk, "Read a talk"),
        operator_route("GET", f"{_TALK}/export", export, "Export a talk"),
        operator_route("POST", f"{_TALK}/reset", reset, "Forget what was said in a talk"),
        operator_route("PUT", f"{_TALK}/place", choose, "Choose who speaks in a talk"),
    )


async def _known(service: BotService, caller: Caller) -> ListedTalk:
    """Return the talk, or the branch, that a path names.

    Raises:
        RouteError: 404, there is none.
    """
    found = await service.store.listed_talk(caller.path["address"])
    if found is None:
        raise RouteError(404, "No such talk", "Nothing was said in a talk of that address.")
    return found


async def _trunk(service: BotService, caller: Caller) -> ListedTalk:
    """Return the talk that a path names.

    Raises:
        RouteError: 404, there is none; 422, it is a branch.
    """
    found = await _known(service, caller)
    if trunk(found.address) != found.address:
        raise RouteError(422, "A branch", "This was taken out of a talk: change that talk, and it follows.")
    return found


# The list.


async def _listed(service: BotService, asked: TalksQuery) -> TalksShown:
    wanted, after = _filter(asked), place_behind(asked.after)
    words, personas = asked.search.casefold().split(), names_of_personas(service)
    rows: list[TalkRow] = []
    left = _PORTIONS
    while True:
        page = await service.store.list_talks(wanted, asked.limit, after)
        addresses = [talk.address for talk in page]
        private = await private_among(service.store, addresses)
        hidden = await hidden_among(service, addresses)
        for talk in page:
            after = (talk.last, talk.address)
            is_private, is_hidden = talk.address in private, talk.address in hidden
            found = None
            fits = _names(talk, words, hidden=is_hidden)
            if not (fits or is_hidden):
                found, looked = await _look(service, talk.address, words, private=is_private)
                left -= looked
            if fits or found is not None:
                rows.append(talk_row(talk, private=is_private, hidden=is_hidden, found=found))
            if len(rows) == asked.limit or left <= 0:
                return TalksShown(rows, cursor_of(*after), personas)
        if len(page) < asked.limit or after is None:
            return TalksShown(rows, "", personas)


def _filter(asked: TalksQuery) -> TalkFilter:
    since = until = None
    if asked.day:
        try:
            day = datetime.combine(date.fromisoformat(asked.day), datetime.min.time(), UTC)
        except ValueError:
            raise RouteError(422, "No such day", "day is none: write it as 2026-11-24.") from None
        since, until = day.timestamp(), (day + timedelta(days=1)).timestamp()
    prefix = f"{asked.channel}:" if asked.channel else ""
    return TalkFilter(prefix, asked.place, asked.persona, asked.person, since, until)


def _names(talk: ListedTalk, words: Sequence[str], *, hidden: bool) -> bool:
    """Return True if the words stand in what the talk is called, and in the names of who wrote there."""
    names = [] if hidden else [talk.name, *(each.name for each in talk.people)]
    told = " ".join((talk.address, talk.persona, *names)).casefold()
    return all(word in told for word in words)


async def _look(
    service: BotService, address: str, words: Sequence[str], *, private: bool
) -> tuple[FoundRow | None, int]:
    """Look for words in a talk; return where they are, and how many portions were looked through."""
    looked, before = 0, None
    while True:
        found = await service.store.find_words(address, words, before)
        looked += 1
        if found.turn is not None:
            return _found(found, found.turn, words, private=private), looked
        if found.left is None:
            return None, looked
        before = found.left


def _found(found: FoundWords, turn: int, words: Sequence[str], *, private: bool) -> FoundRow:
    """Return the place of a hit; in a private talk that was not opened, without its words."""
    if private:
        return FoundRow(turn, None, "")
    at = found.text.casefold().find(words[0])
    begin = max(0, at - _EXCERPT // 3)
    end = begin + _EXCERPT
    text = found.text[begin:end]
    if begin:
        text = f"…{text}"
    if end < len(found.text):
        text = f"{text}…"
    return FoundRow(turn, None if found.author is None else found.author.name, text)


# One talk.


async def _shown(
    service: BotService, listed: ListedTalk, before: int | None, limit: int, *, reads: bool
) -> TalkShown:
    store, address = service.store, listed.address
    records = await store.turns(address, limit + 1, before)
    chosen = records[-limit:]
    said = await store.messages_of([each.id for each in chosen], overheard=True) if reads else {}
    waiting: Sequence[Message] = ()
    if before is None and reads:
        at_work, last = await store.last_asked(address)
        waiting = () if at_work is not None and any(each.id == at_work for each in chosen) else last
    private = bool(await private_among(store, [address]))
    return TalkShown(
        talk_row(listed, private=private, hidden=not reads),
        _place(service, address),
        [turn async for turn in _turns(service, chosen, said, reads=reads)],
        [_said(each) for each in waiting],
        more=len(records) > len(chosen),
        branches=list(await store.branches(address)),
    )


async def _turns(
    service: BotService, records: Sequence[TurnRecord], said: dict[int, tuple[Message, ...]], *, reads: bool
) -> AsyncIterator[TurnRow]:
    for record in records:
        messages = said.get(record.id, ())
        events: list[dict[str, Any]] = []
        if reads:
            meant = [each.id for each in messages if each.addressed]
            earlier = await messages_reacted_to(service.store, record)
            events = [to_json(each) for each in acts_of(record, meant[-1] if meant else "", earlier)]
        yield TurnRow(
            id=record.id,
            began=record.began,
            persona=record.persona,
            model=record.model,
            finish=record.finish or "",
            steps=record.steps,
            prompt_tokens=record.usage.prompt_tokens,
            cached_tokens=record.usage.cached_tokens,
            completion_tokens=record.usage.completion_tokens,
            cost=record.cost,
            said=[_said(each) for each in messages],
            events=events,
            notes=list(notes_in(record.lines)) if reads else [],
        )


def _said(message: Message) -> SaidRow:
    return SaidRow(
        message.id,
        message.number,
        message.author,
        message.text,
        message.sent_at,
        message.addressed,
        message.reply_to,
    )


# The persona of a place.


def _place(service: BotService, address: str) -> PlaceShown:
    place = service.place(service.chosen_at(address))
    return PlaceShown(
        list(place.personas),
        place.model,
        place.home,
        _can_choose(service, address),
        [PersonaChoice(name, each.name) for name, each in service.personas.items()],
        list(service.models),
    )


def _can_choose(service: BotService, address: str) -> list[str]:
    """Return the choices for a talk; a bot with one persona's face has one choice for a whole guild."""
    if trunk(address) != address or not address.startswith(_HOSTED):
        return []
    is_channel = address.startswith("discord:") and service.rules.faces != "profile"
    return ["persona", "model"] if is_channel else ["model"]


async def _choose(service: BotService, address: str, asked: PlaceChoice) -> PlaceShown:
    can = _can_choose(service, address)
    if (asked.personas is not None or asked.home is not None) and "persona" not in can:
        raise RouteError(409, "Not here", "Who speaks in this talk is not chosen for it alone.")
    if asked.model is not None and "model" not in can:
        raise RouteError(409, "Not here", "The model of this talk is not the service's to choose.")
    unknown = [name for name in asked.personas or () if name not in service.personas]
    if unknown:
        known = ", ".join(service.personas)
        raise RouteError(422, "No such persona", f"There is no persona {unknown[0]!r}. There is: {known}.")
    if asked.model and asked.model not in service.models:
        known = ", ".join(service.models)
        raise RouteError(422, "No such model", f"There is no model {asked.model!r}. There is: {known}.")
    chosen = {name: value for name, value in asdict(asked).items() if value is not None}
    if asked.personas is not None:
        chosen["personas"] = tuple(dict.fromkeys(asked.personas))
    if asked.model == service.models[0]:
        chosen["model"] = ""  # the usual one
    at = service.chosen_at(address)
    await service.set_place(at, replace(service.place(at), **chosen))
    return _place(service, address)
