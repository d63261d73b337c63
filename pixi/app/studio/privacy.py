"""Whose words are these: which talks are in private, and who may read them on the pages for operators.

In private is every talk that nobody but one person reads besides the persona: direct messages, talks of
visitors and of users of an application, and of programs that speak MCP. The talks of whoever sits at this
machine are the operator's own. Of a talk of which too little is on record it is not known who reads it: it
counts as private.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pixi.channels.http.access import LOCAL
from pixi.store.kept import Deed

if TYPE_CHECKING:
    from pixi.app.household import Household
    from pixi.core.routes import Caller
    from pixi.store.store import Store

OPENED = "studio.open"
"""What the opening of a talk in private is called in the record of what was done."""

_TERMINAL = "terminal:"


async def private_among(store: "Store", conversations: Iterable[str]) -> frozenset[str]:
    """Return those of these conversations that are in private."""
    wanted = {each for each in conversations if not each.startswith(_TERMINAL)}
    circles = await store.circles(wanted)
    return frozenset(
        address for address, circle in circles.items() if not (circle.group or circle.person == LOCAL)
    )


async def is_private(store: "Store", conversation: str) -> bool:
    """Return True if a conversation is in private."""
    return bool(await private_among(store, [conversation]))


async def hidden_among(house: "Household", conversations: Iterable[str]) -> frozenset[str]:
    """Return those of these conversations whose words operators are not shown, by the settings."""
    if house.settings.studio.private:
        return frozenset()
    return await private_among(house.store, conversations)


async def may_read(house: "Household", caller: "Caller", conversation: str, what: str) -> bool:
    """Return True if an operator may read a conversation; that a private one was opened is put on record.

    Args:
        house: has the settings and the store.
        caller: the operator.
        conversation: its address.
        what: is opened, for the record: `messages`, `export`, `live`, `why` or the like.
    """
    if not await is_private(house.store, conversation):
        return True
    if not house.settings.studio.private:
        return False
    persona = house.role(conversation).persona.name
    given = json.dumps({"what": what})
    deed = Deed(conversation, "", 0, persona, caller.person, OPENED, given)
    await house.store.audit_end(await house.store.audit_begin(deed), "done", 0.0)
    return True
