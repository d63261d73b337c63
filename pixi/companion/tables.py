"""The companion's data in tables of the store, on SQLite and PostgreSQL."""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from msgspec.structs import astuple

from pixi.companion.data import (
    MOST_DRAFTS,
    MOST_FOUND,
    KeyReused,
    ListedTrick,
    NewDraft,
    NewTricklist,
    NotFound,
    Spot,
    SpotDraft,
    SpotSearch,
    Status,
    Trick,
    Tricklist,
    TrickMatch,
    Unavailable,
    check_limit,
    check_names,
    checked_reason,
    decided_before,
    one_line,
)
from pixi.companion.names import NameFinder, best, fitting_spots, latitudes_within, plain
from pixi.core.errors import StoreError
from pixi.store.database import Database, select_many
from pixi.store.tables import Schema, Tables

T = TypeVar("T")

_SPOT = ", ".join(Spot.__struct_fields__[:-1])  # the last is of a search
_TRICK, _DRAFT = (", ".join(kind.__struct_fields__) for kind in (Trick, SpotDraft))
_WEIGHTS_OF_TRICK = (1.0, 0.5, 0.5, 0.3)
"""Weights of name, category, difficulty, and description."""
_FIRST_VERSION = (
    """CREATE TABLE companion_spots (
        id {text} PRIMARY KEY,
        name {text} NOT NULL,
        kind {text} NOT NULL,
        city {text} NOT NULL,
        state {text} NOT NULL,
        country {text} NOT NULL,
        latitude DOUBLE PRECISION,
        longitude DOUBLE PRECISION,
        description {text} NOT NULL,
        rating DOUBLE PRECISION,
        image_url {text} NOT NULL,
        created_by {text} NOT NULL
    )""",
    "CREATE INDEX companion_spots_by_latitude ON companion_spots (latitude)",
    # Its videos are lines.
    """CREATE TABLE companion_tricks (
        id {text} PRIMARY KEY,
        name {text} NOT NULL,
        category {text} NOT NULL,
        difficulty {text} NOT NULL,
        description {text} NOT NULL,
        videos {text} NOT NULL
    )""",
    # `key` is of the request that made it, so that the same request makes nothing twice.
    """CREATE TABLE companion_tricklists (
        id {text} PRIMARY KEY,
        person {text} NOT NULL,
        key {text} NOT NULL,
        name {text} NOT NULL,
        category {text} NOT NULL,
        created_by {text} NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        UNIQUE (person, key)
    )""",
    """CREATE TABLE companion_listed (
        tricklist {text} NOT NULL REFERENCES companion_tricklists (id),
        place BIGINT NOT NULL,
        trick {text} NOT NULL,
        checked INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (tricklist, place)
    )""",
    """CREATE TABLE companion_drafts (
        id {text} PRIMARY KEY,
        key {text} NOT NULL,
        name {text} NOT NULL,
        kind {text} NOT NULL,
        city {text} NOT NULL,
        state {text} NOT NULL,
        country {text} NOT NULL,
        latitude DOUBLE PRECISION,
        longitude DOUBLE PRECISION,
        maps_url {text} NOT NULL,
        description {text} NOT NULL,
        submitted_by {text} NOT NULL,
        submitted_via {text} NOT NULL,
        status {text} NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        decided_by {text} NOT NULL DEFAULT '',
        decided_at DOUBLE PRECISION NOT NULL DEFAULT 0,
        why {text} NOT NULL DEFAULT '',
        spot_id {text} NOT NULL DEFAULT '',
        told INTEGER NOT NULL DEFAULT 0,
        UNIQUE (submitted_by, key)
    )""",
    "CREATE INDEX companion_drafts_by_status ON companion_drafts (status, created_at)",
)


def _forget(db: Database, person: str) -> None:
    """Forget a person: their lists, and whose drafts theirs were. The spots that came of those stay."""
    db.execute(
        "DELETE FROM companion_listed WHERE tricklist IN"
        " (SELECT id FROM companion_tricklists WHERE person = ?)",
        (person,),
    )
    db.execute("DELETE FROM companion_tricklists WHERE person = ?", (person,))
    # The id in place of the key, since two that belong to nobody must not have the same.
    db.execute(
        "UPDATE companion_drafts SET submitted_by = '', key = id, description = '' WHERE submitted_by = ?",
        (person,),
    )
    db.execute("UPDATE companion_drafts SET decided_by = '' WHERE decided_by = ?", (person,))


