"""What personas remember of people: listed, searched, and forgotten one by one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from pixi.app.studio.privacy import hidden_among
from pixi.app.studio.rows import names_of_personas, readable, words_in
from pixi.core.routes import AddonRoute, Caller, RouteError

if TYPE_CHECKING:
    from pixi.app.household import Household

_MEMORIES, _MEMORY = "/api/studio/memories", "/api/studio/memories/{id}"


class MemoriesQuery(Struct):
    """Which facts: of a person (by id), of a persona (by name), in which words stand. `after`: `next`."""

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


def routes(house: "Household") -> Sequence[AddonRoute]:
    """Return the routes of the screen."""

    async def listed(caller: Caller, asked: MemoriesQuery) -> MemoriesShown:
        words = words_in(asked.search)
        facts, left = await house.store.list_memories(asked.person, asked.persona, words, asked.after)
        hidden = await hidden_among(house, {each.conversation for each in facts})
        names = await house.store.names_of({each.person for each in facts})
        rows = [
            MemoryRow(
                each.id,
                readable(each.persona),
                readable(each.person),
                readable(names[each.person]),
                "" if each.conversation in hidden else readable(each.text),
                each.told,
                readable(each.conversation),
                each.guild,
                each.audience,
                hidden=each.conversation in hidden,
            )
            for each in facts
            if not (words and each.conversation in hidden)
        ]
        return MemoriesShown(rows, left, names_of_personas(house))

    async def forget(caller: Caller, asked: None) -> None:
        number = caller.path["id"]
        if not number.isascii() or not number.isdigit() or len(number) > 15:
            raise RouteError(404, "No such memory", "The id of a memory is a number.")
        await house.store.drop_memories([int(number)])

    return (
        AddonRoute(
            "GET", _MEMORIES, listed, "List what is remembered", "operate", MemoriesQuery, MemoriesShown
        ),
        AddonRoute("DELETE", _MEMORY, forget, "Forget one thing that is remembered", "operate"),
    )
