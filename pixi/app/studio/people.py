"""The screens of people: who is known, what is kept of them, what personas remember, and forgetting."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from pixi.app.retention import forget_beside
from pixi.app.studio.rows import (
    LONGEST_CURSOR,
    PersonRow,
    TalkRow,
    cursor_of,
    hidden_among,
    may_read,
    names_of_personas,
    person_row,
    place_behind,
    private_among,
    talk_row,
    words_in,
)
from pixi.core.errors import PixiError
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.core.spending import UsageScope, as_row, day_of, first_of_month
from pixi.core.untrusted import data_without_halves, without_halves
from pixi.store.kept import Known, TalkFilter

if TYPE_CHECKING:
    from pixi.app.service import BotService

_PEOPLE, _PERSON = "/api/studio/people", "/api/studio/people/{id}"
_TALKS = 100  # of a person that are listed


class PeopleQuery(Struct):
    """A search for people, by id or latest name. `after`: `next` of the page before."""

    search: Annotated[str, Meta(max_length=200)] = ""
    after: Annotated[str, Meta(max_length=LONGEST_CURSOR)] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class PeopleShown(Struct):
    """People, whoever wrote last first. `next`: for `after`, to go on; "": there are no more."""

    people: list[PersonRow]
    next: str


class ShareRow(Struct):
    """Use of a daily limit: by whom, of what, and how much there is."""

    scope: str
    kind: str
    used: int
    limit: int


class PersonShown(Struct):
    """Data that is kept of a person.

    Attributes:
        talks: where they wrote, the latest first.
        file_bytes: of the files that they sent.
        today, month: what they used, as `usage --json` tells of a person.
        shares: of what is limited for a person in a day.
    """

    person: PersonRow
    talks: list[TalkRow]
    file_bytes: int
    today: dict[str, Any]
    month: dict[str, Any]
    shares: list[ShareRow]


class ForgetRequest(Struct, forbid_unknown_fields=True):
    """Forget a person. `name`: theirs as it is shown, or their id, to be sure that they are meant."""

    name: str


class ForgottenShown(Struct):
    """The outcome: how many conversations changed, and what somebody has to delete by hand."""

    conversations: int
    left: list[str]


def routes(service: "BotService") -> Sequence[AddonRoute]:
    """Return the routes of the screen."""

    async def listed(caller: Caller, asked: PeopleQuery) -> PeopleShown:
        try:
            place = place_behind(asked.after)
        except PixiError as error:
            raise RouteError(422, "No such page", str(error)) from error
        after = None if place is None else (int(place[0]), place[1])
        found = await service.store.list_people(asked.search, asked.limit, after)
        rows = [person_row(known) for _, person in found for known in await service.store.people(person)]
        return PeopleShown(rows, cursor_of(*found[-1]) if len(found) == asked.limit else "")

    async def person(caller: Caller, asked: None) -> PersonShown:
        return await _shown(service, await _known(service, caller))

    async def export(caller: Caller, asked: None) -> dict[str, Any]:
        known = await _known(service, caller)
        return await _export(service, caller, known.id)

    async def forget(caller: Caller, asked: ForgetRequest) -> ForgottenShown:
        known = await _known(service, caller)
        names = {without_halves(name).strip() for name in (known.id, *known.names)}
        if asked.name.strip() not in names:
            raise RouteError(
                422, "Another name", "The name is not theirs: write it as it is shown, or their id."
            )
        changed = await service.engine.forget(known.id)
        return ForgottenShown(changed, await forget_beside(service.settings, service.store, known.id))

    return (
        AddonRoute("GET", _PEOPLE, listed, "List people", "operate", PeopleQuery, PeopleShown),
        AddonRoute("GET", _PERSON, person, "See what is kept of a person", "operate", None, PersonShown),
        AddonRoute("GET", f"{_PERSON}/export", export, "Export a person", "operate", None, dict[str, Any]),
        AddonRoute(
            "POST",
            f"{_PERSON}/forget",
            forget,
            "Forget a person",
            "operate",
            ForgetRequest,
            ForgottenShown,
        ),
    )


async def _known(service: "BotService", caller: Caller) -> Known:
    """Return the person whose id is in the path: a name is not enough here."""
    wanted = caller.path["id"]
    found = next((each for each in await service.store.people(wanted) if each.id == wanted), None)
    if found is None:
        raise RouteError(404, "No such person", "Nothing is kept of anybody of that id.")
    return found


async def _shown(service: "BotService", known: Known) -> PersonShown:
    store, today = service.store, day_of(time.time())
    talks = await store.list_talks(TalkFilter(person=known.id), _TALKS)
    addresses = [talk.address for talk in talks]
    private, hidden = await private_among(store, addresses), await hidden_among(service, addresses)
    month = await store.used(today, "person", known.id, since=first_of_month(today))
    return PersonShown(
        person_row(known),
        [talk_row(talk, private=talk.address in private, hidden=talk.address in hidden) for talk in talks],
        await store.file_bytes(known.id),
        as_row(await store.used(today, "person", known.id), "person") | {"person": without_halves(known.id)},
        as_row(month, "person") | {"person": without_halves(known.id)},
        [
            ShareRow(each.scope, each.kind, each.used, each.limit)
            for each in await service.engine.shares(UsageScope(person=known.id))
        ],
    )


async def _export(service: "BotService", caller: Caller, person: str) -> dict[str, Any]:
    """Export a person's data; of talks in private without the words, unless operators may read them.

    `withheld` tells which these are. Whoever sits at the machine gets them by `pixi-persona export`.
    """
    kept = await service.store.export(person)
    withheld = {
        address for address in _addresses(kept) if not await may_read(service, caller, address, "export")
    }
    if withheld:
        kept["conversations"] = [
            _counted(talk) if talk["address"] in withheld else talk for talk in kept["conversations"]
        ]
        kept["talks"] = [
            {**talk, "name": ""} if talk["address"] in withheld else talk for talk in kept["talks"]
        ]
        kept["memories"] = [
            {**fact, "text": ""} if fact["told_in"] in withheld else fact for fact in kept["memories"]
        ]
        kept["done_for_you"] = [
            {**deed, "arguments": ""} if deed["conversation"] in withheld else deed
            for deed in kept["done_for_you"]
        ]
    shown: dict[str, Any] = data_without_halves(kept | {"withheld": sorted(withheld)})
    return shown


def _addresses(kept: dict[str, Any]) -> set[str]:
    """Return the addresses of all talks in an export."""
    return {
        each[name]
        for part, name in (
            ("conversations", "address"),
            ("talks", "address"),
            ("memories", "told_in"),
            ("done_for_you", "conversation"),
        )
        for each in kept[part]
    }


def _counted(talk: dict[str, Any]) -> dict[str, Any]:
    """Return a talk of an export without its words."""
    return {
        "address": talk["address"],
        **{part: len(talk[part]) for part in ("messages", "answers", "quoted_by_others")},
    }


_MEMORIES, _MEMORY = "/api/studio/memories", "/api/studio/memories/{id}"


class MemoriesQuery(Struct):
    """A search for facts: of a person (by id), of a persona (by name), with some words. `after`: `next`."""

    person: Annotated[str, Meta(max_length=300)] = ""
    persona: Annotated[str, Meta(max_length=200)] = ""
    search: Annotated[str, Meta(max_length=200)] = ""
    after: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class MemoryRow(Struct):
    """A fact.

    Attributes:
        name: of the person, as they wrote last; "": not known.
        text: "" where it is hidden.
        told: when.
        conversation: where.
        audience: who could read that talk: `one` person, `some` members of the guild, or `all`.
        hidden: it was told in private, and operators are not shown it.
    """

    id: int
    persona: str
    person: str
    name: str
    text: str
    told: float
    conversation: str
    guild: str
    audience: str
    hidden: bool


class MemoriesShown(Struct):
    """Facts, the latest first.

    Attributes:
        next: for `after`, to go on; None: there are no more.
        personas: the names of those who can be asked for.
    """

    memories: list[MemoryRow]
    next: int | None
    personas: list[str]


def memory_routes(service: "BotService") -> Sequence[AddonRoute]:
    """Return the routes of the screen."""

    async def listed(caller: Caller, asked: MemoriesQuery) -> MemoriesShown:
        words = words_in(asked.search)
        facts, left = await service.store.list_memories(asked.person, asked.persona, words, asked.after)
        hidden = await hidden_among(service, {each.conversation for each in facts})
        names = await service.store.names_of({each.person for each in facts})
        rows = [
            MemoryRow(
                each.id,
                without_halves(each.persona),
                without_halves(each.person),
                without_halves(names[each.person]),
                "" if each.conversation in hidden else without_halves(each.text),
                each.told,
                without_halves(each.conversation),
                each.guild,
                each.audience,
                hidden=each.conversation in hidden,
            )
            for each in facts
            if not (words and each.conversation in hidden)
        ]
        return MemoriesShown(rows, left, names_of_personas(service))

    async def forget(caller: Caller, asked: None) -> None:
        number = caller.path["id"]
        if not number.isascii() or not number.isdigit() or len(number) > 15:
            raise RouteError(404, "No such memory", "The id of a memory is a number.")
        await service.store.drop_memories([int(number)])

    return (
        AddonRoute(
            "GET", _MEMORIES, listed, "List what is remembered", "operate", MemoriesQuery, MemoriesShown
        ),
        AddonRoute("DELETE", _MEMORY, forget, "Forget one thing that is remembered", "operate"),
    )