def _told(db: Database, person: str) -> Any:
    """Return all that is kept of a person, as JSON data."""
    lists = [
        {
            "name": each.name,
            "category": each.category,
            "tricks": [{"name": trick.name, "checked": trick.checked} for trick in each.tricks],
        }
        for each in _tricklists(db, person)
    ]
    drafts = [
        {"name": each.name, "status": each.status, "description": each.description, "mapsUrl": each.maps_url}
        for each in _drafts(db, "WHERE submitted_by = ? ORDER BY created_at, id", (person,))
    ]
    told = {"tricklists": lists, "drafts": drafts}
    return {name: each for name, each in told.items() if each}


SCHEMA = Schema("companion", (_FIRST_VERSION,), _forget, _told)
"""The tables; see `Schema`."""


class CompanionTables:
    """`CompanionData` in tables of the store.

    Args:
        tables: opened by `SCHEMA`.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def search_spots(self, search: SpotSearch) -> tuple[Spot, ...]:
        """See `CompanionData.search_spots`."""
        spots = await self._read(lambda db: _spots_for(db, search))
        return await asyncio.to_thread(fitting_spots, spots, search)

    async def spot(self, spot_id: str) -> Spot | None:
        """See `CompanionData.spot`."""
        return await self._read(lambda db: _spot(db, spot_id))

    async def search_tricks(self, words: str, category: str = "", limit: int = 10) -> tuple[Trick, ...]:
        """See `CompanionData.search_tricks`."""
        check_limit(limit, MOST_FOUND)
        tricks = {trick.id: trick for trick in await self._read(lambda db: _tricks(db, category))}
        if not words.strip():
            return tuple(sorted(tricks.values(), key=lambda trick: trick.name)[:limit])
        texts = {
            trick.id: (trick.name, trick.category, trick.difficulty, trick.description)
            for trick in tricks.values()
        }
        found = await asyncio.to_thread(best, words, texts, _WEIGHTS_OF_TRICK)
        return tuple(tricks[trick_id] for trick_id in found[:limit])

    async def trick(self, trick_id: str) -> Trick | None:
        """See `CompanionData.trick`."""
        found = await self._read(lambda db: _tricks_of(db, [trick_id]))
        return found.get(trick_id)

    async def match_tricks(self, names: Sequence[str], category: str = "") -> tuple[TrickMatch, ...]:
        """See `CompanionData.match_tricks`."""
        check_names(names)
        by_name: dict[str, Trick] = {}
        for trick in await self._read(lambda db: _tricks(db, category)):
            by_name.setdefault(trick.name, trick)  # several sports may have a trick of one name

        def match() -> tuple[TrickMatch, ...]:
            known = NameFinder(by_name)
            found = ((name, *known.meant(name)) for name in names)
            return tuple(
                TrickMatch(asked, None if name is None else by_name[name], near)
                for asked, name, near in found
            )

        return await asyncio.to_thread(match)

    async def tricklists(self, person: str, name: str = "") -> tuple[Tricklist, ...]:
        """See `CompanionData.tricklists`."""
        lists = await self._read(lambda db: _tricklists(db, person))
        if not name.strip():
            return lists
        fitting = await asyncio.to_thread(best, name, {each.id: (each.name,) for each in lists}, (1.0,))
        by_id = {each.id: each for each in lists}
        return tuple(by_id[each] for each in fitting)

    async def tricklist(self, person: str, tricklist_id: str) -> Tricklist | None:
        """See `CompanionData.tricklist`."""
        lists = await self._read(lambda db: _tricklists(db, person))
        return next((each for each in lists if each.id == tricklist_id), None)

    async def create_tricklist(self, person: str, new: NewTricklist, key: str) -> Tricklist:
        """See `CompanionData.create_tricklist`."""
        made_id, now, trick_ids = _new_id(), time.time(), new.trick_ids

        def create(db: Database) -> Tricklist | str:
            tricks = _tricks_of(db, trick_ids)
            if missing := [trick_id for trick_id in trick_ids if trick_id not in tricks]:
                return missing[0]
            made = db.execute(
                "INSERT INTO companion_tricklists (id, person, key, name, category, created_by, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (person, key) DO NOTHING",
                (made_id, person, key, new.name, new.category, new.created_by, now),
            )
            if made.rowcount:
                db.executemany(
                    "INSERT INTO companion_listed (tricklist, place, trick) VALUES (?, ?, ?)",
                    [(made_id, place, trick_id) for place, trick_id in enumerate(trick_ids)],
                )
            (kept,) = db.execute(
                "SELECT id FROM companion_tricklists WHERE person = ? AND key = ?", (person, key)
            ).fetchone()
            return next(each for each in _tricklists(db, person) if each.id == kept)

        made = await self._write(create)
        if isinstance(made, str):
            raise NotFound(
                f"There is no trick of the id {one_line(made)[:60]!r}: search for the trick first."
            )
        return made

    async def create_draft(self, person: str, new: NewDraft, key: str) -> SpotDraft:
        """See `CompanionData.create_draft`."""
        made_id, now = _new_id(), time.time()

        def create(db: Database) -> SpotDraft:
            values = {each: getattr(new, each) for each in NewDraft.__struct_fields__}
            values |= {"id": made_id, "key": key, "submitted_by": person, "created_at": now}
            values["status"] = "pending_approval"
            db.execute(
                f"INSERT INTO companion_drafts ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
                " ON CONFLICT (submitted_by, key) DO NOTHING",
                tuple(values.values()),
            )
            (made,) = _drafts(db, "WHERE submitted_by = ? AND key = ?", (person, key))
            return made

        made = await self._write(create)
        if any(getattr(made, each) != getattr(new, each) for each in NewDraft.__struct_fields__):
            raise KeyReused(
                f"Another spot was submitted by the same key, {made.name!r}: send a key of its own with each."
            )
        return made

    async def draft(self, draft_id: str) -> SpotDraft | None:
        """See `CompanionData.draft`."""
        found = await self._read(lambda db: _drafts(db, "WHERE id = ?", (draft_id,)))
        return found[0] if found else None

    async def drafts(
        self, status: Status | None = "pending_approval", limit: int = 50, after: str = ""
    ) -> tuple[SpotDraft, ...]:
        """See `CompanionData.drafts`."""
        check_limit(limit, MOST_DRAFTS)

        def find(db: Database) -> tuple[SpotDraft, ...] | None:
            where, values = ["1 = 1"], list[object]()
            if status is not None:
                where.append("status = ?")
                values.append(status)
            if after:
                last = db.execute(
                    "SELECT created_at, id FROM companion_drafts WHERE id = ?", (after,)
                ).fetchone()
                if last is None:
                    return None
                where.append("(created_at, id) > (?, ?)")
                values += last
            chosen = f"WHERE {' AND '.join(where)} ORDER BY created_at, id LIMIT ?"
            return _drafts(db, chosen, (*values, limit))

        found = await self._read(find)
        if found is None:
            raise _no_draft(after)
        return found

    async def count_drafts(self, status: Status | None = "pending_approval") -> int:
        """Count the drafts of a status; None: of any."""
        where, values = ("WHERE status = ?", (status,)) if status else ("", ())
        count = f"SELECT count(*) FROM companion_drafts {where}"
        return await self._read(lambda db: int(db.execute(count, values).fetchone()[0]))

    async def approve(self, draft_id: str, by: str) -> SpotDraft:
        """See `CompanionData.approve`."""
        return await self._decide(draft_id, "approved", by, "", _new_id())

    async def reject(self, draft_id: str, by: str, why: str = "") -> SpotDraft:
        """See `CompanionData.reject`."""
        return await self._decide(draft_id, "rejected", by, checked_reason(why), "")

    async def _decide(
        self, draft_id: str, status: Literal["approved", "rejected"], by: str, why: str, spot_id: str
    ) -> SpotDraft:
        now = time.time()

        def decide(db: Database) -> SpotDraft | None:
            decided = db.execute(
                "UPDATE companion_drafts SET status = ?, decided_by = ?, decided_at = ?, why = ?, spot_id = ?"
                " WHERE id = ? AND status = 'pending_approval'",
                (status, by, now, why, spot_id, draft_id),
            )
            if decided.rowcount and spot_id:
                # Of the same transaction: an approved draft without its spot would never be found.
                db.execute(
                    f"INSERT INTO companion_spots ({_SPOT}) SELECT spot_id, name, kind, city, state, country,"
                    " latitude, longitude, description, NULL, '', submitted_via FROM companion_drafts"
                    " WHERE id = ?",
                    (draft_id,),
                )
            found = _drafts(db, "WHERE id = ?", (draft_id,))
            return found[0] if found else None

        draft = await self._write(decide)
        if draft is None:
            raise _no_draft(draft_id)
        if draft.status != status:
            raise decided_before(draft)
        return draft

    async def news(self, person: str) -> tuple[SpotDraft, ...]:
        """Return a person's drafts that were decided without their being told, the first decided first."""
        where = "WHERE submitted_by = ? AND status <> 'pending_approval' AND told = 0"
        return await self._read(lambda db: _drafts(db, f"{where} ORDER BY decided_at, id", (person,)))

    async def were_told(self, draft_ids: Sequence[str]) -> None:
        """Keep that whoever submitted these drafts was told of the decision."""
        if draft_ids:
            ids = [(draft_id,) for draft_id in draft_ids]
            await self._write(
                lambda db: db.executemany("UPDATE companion_drafts SET told = 1 WHERE id = ?", ids)
            )

    async def load(self, spots: Sequence[Spot], tricks: Sequence[Trick]) -> None:
        """Keep these spots and tricks; those of an id that is there take its place."""

        def load(db: Database) -> None:
            db.executemany(
                f"INSERT INTO companion_spots ({_SPOT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                f" ON CONFLICT (id) DO UPDATE SET {_in_place(_SPOT)}",
                [astuple(spot)[:-1] for spot in spots],
            )
            db.executemany(
                f"INSERT INTO companion_tricks ({_TRICK}) VALUES (?, ?, ?, ?, ?, ?)"
                f" ON CONFLICT (id) DO UPDATE SET {_in_place(_TRICK)}",
                [(*astuple(trick)[:-1], "\n".join(trick.videos)) for trick in tricks],
            )

        await self._write(load)

    async def _read(self, work: Callable[[Database], T]) -> T:
        try:
            return await self._tables.read(work)
        except StoreError as error:
            raise Unavailable("The data cannot be read just now. Try again later.") from error

    async def _write(self, work: Callable[[Database], T]) -> T:
        try:
            return await self._tables.write(work)
        except StoreError as error:
            raise Unavailable("Nothing can be kept just now, and nothing was. Try again later.") from error


