"""The journal: turns, the acts on record, and the lines that they leave in the history."""

import time
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs
from msgspec.structs import replace

from pixi.core.conversation import Bounds
from pixi.core.errors import StoreError, StoreOutdated
from pixi.core.events import Finish
from pixi.core.language import Planned
from pixi.core.llm import Line, Usage
from pixi.core.message import Message
from pixi.core.spending import UsageEntry
from pixi.store.database import (
    Connection,
    Database,
    apart,
    change_many,
    execute_values,
    marks,
    portions,
    select_many,
)
from pixi.store.framing import Framing
from pixi.store.kept import (
    Begun,
    CommandOutcome,
    Effect,
    Mark,
    Outcome,
    PlannedCommand,
    SavedConversation,
    UnfinishedTurn,
)
from pixi.store.statements import windows
from pixi.store.statements.audit import changes_of
from pixi.store.statements.leases import check_owned, generation_of, revision_of, revisions_of
from pixi.store.statements.rows import (
    OVERTAKEN,
    Fetch,
    keep_pictures,
    kind_of,
    pack_framing,
    pack_line,
    pack_text,
    picture_fetcher,
    unpack_message,
    unpack_text,
)
from pixi.store.statements.usage import spend


def load(db: Database, conversation: str, context_tokens: int | None = None) -> SavedConversation:
    """Load a conversation, from where the window of a model of so many tokens begins; None: all of it."""
    generation = generation_of(db, conversation)
    fetch = picture_fetcher(db, conversation)
    bounds = Bounds(0) if context_tokens is None else windows.bounds_of(db, conversation, context_tokens)
    return SavedConversation(
        generation,
        turns=windows.turns_from(db, conversation, bounds.first_turn, fetch),
        waiting=waiting(db, conversation),
        unfinished=unfinished(db, conversation),
        bounds=bounds,
        summary=windows.summary_of(db, conversation),
        revision=revision_of(db, conversation),
    )


def waiting(db: Database, conversation: str) -> tuple[Message, ...]:
    """Return the messages of a conversation that no turn has, oldest first."""
    found = db.execute(
        "SELECT position, body, number, 0 FROM messages"
        " WHERE conversation = ? AND turn IS NULL AND body IS NOT NULL"
        " UNION ALL SELECT position, body, number, 1 FROM messages"
        " WHERE conversation = ? AND again = 0 AND body IS NOT NULL ORDER BY 1",
        (conversation, conversation),
    )
    return _messages(found, picture_fetcher(db, conversation))


def unfinished(db: Database, conversation: str) -> tuple[UnfinishedTurn, ...]:
    """Return the turns of a conversation that were not ended, see `SavedConversation`."""
    turns = db.execute(
        "SELECT id, generation, lease FROM turns WHERE conversation = ? AND finish IS NULL ORDER BY id",
        (conversation,),
    ).fetchall()
    if not turns:
        return ()
    generation = generation_of(db, conversation)
    fetch = picture_fetcher(db, conversation)
    return tuple(
        _unfinished(db, conversation, turn, fetch)
        if begun == generation
        else UnfinishedTurn(turn, (), (), lease=lease)
        for turn, begun, lease in turns
    )


def _unfinished(db: Database, conversation: str, turn: int, fetch: Fetch) -> UnfinishedTurn:
    lease, mark = db.execute("SELECT lease, mark FROM turns WHERE id = ?", (turn,)).fetchone()
    messages = db.execute(
        "SELECT position, body, number, 0 FROM messages WHERE turn = ? AND body IS NOT NULL"
        " UNION ALL SELECT position, body, number, 1 FROM messages"
        " WHERE again = ? AND conversation = ? AND body IS NOT NULL ORDER BY 1",
        (turn, turn, conversation),
    )
    answered = db.execute(
        "SELECT id FROM messages WHERE conversation = ? AND (turn = ? OR again = ?) AND addressed = 1"
        " ORDER BY position DESC LIMIT 1",
        (conversation, turn, turn),
    ).fetchone()
    commands = db.execute(
        "SELECT number, name, argument, target, outcome FROM commands WHERE turn = ? ORDER BY number", (turn,)
    )
    return UnfinishedTurn(
        turn,
        messages=_messages(messages, fetch),
        effects=effects_of(db, turn),
        deeds=changes_of(db, turn),
        commands=tuple(
            PlannedCommand(number, name, unpack_text(argument), target, outcome)
            for number, name, argument, target, outcome in commands
        ),
        lease=lease,
        mark=mark,
        answered=answered[0] if answered else "",
    )


def _messages(rows: Iterable[tuple[int, bytes, int, int]], fetch: Fetch) -> tuple[Message, ...]:
    found = ((unpack_message(body, number, fetch), again) for _, body, number, again in rows)
    return tuple(replace(message, again=True) if again else message for message, again in found)


