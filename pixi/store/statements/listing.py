"""Lists for operators: talks, people and memories, by pages; and looks for words in a talk."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from pixi.core.language import SEND
from pixi.core.memory import Memory
from pixi.core.message import Author
from pixi.store.database import Database, select_many
from pixi.store.kept import Circle, FoundWords, ListedTalk, TalkFilter, TurnSums
from pixi.store.statements import memories
from pixi.store.statements.branches import trunk
from pixi.store.statements.inbox import under
from pixi.store.statements.rows import unpack_message, unpack_text

_LOOKED_AT = 50  # of the last messages of a talk, for who takes part
_TURNS_AT_ONCE = 200  # of a talk in which words are looked for
_FACTS_SHOWN = 100
_FACTS_AT_ONCE = 2_000  # in which words are looked for

_SUMS = (
    "count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(cached_tokens), 0),"
    " coalesce(sum(completion_tokens), 0), coalesce(sum(cost), 0), count(CASE WHEN cost IS NULL THEN 1 END)"
)
_PEOPLE = (
    ("messages", "author"),
    *((table, "person") for table in ("memories", "talks", "files", "usage", "audit")),
)


def talks(
    db: Database, wanted: TalkFilter, limit: int, before: tuple[float, str] | None = None
) -> tuple[ListedTalk, ...]:
    """Return the conversations that a filter lets through, the latest first, without branches.

    `before`: only those behind the one that has this `last` and this address.

    It costs as much as there are talks, however much was said in them.
    """
    told = [each for each in _talks(db, wanted) if before is None or each < before]
    return tuple(_listed(db, last, address) for last, address in sorted(told, reverse=True)[:limit])


def talk(db: Database, conversation: str) -> ListedTalk | None:
    """Return a conversation, or a branch of one, as it is listed; None if nothing was ever said there."""
    found = db.execute(
        "SELECT sent_at FROM messages WHERE conversation = ? ORDER BY number DESC LIMIT 1", (conversation,)
    ).fetchone()
    return None if found is None else _listed(db, float(found[0]), conversation)


def _talks(db: Database, wanted: TalkFilter) -> Iterator[tuple[float, str]]:
    """Yield when something came last in each talk that fits, and its address."""
    found = db.execute(
        f"{_each('messages', 'conversation', ' AND conversation >= ? AND conversation < ?')}"
        " SELECT one, talks.person,"
        " (SELECT sent_at FROM messages WHERE conversation = one ORDER BY number DESC LIMIT 1),"
        " (SELECT turns.persona FROM turns WHERE conversation = one ORDER BY id DESC LIMIT 1)"
        " FROM each_one LEFT JOIN talks ON talks.address = one WHERE one IS NOT NULL",
        (*under(wanted.prefix), *under(wanted.prefix)),
    ).fetchall()
    among = _with_messages(db, wanted)
    for address, owner, last, persona in found:
        if trunk(address) != address:
            continue
        if among is not None and address not in among:
            continue
        if wanted.persona and persona != wanted.persona:
            continue
        if wanted.place and not any(_is_at(name, wanted.place) for name in (address, owner) if name):
            continue
        yield float(last), address


def _is_at(name: str, place: str) -> bool:
    """Return True if an address, or the id of a person, begins with a place up to a colon."""
    return f"{name}:".startswith(f"{place.rstrip(':')}:")


def _with_messages(db: Database, wanted: TalkFilter) -> set[str] | None:
    """Return the talks in which the person wrote, and on the day; None where neither is asked for."""
    among: list[set[str]] = []
    if wanted.person:
        asked = (
            "SELECT DISTINCT conversation FROM messages WHERE author = ?"
            " UNION SELECT address FROM talks WHERE person = ?"
        )
        among.append({address for (address,) in db.execute(asked, (wanted.person, wanted.person))})
    if wanted.since is not None and wanted.until is not None:
        asked = (
            "SELECT DISTINCT conversation FROM messages"
            " WHERE author IS NOT NULL AND sent_at >= ? AND sent_at < ?"
        )
        among.append({address for (address,) in db.execute(asked, (wanted.since, wanted.until))})
    return set.intersection(*among) if among else None


def _each(table: str, column: str, narrowed: str = "") -> str:
    """Return a query of each value of an indexed column, as `one` of `each_one`, with a last one that is
    NULL.

    It goes from one value to the next by the index, and so reads no more rows than there are values.
    """
    least = f"SELECT min({column}) FROM {table} WHERE {column} >"
    return (
        f"WITH RECURSIVE each_one (one) AS ({least} ''{narrowed}"
        f" UNION ALL SELECT ({least} one{narrowed}) FROM each_one WHERE one IS NOT NULL)"
    )


def _listed(db: Database, last: float, address: str) -> ListedTalk:
    messages, first = db.execute(
        "SELECT count(body), min(sent_at) FROM messages WHERE conversation = ?", (address,)
    ).fetchone()
    sums = db.execute(f"SELECT {_SUMS} FROM turns WHERE conversation = ?", (address,)).fetchone()
    written = db.execute(
        "SELECT persona, model FROM turns WHERE conversation = ? ORDER BY id DESC LIMIT 1", (address,)
    ).fetchone()
    owner = db.execute("SELECT person, name FROM talks WHERE address = ?", (trunk(address),)).fetchone()
    bodies = db.execute(
        "SELECT body FROM messages WHERE conversation = ? AND body IS NOT NULL ORDER BY number DESC LIMIT ?",
        (address, _LOOKED_AT),
    )
    latest = [unpack_message(body) for (body,) in bodies]
    person, name = owner or ("", "")
    persona, model = written or ("", "")
    return ListedTalk(
        address=address,
        circle=Circle(bool(latest) and latest[0].group, person),
        name=name,
        persona=persona,
        model=model,
        people=tuple({each.author.id: each.author for each in reversed(latest)}.values()),
        said=latest[0].text if latest else "",
        first=float(first),
        last=last,
        messages=int(messages),
        sums=_sums(sums),
    )


def find_words(
    db: Database, conversation: str, words: Sequence[str], before: int | None = None
) -> FoundWords:
    """Look for a message in which all these words stand, in a portion of a talk, the latest turns first.

    Args:
        words: casefolded.
        before: only in turns before this one; None: also in what waits.
    """
    found: list[tuple[int, Author | None, str]] = []
    if before is None:
        waiting = db.execute(
            "SELECT body FROM messages WHERE conversation = ? AND turn IS NULL AND body IS NOT NULL"
            " ORDER BY number DESC",
            (conversation,),
        )
        found += [(0, said.author, said.text) for said in (unpack_message(body) for (body,) in waiting)]
    asked = db.execute(
        "SELECT id FROM turns WHERE conversation = ? AND id < ? ORDER BY id DESC LIMIT ?",
        (conversation, 2**63 - 1 if before is None else before, _TURNS_AT_ONCE),
    )
    turns = [turn for (turn,) in asked]
    statement = (
        "SELECT turn, body FROM messages WHERE turn IN ({}) AND body IS NOT NULL ORDER BY position DESC"
    )
    for turn, body in select_many(db, statement, turns):
        said = unpack_message(body)
        found.append((turn, said.author, said.text))
    statement = (
        f"SELECT turn, payload FROM effects WHERE turn IN ({{}}) AND kind = '{SEND}' AND outcome = 'done'"
    )
    for turn, payload in select_many(db, statement, turns):
        found.append((turn, None, unpack_text(payload)))
    fits = [(turn, author, text) for turn, author, text in found if _says(text, words)]
    left = turns[-1] if len(turns) == _TURNS_AT_ONCE else None
    if not fits:
        return FoundWords(None, None, "", left)
    turn, author, text = max(fits, key=lambda each: each[0] or 2**63)  # the latest; what waits is later yet
    return FoundWords(turn, author, text, left)


def _says(text: str, words: Iterable[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def people(
    db: Database, name: str, limit: int, before: tuple[int, str] | None = None
) -> tuple[tuple[int, str], ...]:
    """Return a place and an id of everybody of whom something is kept, the last writer first.

    `name`: only those in whose id or latest name this stands; `before`: only those behind this one.
    """
    every: set[str] = set()
    for table, column in _PEOPLE:
        every |= {
            one for (one,) in db.execute(f"{_each(table, column)} SELECT one FROM each_one").fetchall() if one
        }
    last = sorted(((_last_of(db, person), person) for person in every), reverse=True)
    wanted = name.strip().casefold()
    told: list[tuple[int, str]] = []
    for place, person in last:
        if (before is None or (place, person) < before) and _is_called(db, person, wanted):
            told.append((place, person))
            if len(told) == limit:
                break
    return tuple(told)


def _last_of(db: Database, person: str) -> int:
    found = db.execute(
        "SELECT position FROM messages WHERE author = ? ORDER BY position DESC LIMIT 1", (person,)
    ).fetchone()
    return int(found[0]) if found else 0


def _is_called(db: Database, person: str, wanted: str) -> bool:
    return wanted in person.casefold() or wanted in names_of(db, [person])[person].casefold()


def names_of(db: Database, persons: Collection[str]) -> dict[str, str]:
    """Return the name under which each of these people wrote last; "" if no message of theirs is kept."""
    names: dict[str, str] = {}
    for person in persons:
        found = db.execute(
            "SELECT body FROM messages WHERE author = ? AND body IS NOT NULL ORDER BY position DESC LIMIT 1",
            (person,),
        ).fetchone()
        names[person] = unpack_message(found[0]).author.name if found else ""
    return names


def facts(
    db: Database, person: str, persona: str, words: Sequence[str], before: int | None = None
) -> tuple[tuple[Memory, ...], int | None]:
    """Return facts that personas remember, the latest first, out of a portion; and where the next one
    begins.

    Args:
        person: of this one alone; "": of everybody.
        persona: of this one's alone, by name; "": of all.
        words: that all stand in it, casefolded.
        before: only facts with a lower number.
    """
    most = _FACTS_AT_ONCE if words else _FACTS_SHOWN
    found = memories.page(db, person, persona, before, most)
    left = found[-1].id if len(found) == most else None
    return tuple(fact for fact in found if _says(fact.text, words)), left


def by_persona(db: Database, since: float, until: float) -> dict[str, TurnSums]:
    """Add up the turns of each persona that began in a time, by its name."""
    found = db.execute(
        f"SELECT persona, {_SUMS} FROM turns WHERE began >= ? AND began < ? GROUP BY persona"
        " ORDER BY persona",
        (since, until),
    )
    return {persona: _sums(sums) for persona, *sums in found}


def _sums(row: Sequence[Any]) -> TurnSums:
    turns, prompt, cached, completion, cost, unpriced = row
    return TurnSums(int(turns), int(prompt), int(cached), int(completion), float(cost), int(unpriced))
