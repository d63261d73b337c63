"""The screens of people: who is known, what is kept of them, what personas remember, and forgetting."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from pixi.app.retention import forget_beside
from pixi.app.service import BotService
from pixi.app.studio.rows import (
    LONGEST_CURSOR,
    PersonRow,
    TalkRow,
    cursor_of,
    hidden_among,
    may_read,
    names_of_personas,
    operator_route,
    person_row,
    place_behind,
    private_among,
    talk_row,
)
from pixi.core.memory import Memory
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.core.spending import QuotaUsage, UsageScope, as_row, day_of, first_of_month
from pixi.core.untrusted import without_halves
from pixi.store.kept import Known, TalkFilter

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
    shares: tuple[QuotaUsage, ...]


class ForgetRequest(Struct, forbid_unknown_fields=True):
    """Forget a person. `name`: theirs as it is shown, or their id, to be sure that they are meant."""

    name: str


class ForgottenShown(Struct):
    """The outcome: how many conversations changed, and what somebody has to delete by hand."""

    conversations: int
    left: list[str]


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes of the screen."""

    async def listed(caller: Caller, asked: PeopleQuery) -> PeopleShown:
        place = place_behind(asked.after)
        after = None if place is None else (int(place[0]), place[1])
        found = await service.store.list_people(asked.search, asked.limit, after)
        rows = [person_row(known) for _, person in found for known in await service.store.people(person)]
        return PeopleShown(rows, cursor_of(*found[-1]) if len(found) == asked.limit else "")

    async def person(caller: Caller, asked: None) -> PersonShown:
        return await _shown(service, await _known(service, caller))

    async def export(caller: Caller, asked: None) -> dict[str, Any]:
        return await _export(service, caller, (await _known(service, caller)).id)

    async def forget(caller: Caller, asked: ForgetRequest) -> ForgottenShown:
        known = await _known(service, caller)
        names = {without_halves(name).strip() for name in (known.id, *known.names)}
        if asked.name.strip() not in names:
            why = "The name is not theirs: write it as it is shown, or their id."
            raise RouteError(422, "Another name", why)
        changed = await service.engine.forget(known.id)
        return ForgottenShown(changed, await forget_beside(service.settings, service.store, known.id))

    return (
        operator_route("GET", _PEOPLE, listed, "List people"),
        operator_route("GET", _PERSON, person, "See what is kept of a person"),
        operator_route("GET", f"{_PERSON}/export", export, "Export a person"),
        operator_route("POST", f"{_PERSON}/forget", forget, "Forget a person"),
    )


async def _known(service: BotService, caller: Caller) -> Known:
    """Return the person whose id is in the path: a name is not enough here."""
    wanted = caller.path["id"]
    found = next((each for each in await service.store.people(wanted) if each.id == wanted), None)
    if found is None:
        raise RouteError(404, "No such person", "Nothing is kept of anybody of that id.")
    return found


async def _shown(service: BotService, known: Known) -> PersonShown:
    store, today = service.store, day_of(time.time())
    talks = await store.list_talks(TalkFilter(person=known.id), _TALKS)
    addresses = [talk.address for talk in talks]
    private, hidden = await private_among(store, addresses), await hidden_among(service, addresses)
    used = await store.used(today, "person", known.id)
    month = await store.used(today, "person", known.id, since=first_of_month(today))
    return PersonShown(
        person_row(known),
        [talk_row(talk, private=talk.address in private, hidden=talk.address in hidden) for talk in talks],
        await store.file_bytes(known.id),
        as_row(used, "person") | {"person": known.id},
        as_row(month, "person") | {"person": known.id},
        await service.engine.shares(UsageScope(person=known.id)),
    )


_PARTS = {
    "talks": ("address", "name"),
    "memories": ("told_in", "text"),
    "done_for_you": ("conversation", "arguments"),
}
"""Parts of an export: the field with the address of the talk, and the one with words."""

_COUNTED = ("messages", "answers", "quoted_by_others")  # all that is told of a conversation that is withheld


async def _export(service: BotService, caller: Caller, person: str) -> dict[str, Any]:
    """Export a person's data; of talks in private without the words, unless operators may read them.

    `withheld` tells which these are. Whoever sits at the machine gets them by `pixi-persona export`.
    """
    kept = await service.store.export(person)
    parts = {**_PARTS, "conversations": ("address", "")}
    addresses = {each[address] for part, (address, _) in parts.items() for each in kept[part]}
    withheld = {each for each in addresses if not await may_read(service, caller, each, "export")}
    talks = kept["conversations"]
    for place, talk in enumerate(talks):
        if talk["address"] in withheld:
            talks[place] = {"address": talk["address"]} | {name: len(talk[name]) for name in _COUNTED}
    for part, (address, words) in _PARTS.items():
        kept[part] = [each | {words: ""} if each[address] in withheld else each for each in kept[part]]
    return kept | {"withheld": sorted(withheld)}


_MEMORIES, _MEMORY = "/api/studio/memories", "/api/studio/memories/{id}"


class MemoriesQuery(Struct):
    """A search for facts: of a person (by id), of a persona (by name), with some words. `after`: `next`."""

    person: Annotated[str, Meta(max_length=300)] = ""
    persona: Annotated[str, Meta(max_length=200)] = ""
    search: Annotated[str, Meta(max_length=200)] = ""
    after: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class MemoryRow(Memory, frozen=True):
    """A fact.

    Attributes:
        name: of the person, as they wrote last; "": not known.
        hidden: it was told in private, and operators are not shown it: its text is "".
    """

    name: str
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


def memory_routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes of the screen."""

    async def listed(caller: Caller, asked: MemoriesQuery) -> MemoriesShown:
        words = asked.search.casefold().split()
        facts, left = await service.store.list_memories(asked.person, asked.persona, words, asked.after)
        hidden = await hidden_among(service, {each.conversation for each in facts})
        names = await service.store.names_of({each.person for each in facts})
        rows = [
            MemoryRow(
                **asdict(each) | ({"text": ""} if each.conversation in hidden else {}),
                name=names[each.person],
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
        operator_route("GET", _MEMORIES, listed, "List what is remembered"),
        operator_route("DELETE", _MEMORY, forget, "Forget one thing that is remembered"),
    )