def effects_of(db: Database, turn: int) -> tuple[Effect, ...]:
    """Return the acts of a turn that are on record, in order."""
    effects = db.execute(
        "SELECT sequence, kind, payload, outcome, platform_id, target, command FROM effects"
        " WHERE turn = ? ORDER BY sequence",
        (turn,),
    )
    return tuple(
        Effect(turn, sequence, kind, unpack_text(payload), outcome, platform_id, target, command)
        for sequence, kind, payload, outcome, platform_id, target, command in effects
    )


class Beginning(Struct, frozen=True):
    """A turn to begin, see `Store.begin_turn`."""

    conversation: str
    generation: int
    persona: str
    message_ids: tuple[str, ...]
    lease: int
    model: str = ""
    revision: int | None = None


def begin_turns(db: Connection, beginnings: list[Beginning]) -> list[Begun]:
    """Record turns and take their messages out of the waiting, as far as they are there."""
    return [
        begun
        for some in apart([_as_kept(db, each) for each in beginnings], lambda each: each.conversation)
        for begun in _begun(db, some)
    ]


def _as_kept(db: Connection, beginning: Beginning) -> Beginning:
    kept = db.as_kept(beginning.conversation)
    return beginning if kept == beginning.conversation else structs.replace(beginning, conversation=kept)


def _begun(db: Connection, beginnings: list[Beginning]) -> list[Begun]:
    """Begin turns of different conversations."""
    revisions = revisions_of(db, [each.conversation for each in beginnings if each.revision is not None])
    for each in beginnings:
        if each.revision is not None and revisions.get(each.conversation, 0) > each.revision:
            raise StoreOutdated(f"Words were taken out of {each.conversation!r} meanwhile.")
    now = time.time()
    inserted = db.execute(
        "INSERT INTO turns (conversation, generation, persona, model, began, lease)"
        " SELECT news.column1, news.column2, news.column3, news.column4, news.column5, leases.number"
        f" FROM (VALUES {marks(len(beginnings), 6)}) AS news"
        " JOIN leases ON leases.conversation = news.column1 AND leases.number = news.column6"
        " RETURNING conversation, id",
        [
            value
            for each in beginnings
            for value in (each.conversation, each.generation, each.persona, each.model, now, each.lease)
        ],
    )
    turns: dict[str, int] = dict(inserted.fetchall())
    for each in beginnings:
        if each.conversation not in turns:
            raise StoreOutdated(f"Another process owns {each.conversation!r} by now.")
    wanted = [
        (turns[each.conversation], each.conversation, message_id)
        for each in beginnings
        for message_id in dict.fromkeys(each.message_ids)
    ]
    taken: dict[str, dict[str, bool]] = {each.conversation: {} for each in beginnings}
    taking = (
        "UPDATE messages SET turn = coalesce(turn, news.column1),"
        " again = CASE WHEN turn IS NOT NULL THEN news.column1 END FROM (VALUES {}) AS news"
        " WHERE conversation = news.column2 AND id = news.column3 AND (turn IS NULL OR again = 0)"
        " RETURNING conversation, id, author IS NULL AND body IS NULL"
    )
    for _, found in execute_values(db, taking, wanted):
        for conversation, message_id, is_forgotten in found.fetchall():
            taken[conversation][message_id] = bool(is_forgotten)
    begun: list[Begun] = []
    for each in beginnings:
        turn, ids = turns[each.conversation], taken[each.conversation]
        if each.message_ids and not ids:
            raise StoreOutdated(
                f"None of these messages of {each.conversation!r} waits for an answer any more."
            )
        if any(ids.values()):  # forgotten just now, while whoever asks still has it in mind
            db.execute("UPDATE turns SET generation = ? WHERE id = ?", (OVERTAKEN, turn))
        begun.append(Begun(turn, tuple(name for name in each.message_ids if db.as_kept(name) in ids)))
    return begun


class Intent(Struct, frozen=True):
    """An act that is about to be performed; with an outcome, one that is performed by being on record."""

    turn: int
    sequence: int
    kind: str
    payload: str
    target: int = 0
    command: int | None = None
    outcome: Outcome | None = None
    lease: int | None = None


class Settlement(Struct, frozen=True):
    """The outcome of an act."""

    turn: int
    sequence: int
    outcome: Outcome
    platform_id: str | None


class Plan(Struct, frozen=True):
    """Commands of a turn that closed, see `Store.plan`."""

    turn: int
    commands: Sequence[Planned]
    lease: int | None = None


class CommandEnd(Struct, frozen=True):
    """The outcome of a planned command."""

    turn: int
    number: int
    outcome: CommandOutcome
    lease: int | None = None


