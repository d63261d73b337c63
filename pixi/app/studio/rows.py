"""Rows that several screens of the studio show: talks, people, and what was used.

Times are seconds since the epoch. Names and texts are strangers' words.
"""

import json
from collections.abc import AsyncGenerator, Iterable
from types import NoneType
from typing import get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import asdict

from pixi.app.service import BotService
from pixi.channels.http.access import LOCAL, VISITOR
from pixi.core.message import Author
from pixi.core.routes import AddonRoute, Answer, Caller, Follow, Method, RouteError
from pixi.core.untrusted import clipped
from pixi.store.kept import Deed, Known, ListedTalk
from pixi.store.store import Store

LONGEST_CURSOR = 1_000
_BEGINNING = 120  # characters of a message


class FoundRow(Struct):
    """A place where words stand: in a message of a turn (0: it waits), by somebody (None: by the persona)."""

    turn: int
    by: str | None
    text: str


class TalkRow(Struct):
    """A talk.

    Attributes:
        channel: `discord`, `http`, `terminal`, `mcp`, or how else its address begins.
        place: of it, e.g. `discord:1:77` or `web:shop`; with it talks are filtered.
        name: by which a client over HTTP knows it.
        persona, model: who answered last, and on what; "": nobody did.
        people: who wrote there lately; nobody where it is hidden.
        said: the beginning of what was written last; "" where it is hidden.
        first, last: when something was written.
        messages: of people, of which the words are kept.
        turns: how often it was answered; `unpriced` of these have no known cost.
        private: it is in private.
        hidden: operators are not shown what was said.
        found: where words were found that were looked for.
    """

    address: str
    channel: str
    place: str
    name: str
    persona: str
    model: str
    people: list[Author]
    said: str
    first: float
    last: float
    messages: int
    turns: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float
    unpriced: int
    private: bool
    hidden: bool
    found: FoundRow | None = None


class PersonRow(Struct):
    """A person, and how much is kept of them. `last`: when they wrote; None: no message of theirs is kept."""

    id: str
    name: str
    names: list[str]
    last: float | None
    messages: int
    conversations: int
    memories: int
    deeds: int
    files: int


def operator_route(method: Method, path: str, answer: Answer | Follow, summary: str) -> AddonRoute:
    """Return a route for operators; the hints of the function that answers tell what it takes and gives."""
    hints = get_type_hints(answer)
    request, response = hints["asked"], hints["return"]
    streams = get_origin(response) is AsyncGenerator
    if streams:
        response = get_args(response)[0]
    request, response = (None if each is NoneType else each for each in (request, response))
    return AddonRoute(method, path, answer, summary, "operate", request, response, streams)


def talk_row(talk: ListedTalk, *, private: bool, hidden: bool, found: FoundRow | None = None) -> TalkRow:
    """Return a talk as it is listed. `hidden`: without a word that somebody wrote."""
    sums = asdict(talk.sums) | {"cost": round(talk.sums.cost, 9)}
    return TalkRow(
        address=talk.address,
        channel=talk.address.partition(":")[0],
        place=place_of(talk),
        name="" if hidden else talk.name,
        persona=talk.persona,
        model=talk.model,
        people=[] if hidden else list(talk.people),
        said="" if hidden else clipped(" ".join(talk.said.split()), _BEGINNING),
        first=talk.first,
        last=talk.last,
        messages=talk.messages,
        private=private,
        hidden=hidden,
        found=found,
        **sums,
    )


def place_of(talk: ListedTalk) -> str:
    """Return where a talk is: a channel of Discord, what a key lets in, or a channel of ours as a whole."""
    person, address = talk.circle.person, talk.address
    if address.startswith("discord:"):
        return ":".join(address.split(":")[:3])  # the bot and the channel
    if not person:
        return address.partition(":")[0]
    if person == LOCAL:
        return person
    parts = 3 if person.startswith(VISITOR) else 2  # of the id, as far as the key goes
    return ":".join(person.split(":")[:parts])


def person_row(known: Known) -> PersonRow:
    """Return a person as they are listed."""
    name = known.names[0] if known.names else ""
    return PersonRow(**asdict(known) | {"name": name, "last": known.last or None})


def names_of_personas(service: BotService) -> list[str]:
    """Return the names of the personas there are, each once."""
    return sorted({each.name for each in service.personas.values()}, key=str.casefold)


def cursor_of(number: float, name: str) -> str:
    """Return the place in a list behind a row, as a page sends it back."""
    return f"{number!r} {name}"


def place_behind(cursor: str) -> tuple[float, str] | None:
    """Return the place in a list that a cursor names; None for "".

    Raises:
        RouteError: 422, it is none.
    """
    if not cursor:
        return None
    number, _, name = cursor.partition(" ")
    try:
        return float(number), name
    except ValueError:
        why = f"{cursor[:60]!r} is no place in a list; send `next` as it came."
        raise RouteError(422, "No such page", why) from None


# Whose words are these: which talks are in private, and who may read them on the pages for operators.
#
# In private is every talk that nobody but one person reads besides the persona: direct messages, talks of
# visitors and of users of an application, and of programs that speak MCP. The talks of whoever sits at this
# machine are the operator's own. Of a talk of which too little is on record it is not known who reads it: it
# counts as private.


OPENED = "studio.open"
"""Name, in the record of what was done, for the opening of a talk in private."""

_TERMINAL = "terminal:"


async def private_among(store: Store, conversations: Iterable[str]) -> frozenset[str]:
    """Return those of these conversations that are in private."""
    wanted = {each for each in conversations if not each.startswith(_TERMINAL)}
    circles = await store.circles(wanted)
    return frozenset(
        address for address, circle in circles.items() if not (circle.group or circle.person == LOCAL)
    )


async def is_private(store: Store, conversation: str) -> bool:
    """Return True if a conversation is in private."""
    return bool(await private_among(store, [conversation]))


async def hidden_among(service: BotService, conversations: Iterable[str]) -> frozenset[str]:
    """Return those of these conversations whose words operators are not shown, by the settings."""
    if service.settings.studio.private:
        return frozenset()
    return await private_among(service.store, conversations)


async def may_read(service: BotService, caller: Caller, conversation: str, what: str) -> bool:
    """Return True if an operator may read a conversation; that a private one was opened is put on record.

    Args:
        service: has the settings and the store.
        caller: the operator.
        conversation: its address.
        what: is opened, for the record: `messages`, `export`, `live`, `why` or the like.
    """
    if not await is_private(service.store, conversation):
        return True
    if not service.settings.studio.private:
        return False
    persona = service.role(conversation).persona.name
    given = json.dumps({"what": what})
    deed = Deed(conversation, "", 0, persona, caller.person, OPENED, given)
    await service.store.audit_end(await service.store.audit_begin(deed), "done", 0.0)
    return True