def _spots_for(db: Database, search: SpotSearch) -> list[Spot]:
    """Return all spots of the kind; where a search has a middle, within its latitudes."""
    where, values = ["1 = 1"], list[object]()
    if search.kind is not None:
        where.append("kind = ?")
        values.append(search.kind)
    if search.latitude is not None:
        where.append("latitude BETWEEN ? AND ?")
        values += latitudes_within(search.latitude, search.within_km)
    found = db.execute(
        f"SELECT {_SPOT} FROM companion_spots WHERE {' AND '.join(where)} ORDER BY name, id", values
    )
    return [Spot(*row) for row in found]


def _spot(db: Database, spot_id: str) -> Spot | None:
    found = db.execute(f"SELECT {_SPOT} FROM companion_spots WHERE id = ?", (spot_id,)).fetchone()
    return None if found is None else Spot(*found)


def _tricks(db: Database, category: str) -> list[Trick]:
    """Return all tricks of a category, by its name in any case; "": of all."""
    found = db.execute(f"SELECT {_TRICK} FROM companion_tricks ORDER BY name, id")
    tricks = [_trick(row) for row in found]
    wanted = plain(category)
    return [trick for trick in tricks if not wanted or plain(trick.category).startswith(wanted)]


def _trick(row: Sequence[Any]) -> Trick:
    trick_id, name, category, difficulty, description, videos = row
    return Trick(trick_id, name, category, difficulty, description, tuple(videos.splitlines()))