Entry = Intent | Settlement | Plan | CommandEnd


def record(db: Connection, entries: list[Entry]) -> list[None]:
    """Record what turns plan and do, in order as far as the same command or act is concerned.

    But for outcomes of acts, nothing is recorded of a turn that was ended, or whose conversation another
    store owns by now: so nothing is done.
    """
    check_owned(db, {(entry.turn, entry.lease) for entry in entries if not isinstance(entry, Settlement)})
    plans: list[Plan] = []
    intents: list[Intent] = []
    settlements: list[Settlement] = []
    ends: dict[tuple[int, int], CommandOutcome] = {}
    for entry in entries:
        # Many are written at once: to look at the type is far quicker than a `match`, or `isinstance`.
        if type(entry) is Intent:
            intents.append(entry)
        elif type(entry) is Settlement:
            settlements.append(entry)
        elif type(entry) is CommandEnd:
            ends[entry.turn, entry.number] = entry.outcome
        elif type(entry) is Plan:
            plans.append(entry)
    planned = []
    for plan in plans:
        for command in plan.commands:
            # One that ended meanwhile is written with its outcome at once.
            outcome_yet = ends.pop((plan.turn, command.number), None)
            argument = pack_text(command.argument)
            planned.append((plan.turn, command.number, command.name, argument, command.target, outcome_yet))
    execute_values(
        db, "INSERT INTO commands (turn, number, name, argument, target, outcome) VALUES {}", planned
    )
    acts = [
        (a.turn, a.sequence, a.kind, pack_text(a.payload), a.target, a.command, a.outcome) for a in intents
    ]
    execute_values(
        db, "INSERT INTO effects (turn, sequence, kind, payload, target, command, outcome) VALUES {}", acts
    )
    _settle(db, settlements)
    ended = (
        "UPDATE commands SET outcome = news.column3 FROM (VALUES {}) AS news"
        " WHERE turn = news.column1 AND number = news.column2"
    )
    for portion, done in execute_values(db, ended, [(*key, outcome) for key, outcome in ends.items()]):
        if done.rowcount != len(portion):
            turn, number = portion[0][:2]
            raise StoreError(f"There is no command {number} of turn {turn} on record.")
    return [None] * len(entries)


def _settle(db: Database, settlements: list[Settlement]) -> None:
    """Record outcomes of acts. The first one stands: the process that recovered the turn has told of it."""
    first: dict[tuple[int, int], Settlement] = {}
    for settlement in settlements:
        first.setdefault((settlement.turn, settlement.sequence), settlement)
    settled = (
        "UPDATE effects SET outcome = news.column3, platform_id = news.column4 FROM (VALUES {}) AS news"
        " WHERE turn = news.column1 AND sequence = news.column2 AND outcome IS NULL"
    )
    rows = [(*key, one.outcome, one.platform_id) for key, one in first.items()]
    for portion, done in execute_values(db, settled, rows):
        if done.rowcount != len(portion):
            for turn, sequence, *_ in portion:
                _check_on_record(db, turn, sequence)


def _check_on_record(db: Database, turn: int, sequence: int) -> None:
    found = db.execute("SELECT 1 FROM effects WHERE turn = ? AND sequence = ?", (turn, sequence))
    if found.fetchone() is None:
        raise StoreError(f"There is no act {sequence} of turn {turn} on record.")


def mark_turn(db: Connection, turn: int, mark: Mark, lease: int | None = None) -> None:
    """Note how a turn will end. One that is stopped stays so, and what it planned is dropped."""
    check_owned(db, [(turn, lease)])
    db.execute("UPDATE turns SET mark = ? WHERE id = ? AND coalesce(mark, '') <> 'stopped'", (mark, turn))
    if mark == "stopped":
        db.execute("UPDATE commands SET outcome = 'dropped' WHERE turn = ? AND outcome IS NULL", (turn,))


class Ending(Struct, frozen=True):
    """A turn to end, see `Store.end_turn`."""

    turn: int
    lines: tuple[Line, ...]
    finish: Finish
    steps: int
    usage: Usage
    cost: float | None = None
    model: str | None = None
    spent: Sequence[UsageEntry] = ()
    window: Bounds | None = None
    again: Sequence[str] = ()
    framing: Framing | None = None
    lease: int | None = None


def end_turns(db: Connection, endings: list[Ending]) -> list[bool]:
    """End turns and append their lines; False for one that is not to be ended, or not all of it."""
    spend(db, [spent for ending in endings for spent in ending.spent])
    return [ended for some in apart(endings, lambda ending: ending.turn) for ended in _ended(db, some)]


