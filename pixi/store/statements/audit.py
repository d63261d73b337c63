"""The record of what tools changed in the world: for whom, when, and what came of it."""

import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import astuple, replace

from pixi.core.errors import OverQuota
from pixi.core.spending import UsageEntry
from pixi.store.database import Connection, Database
from pixi.store.kept import AuditOutcome, AuditRecord, Deed, Quota
from pixi.store.statements.leases import check_owned
from pixi.store.statements.rows import OVERTAKEN, as_utf8
from pixi.store.statements.usage import spend

_COLUMNS = (
    "id, began, seconds, outcome, conversation, guild, turn, persona, person, tool, arguments, approved_by"
)
_LONGEST_ARGUMENTS = 4_000  # characters kept; the rest is not on record, and that is


def begin(
    db: Connection, deed: Deed, *, spent: Collection[UsageEntry] = (), quota: Quota | None = None
) -> int:
    """Record what a tool is about to do, and enter what that uses; return the number for `end`.

    `OverQuota`, and it is not to be done, if the person had as much done as `quota` says. Of a deed that is
    known, where `quota` wants it once, it gives the number that it has.
    `StoreOutdated`, and it is not to be done, if the turn was ended, or another store owns the conversation
    by now.
    """
    if quota is not None:
        if quota.once and (again := _known(db, deed, quota.seconds)) is not None:
            return again
        _check_quota(db, deed.person, quota)
    spend(db, spent)
    check_owned(db, [(deed.turn, None)])
    if _is_overtaken(db, deed.turn):
        deed = replace(deed, person="", arguments="", approved_by="")
    told = replace(
        deed,
        person=as_utf8(deed.person),
        arguments=as_utf8(_clipped(deed.arguments)),
        approved_by=as_utf8(deed.approved_by),
    )
    (number,) = db.execute(
        "INSERT INTO audit"
        " (began, conversation, guild, turn, persona, person, tool, arguments, approved_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (time.time(), *astuple(told)),
    ).fetchone()
    return int(number)


def _check_quota(db: Database, person: str, quota: Quota) -> None:
    """Check that something more may be changed for a person.

    Raises:
        OverQuota: no.
    """
    now = time.time()
    marks = ", ".join("?" * len(quota.tools))
    found = db.execute(
        f"SELECT began FROM audit WHERE person = ? AND began > ? AND tool IN ({marks})"
        " AND coalesce(outcome, '') NOT IN ('denied', 'failed') ORDER BY began DESC LIMIT ?",
        (as_utf8(person), now - quota.seconds, *quota.tools, quota.writes),
    ).fetchall()
    if len(found) == quota.writes:
        (oldest,) = found[-1]
        raise OverQuota(oldest + quota.seconds - now)


def _known(db: Database, deed: Deed, seconds: float) -> int | None:
    """Return the number of the same deed within the last `seconds` that was done, or may have been; None for
    none."""
    found = db.execute(
        "SELECT id FROM audit WHERE person = ? AND began > ? AND tool = ? AND arguments = ?"
        " AND coalesce(outcome, '') NOT IN ('denied', 'failed')",
        (as_utf8(deed.person), time.time() - seconds, deed.tool, as_utf8(_clipped(deed.arguments))),
    ).fetchone()
    return None if found is None else int(found[0])


def end(db: Database, number: int, outcome: AuditOutcome, seconds: float) -> None:
    """Record the outcome of a deed, and how long it took. The first outcome stands."""
    db.execute(
        "UPDATE audit SET outcome = ?, seconds = ? WHERE id = ? AND outcome IS NULL",
        (outcome, seconds, number),
    )


def latest(db: Database, limit: int) -> tuple[AuditRecord, ...]:
    """Return the last deeds, oldest first."""
    found = db.execute(f"SELECT {_COLUMNS} FROM audit ORDER BY id DESC LIMIT ?", (max(0, limit),)).fetchall()
    return tuple(map(_record, reversed(found)))


def changes_of(db: Database, turn: int) -> tuple[AuditRecord, ...]:
    """Return what tools changed in a turn, or may have: also deeds of which no outcome is known."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM audit WHERE turn = ? AND coalesce(outcome, '') NOT IN ('denied', 'failed')"
        " ORDER BY id",
        (turn,),
    )
    return tuple(map(_record, found))


def forget_in_audit(db: Database, person: str) -> None:
    """Keep that something was done on a person's behalf, without the person and the arguments."""
    db.execute("UPDATE audit SET person = '', arguments = '' WHERE person = ?", (person,))
    db.execute("UPDATE audit SET approved_by = '' WHERE approved_by = ?", (person,))


def forget_arguments(db: Database, conversation: str) -> None:
    """Forget what the tools were given in a conversation: those are words of its talk."""
    db.execute("UPDATE audit SET arguments = '' WHERE conversation = ? AND arguments <> ''", (conversation,))


def _is_overtaken(db: Database, turn: int) -> bool:
    """Return True if nothing is to be left of a turn: somebody in it was forgotten, or all of it was."""
    found = db.execute(
        "SELECT turns.generation, coalesce(conversations.generation, 0) FROM turns"
        " LEFT JOIN conversations ON address = conversation WHERE id = ?",
        (turn,),
    ).fetchone()
    return found is not None and (found[0] == OVERTAKEN or found[0] < found[1])


def forget_words_in_audit(db: Database, is_told: Callable[[int, str], bool]) -> None:
    """Forget arguments that may tell of somebody on whose behalf alone it was not done.

    Args:
        db: the database.
        is_told: says so of a turn and arguments.
    """
    found = db.execute("SELECT id, turn, arguments FROM audit WHERE arguments <> ''").fetchall()
    db.executemany(
        "UPDATE audit SET arguments = '' WHERE id = ?",
        [(number,) for number, turn, arguments in found if is_told(turn, arguments)],
    )


def export_audit(db: Database, person: str) -> list[dict[str, Any]]:
    """Return what was done on a person's behalf, as plain data."""
    found = db.execute(
        "SELECT began, conversation, persona, tool, arguments, outcome FROM audit"
        " WHERE person = ? ORDER BY id",
        (person,),
    )
    return [
        {
            "time": datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
            "conversation": conversation,
            "persona": persona,
            "tool": tool,
            "arguments": arguments,
            "outcome": outcome or "unknown",
        }
        for began, conversation, persona, tool, arguments, outcome in found
    ]


def _record(row: tuple[Any, ...]) -> AuditRecord:
    number, began, seconds, outcome, *deed = row
    return AuditRecord(number, began, seconds, outcome, Deed(*deed))


def _clipped(arguments: str) -> str:
    more = len(arguments) - _LONGEST_ARGUMENTS
    return arguments if more <= 0 else f"{arguments[:_LONGEST_ARGUMENTS]} [{more} characters more]"