def _tricks_of(db: Database, ids: Sequence[str]) -> dict[str, Trick]:
    found = select_many(db, f"SELECT {_TRICK} FROM companion_tricks WHERE id IN ({{}})", ids)
    return {row[0]: _trick(row) for row in found}


def _tricklists(db: Database, person: str) -> tuple[Tricklist, ...]:
    """Return all lists of a person, the latest first."""
    listed: dict[str, list[ListedTrick]] = defaultdict(list)
    for tricklist, trick, name, checked in db.execute(
        "SELECT tricklist, trick, companion_tricks.name, checked FROM companion_listed"
        " JOIN companion_tricklists ON companion_tricklists.id = tricklist"
        " JOIN companion_tricks ON companion_tricks.id = trick WHERE person = ? ORDER BY tricklist, place",
        (person,),
    ):
        listed[tricklist].append(ListedTrick(trick, name, bool(checked)))
    found = db.execute(
        "SELECT id, name, category, created_by, created_at FROM companion_tricklists WHERE person = ?"
        " ORDER BY created_at DESC, id",
        (person,),
    )
    return tuple(
        Tricklist(each, name, category, tuple(listed[each]), created_by, created_at)
        for each, name, category, created_by, created_at in found
    )


def _drafts(db: Database, which: str, values: Sequence[object]) -> tuple[SpotDraft, ...]:
    """Return the drafts that `which`, the end of a statement, chooses."""
    return tuple(
        SpotDraft(*row) for row in db.execute(f"SELECT {_DRAFT} FROM companion_drafts {which}", values)
    )


def _no_draft(draft_id: str) -> NotFound:
    return NotFound(f"There is no draft of the id {one_line(draft_id)[:60]!r}.")


def _in_place(columns: str) -> str:
    """Return what an upsert sets: all columns but the first, which is the id."""
    return ", ".join(f"{name} = excluded.{name}" for name in columns.split(", ")[1:])


def _new_id() -> str:
    """Return an id as MongoDB's are: 24 hexadecimal digits, which nobody guesses."""
    return secrets.token_hex(12)