class _OpenTurn(Struct, frozen=True):
    """A turn as it is on record before it ends."""

    conversation: str
    finish: Finish | None
    owner: int  # of its conversation; -1: nobody
    lease_now: int | None  # the number of the conversation's lease; None: it has none
    began_under: int  # the number of the lease that the turn began under
    overtaken: bool  # by a reset, or by somebody who is forgotten: nothing of it is to be left


def _ended(db: Connection, endings: list[Ending]) -> list[bool]:
    """End different turns."""
    asked = (
        "SELECT turns.id, turns.conversation, finish, coalesce(owner, -1), number, lease,"
        " turns.generation <> coalesce(conversations.generation, 0) FROM turns"
        " LEFT JOIN leases ON leases.conversation = turns.conversation"
        " LEFT JOIN conversations ON address = turns.conversation WHERE id IN ({})"
    )
    found = select_many(db, asked, [each.turn for each in endings])
    known = {turn: _OpenTurn(*row) for turn, *row in found}
    ended: dict[int, Ending] = {}
    for each in endings:
        turn = known.get(each.turn)
        if turn is None:
            raise StoreError(f"There is no turn {each.turn} on record.")
        lease = turn.began_under if each.lease is None else each.lease
        if turn.finish is None and turn.owner == db.owner and turn.lease_now == lease:
            ended[each.turn] = each
    _close(db, list(ended.values()))
    change_many(db, "DELETE FROM commands WHERE turn IN ({})", ended)
    complete: set[int] = set()
    lines: list[tuple[str, int, str, bytes]] = []
    for turn_id, ending in ended.items():
        conversation = known[turn_id].conversation
        seen = not ending.lines and _was_seen(db, turn_id)
        if not ending.lines and not seen:
            _requeue(db, turn_id)
        if known[turn_id].overtaken:
            db.execute("DELETE FROM effects WHERE turn = ?", (turn_id,))
            continue
        for line in ending.lines:
            row = pack_line(line)
            lines.append((conversation, turn_id, kind_of(line), row.body))
            keep_pictures(db, conversation, row)
        if ending.lines:
            _let_come_again(db, turn_id, ending.again)
        if ending.window is not None:
            windows.move(db, conversation, ending.window)
        if not seen:
            complete.add(turn_id)
    execute_values(db, "INSERT INTO lines (conversation, turn, kind, body) VALUES {}", lines)
    return [each.turn in complete for each in endings]


def _close(db: Database, endings: list[Ending]) -> None:
    """Note in the turns' own rows how they ended."""
    now = time.time()
    ended = (
        "UPDATE turns SET ended = news.column2, finish = news.column3, steps = news.column4,"
        " prompt_tokens = news.column5, cached_tokens = news.column6, completion_tokens = news.column7,"
        # Values of one column have one type, so that there is one for nothing.
        " cost = nullif(news.column8, -1), model = coalesce(nullif(news.column9, ''), model),"
        " framing = CASE WHEN length(news.column10) > 0 THEN news.column10 ELSE framing END"
        " FROM (VALUES {}) AS news WHERE id = news.column1"
    )
    rows = [
        (
            each.turn,
            now,
            each.finish,
            each.steps,
            each.usage.prompt_tokens,
            each.usage.cached_tokens,
            each.usage.completion_tokens,
            -1.0 if each.cost is None else float(each.cost),
            each.model or "",
            pack_framing(each.framing) if each.lines and each.framing is not None else b"",
        )
        for each in endings
    ]
    execute_values(db, ended, rows)


def _requeue(db: Database, turn: int) -> None:
    """Let the messages of a turn wait again, as if it had not been."""
    db.execute("UPDATE messages SET turn = NULL WHERE turn = ?", (turn,))
    db.execute("UPDATE messages SET again = 0 WHERE again = ?", (turn,))
    # Nothing tells any more to whom these acts were an answer: so nothing may tell of anybody.
    db.execute("UPDATE effects SET payload = ? WHERE turn = ?", (b"", turn))


def _let_come_again(db: Database, turn: int, message_ids: Sequence[str]) -> None:
    """Let messages come due again that a turn left unanswered; those that did before do not a third time."""
    for ids in portions(list(message_ids)):
        db.execute(
            "UPDATE messages SET again = 0 WHERE turn = ? AND again IS NULL AND addressed = 1"
            f" AND body IS NOT NULL AND id IN ({', '.join('?' * len(ids))})",
            (turn, *ids),
        )


def _was_seen(db: Database, turn: int) -> bool:
    """Return True if people may have seen an act of a turn, so that its messages are as good as answered."""
    found = db.execute(
        "SELECT 1 FROM effects WHERE turn = ? AND (outcome IS NULL OR outcome <> 'refused')", (turn,)
    )
    return found.fetchone() is not None
