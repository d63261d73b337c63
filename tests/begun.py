"""Turns that a test puts on record by itself."""

from pixi.store.database import Connection
from pixi.store.statements import journal, leases
from pixi.store.store import Store


async def begun(
    store: Store,
    conversation: str,
    generation: int,
    persona: str,
    ids: tuple[str, ...],
    *,
    model: str = "",
    revision: int | None = None,
) -> int:
    """Own the conversation and begin a turn that answers these messages; gives its id."""
    lease = await store.lease(conversation)
    turn = await store.begin_turn(
        conversation, generation, persona, ids, model=model, revision=revision, lease=lease
    )
    return turn.turn


def begun_in(db: Connection, conversation: str, ids: tuple[str, ...], *, model: str = "") -> int:
    """Begin such a turn by the statements alone."""
    lease = leases.lease(db, conversation, take=False)
    (begun,) = journal.begin_turns(db, [journal.Beginning(conversation, 0, "pixi", ids, lease, model)])
    return begun.turn
