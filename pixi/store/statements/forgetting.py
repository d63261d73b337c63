"""Forgets a person, a conversation, and what was said long ago."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from pixi.core.llm import AssistantLine, Line, ToolCall, ToolLine, UserLine
from pixi.core.memory import PersonMatcher, distinctive_words, mentions_person
from pixi.core.reading import SILENCE
from pixi.core.stamps import without
from pixi.store.database import Database, change_many, execute_values, select_many
from pixi.store.statements import branches, http, memories, windows
from pixi.store.statements.audit import forget_arguments, forget_in_audit, forget_words_in_audit
from pixi.store.statements.inbox import LAST_TURN
from pixi.store.statements.leases import generation_of, touch
from pixi.store.statements.rows import (
    OVERTAKEN,
    drop_unused_pictures,
    pack_line,
    picture_fetcher,
    unpack_line,
    unpack_message,
    unpack_text,
    without_quotes,
)
from pixi.store.statements.usage import forget_in_usage

_REMEMBERING = frozenset(
    {"remember", "recall", "forget", "search_messages", "search_forum", "read_pins", "read_messages"}
)  # tools whose results may tell of anybody


class _Part(Struct):
    """A person's part in a turn: the names and words by which they stand in it."""

    asked: bool = False  # whether the persona was meant by any of their messages
    names: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)


_Gone = defaultdict[str, list[bytes]]
"""The bodies of rows that went, by conversation; an empty list where it changed and no body was left."""


def _note_gone(gone: _Gone, conversation: str, body: bytes | None) -> None:
    bodies = gone[conversation]
    if body is not None:
        bodies.append(body)


class _Written(Struct, frozen=True):
    """A line of a turn, as it is kept."""

    position: int
    kind: str
    conversation: str
    body: bytes


class _Changes:
    """Changes to lines and acts, written for many turns at once."""

    def __init__(self) -> None:
        self.gone: _Gone = defaultdict(list)
        self._dropped: list[int] = []  # turns
        self._without_acts: list[int] = []  # turns
        self._lines: list[int] = []  # positions of those that go
        self._altered: list[tuple[str, bytes, int]] = []

    def drop(self, turn: int, lines: Iterable[_Written]) -> None:
        """Forget everything of a turn."""
        self._dropped.append(turn)
        for line in lines:
            self.gone[line.conversation].append(line.body)

    def alter(self, line: _Written, left: UserLine) -> None:
        """Replace a line."""
        body = pack_line(left).body
        if body != line.body:
            self.gone[line.conversation].append(line.body)
            self._altered.append((line.kind, body, line.position))

    def silence(self, turn: int, lines: Iterable[_Written]) -> None:
        """Replace what the persona said and did in a turn by silence."""
        self._without_acts.append(turn)
        is_silent = False  # the first line becomes silence, the others go
        for line in lines:
            if line.kind == "user":
                continue
            self.gone[line.conversation].append(line.body)
            if is_silent:
                self._lines.append(line.position)
            else:
                self._altered.append(("assistant", pack_line(AssistantLine(SILENCE)).body, line.position))
                is_silent = True

    def write(self, db: Database) -> None:
        """Write the changes."""
        change_many(db, "DELETE FROM lines WHERE turn IN ({})", self._dropped)
        change_many(db, "DELETE FROM effects WHERE turn IN ({})", [*self._dropped, *self._without_acts])
        change_many(db, "DELETE FROM lines WHERE position IN ({})", self._lines)
        altered = "UPDATE lines SET kind = news.column1, body = news.column2 FROM (VALUES {}) AS news"
        execute_values(db, f"{altered} WHERE position = news.column3", self._altered)


def _lines_of(db: Database, turns: Iterable[int]) -> dict[int, list[_Written]]:
    """Return the lines of each turn; an empty list for some."""
    lines: dict[int, list[_Written]] = {turn: [] for turn in turns}
    asked = "SELECT turn, position, kind, conversation, body FROM lines WHERE turn IN ({}) ORDER BY position"
    for turn, *row in select_many(db, asked, lines):
        lines[turn].append(_Written(*row))
    return lines


def forget(db: Database, person: str) -> tuple[str, ...]:
    """Forget a person; return the addresses of the conversations that changed."""
    gone: _Gone = defaultdict(list)
    parts: defaultdict[int, _Part] = defaultdict(_Part)
    memories.forget(db, person)
    http.forget(db, person)
    _forget_quotes(db, person, gone, parts)
    _forget_messages(db, person, gone, parts)
    forget_in_audit(db, person)
    forget_in_usage(db, person)
    forget_words_in_audit(db, lambda turn, given: turn in parts and _is_told(parts[turn], given))
    wholes, under_way = _turns_of(db, parts)
    # Their acts and commands, emptied, stay until they end: they are still to be settled.
    db.executemany("UPDATE turns SET generation = ? WHERE id = ?", [(OVERTAKEN, turn) for turn in under_way])
    db.executemany("UPDATE effects SET payload = ? WHERE turn = ?", [(b"", turn) for turn in under_way])
    db.executemany("UPDATE commands SET argument = ? WHERE turn = ?", [(b"", turn) for turn in under_way])
    _forget_parts(db, person, {turn: parts[turn] for turn in sorted(parts.keys() - under_way)}, gone)
    for conversation, whole in wholes.items():
        for address in (conversation, *branches.of(db, conversation)):
            gone[address] += _forget_mentions(db, address, whole, parts)
    for conversation, bodies in gone.items():
        drop_unused_pictures(db, conversation, bodies)
    windows.forget(db, gone)
    change_many(db, "UPDATE turns SET framing = NULL WHERE id IN ({})", list(parts))
    touch(db, gone)
    return tuple(sorted({branches.trunk(address) for address in gone}))


def _turns_of(db: Database, parts: Mapping[int, _Part]) -> tuple[dict[str, _Part], set[int]]:
    """Return a person's part in each conversation with its branches, and the turns that are under way."""
    wholes: defaultdict[str, _Part] = defaultdict(_Part)
    under_way: set[int] = set()
    found = select_many(db, "SELECT id, conversation, finish FROM turns WHERE id IN ({})", parts)
    for turn, address, finish in found:
        conversation = branches.trunk(address)
        wholes[conversation].names |= parts[turn].names
        wholes[conversation].words += parts[turn].words
        if finish is None:
            under_way.add(turn)
    return wholes, under_way


def _forget_mentions(db: Database, conversation: str, whole: _Part, parts: Collection[int]) -> list[bytes]:
    """Forget replies of later turns, in which a person had no part, that name or repeat them.

    Words that others used as well tell of nobody, nor do those that the persona used before.
    """
    first, heard, said = min(parts), list[str](), defaultdict[int, list[str]](list)
    rows = db.execute(
        "SELECT turn, kind, body FROM lines WHERE conversation = ? AND kind IN ('user', 'assistant')"
        " ORDER BY turn, position",
        (conversation,),
    )
    for turn, kind, body in rows:
        line = unpack_line(kind, body)
        if isinstance(line, UserLine) or turn < first:
            heard.append(line.text)
        elif turn not in parts:
            said[turn] += [line.text, *(call.arguments for call in _calls(line))]
    telltale = PersonMatcher(whole.names, distinctive_words(whole.words, heard))
    telling = [turn for turn, texts in said.items() if telltale.is_in("\n".join(texts))]
    changes = _Changes()
    for turn, lines in _lines_of(db, telling).items():
        changes.silence(turn, lines)
    changes.write(db)
    change_many(db, "UPDATE audit SET arguments = '' WHERE turn IN ({})", telling)
    return changes.gone[conversation]


def _forget_messages(db: Database, person: str, gone: _Gone, parts: defaultdict[int, _Part]) -> None:
    found = db.execute(
        "SELECT conversation, turn, again, addressed, body FROM messages WHERE author = ?", (person,)
    )
    for conversation, first, again, addressed, body in found:
        _note_gone(gone, conversation, body)
        for turn in filter(None, (first, again)):
            parts[turn].asked |= bool(addressed)
            if body is not None:
                message = unpack_message(body)
                parts[turn].names.add(message.author.name)
                parts[turn].words.append(message.text)
    db.execute(
        "DELETE FROM quotes WHERE message IN (SELECT position FROM messages WHERE author = ?)", (person,)
    )
    db.execute("UPDATE messages SET body = NULL, author = NULL WHERE author = ?", (person,))


def _forget_quotes(db: Database, person: str, gone: _Gone, parts: defaultdict[int, _Part]) -> None:
    """Forget a person's words in messages of others."""
    found = db.execute(
        "SELECT position, conversation, turn, again, body FROM quotes JOIN messages ON position = message"
        " WHERE person = ?",
        (person,),
    ).fetchall()
    for position, conversation, first, again, body in found:
        _note_gone(gone, conversation, None)
        for turn in filter(None, (first, again)):
            part = parts[turn]  # also where only an answer tells of them
            for quoted in unpack_message(body).quoted:
                if quoted.author is not None and quoted.author.id == person:
                    part.names.add(quoted.author.name)
                    part.words.append(quoted.text)
        db.execute(
            "UPDATE messages SET body = ? WHERE position = ?", (without_quotes(body, person), position)
        )
    db.execute("DELETE FROM quotes WHERE person = ?", (person,))


def _forget_parts(db: Database, person: str, parts: Mapping[int, _Part], gone: _Gone) -> None:
    """Forget a person's parts in turns that have ended.

    What answered nobody else goes as a whole. Otherwise the words of others stay; what the persona said
    stays where the person was only overheard or quoted, unless it names them, repeats what they said, or
    rests on what is remembered: then silence stands in its place.
    """
    others = {
        turn
        for answered in ("turn", "again")
        for (turn,) in select_many(
            db,
            f"SELECT {answered} FROM messages"
            f" WHERE {answered} IN ({{}}) AND addressed = 1 AND author IS NOT NULL",
            parts,
        )
    }
    acts: defaultdict[int, list[str]] = defaultdict(list)
    asked = "SELECT turn, payload FROM effects WHERE turn IN ({}) ORDER BY turn, sequence"
    for turn, payload in select_many(db, asked, parts):
        acts[turn].append(unpack_text(payload))
    changes = _Changes()
    for turn, lines in _lines_of(db, parts).items():
        heard = _heard_of_others(db, lines, person) if turn in others else None
        if heard is None:
            changes.drop(turn, lines)
            continue
        for line, left in heard:
            changes.alter(line, left)
        if _is_telling(lines, parts[turn], acts[turn], [left.text for _, left in heard]):
            changes.silence(turn, lines)
    changes.write(db)
    for conversation, bodies in changes.gone.items():
        gone[conversation] += bodies


def _heard_of_others(
    db: Database, lines: Iterable[_Written], person: str
) -> list[tuple[_Written, UserLine]] | None:
    """Return what was heard in a turn, without a person; None if nothing of it can stay."""
    heard: list[tuple[_Written, UserLine]] = []
    for row in lines:
        line = unpack_line(row.kind, row.body, picture_fetcher(db, row.conversation))
        if isinstance(line, UserLine):
            left = without(line, person)
            if left is None:
                return None
            heard.append((row, left))
    return heard


def _is_telling(lines: Iterable[_Written], part: _Part, acts: Iterable[str], heard: Iterable[str]) -> bool:
    """Return True if what the persona said in a turn may tell of a person who had this part in it."""
    said = list(acts)
    for row in lines:
        line = unpack_line(row.kind, row.body)
        if isinstance(line, ToolLine) and line.name in _REMEMBERING:
            return True
        if not isinstance(line, UserLine):
            said += [line.text, *(call.arguments for call in _calls(line))]
    return part.asked or mentions_person("\n".join(said), part.names, part.words, besides="\n".join(heard))


def _is_told(part: _Part, given: str) -> bool:
    """Return True if what a tool was given in a turn may tell of a person who had this part in it."""
    return part.asked or mentions_person(given, part.names, part.words, besides="")


def _calls(line: Line) -> tuple[ToolCall, ...]:
    return line.calls if isinstance(line, AssistantLine) else ()


def reset(db: Database, conversation: str) -> int:
    """Forget what was said (lines, messages, acts, pictures), also in turns that `rewind` took out; return
    the new generation.

    Ids of messages are remembered, so that one which arrives again is still the same. A turn under way can
    settle its acts and end, without effect.
    """
    db.execute(
        "INSERT INTO conversations (address, generation) VALUES (?, 1)"
        " ON CONFLICT (address) DO UPDATE SET generation = conversations.generation + 1",
        (conversation,),
    )
    generation = generation_of(db, conversation)
    windows.drop(db, conversation)
    http.forget_requests(db, conversation)
    _forget_words(db, conversation)
    for beside in branches.of(db, conversation):
        _forget_words(db, beside)
        db.execute(
            "DELETE FROM effects WHERE turn IN (SELECT id FROM turns WHERE conversation = ?)", (beside,)
        )
    forget_arguments(db, conversation)
    touch(db, [conversation])
    # The acts of the turn that is under way, emptied, stay until it ends: they are still to be settled.
    under_way = "turn IN (SELECT id FROM turns WHERE conversation = ? AND finish IS NULL)"
    db.execute(f"UPDATE effects SET payload = ? WHERE {under_way}", (b"", conversation))
    db.execute(f"UPDATE commands SET argument = ? WHERE {under_way}", (b"", conversation))
    db.execute(
        "DELETE FROM effects WHERE turn IN (SELECT id FROM turns WHERE conversation = ?"
        " AND (finish IS NOT NULL OR generation BETWEEN 0 AND ?))",
        (conversation, generation - 2),
    )
    return generation


def _forget_words(db: Database, conversation: str) -> None:
    """Forget lines, messages and pictures of a conversation; that there were messages stays."""
    db.execute("DELETE FROM lines WHERE conversation = ?", (conversation,))
    db.execute("UPDATE turns SET framing = NULL WHERE conversation = ?", (conversation,))
    db.execute("DELETE FROM pictures WHERE conversation = ?", (conversation,))
    db.execute(
        "DELETE FROM quotes WHERE message IN (SELECT position FROM messages WHERE conversation = ?)",
        (conversation,),
    )
    db.execute(
        "UPDATE messages SET body = NULL, author = NULL WHERE conversation = ?"
        " AND (body IS NOT NULL OR author IS NOT NULL)",
        (conversation,),
    )


PORTION = 200
"""Messages, turns and deeds at once: some milliseconds."""


def forget_old(db: Database, before: float) -> bool:
    """Forget a portion of what was said before a time (seconds since the epoch); return True if there may be
    more.

    Words, names, pictures, acts, notes and summaries go, talks in which nothing was said since, files, and
    what tools were given and for whom. That there was a message, and its id, stays, so that one which arrives
    again is still the same. Sums of what was used stay, and what personas remember of people: they are told
    it, and can have it forgotten.
    """
    gone: _Gone = defaultdict(list)
    counts = (
        _forget_old_messages(db, before, gone),
        _forget_old_turns(db, before, gone),
        _forget_old_deeds(db, before),
        http.forget_old(db, before, PORTION),
    )
    for conversation, bodies in gone.items():
        drop_unused_pictures(db, conversation, bodies)
    windows.forget(db, gone)
    touch(db, gone)
    return PORTION in counts


def _forget_old_messages(db: Database, before: float, gone: _Gone) -> int:
    """Forget old messages; those of turns under way are left to the next time."""
    found = db.execute(
        "SELECT position, messages.conversation, body FROM messages"
        f" LEFT JOIN turns ON turns.id = {LAST_TURN}"
        " WHERE author IS NOT NULL AND sent_at < ? AND (turn IS NULL OR finish IS NOT NULL)"
        " ORDER BY sent_at LIMIT ?",
        (before, PORTION),
    ).fetchall()
    for _, conversation, body in found:
        _note_gone(gone, conversation, body)
    places = [(position,) for position, *_ in found]
    db.executemany("DELETE FROM quotes WHERE message = ?", places)
    db.executemany("UPDATE messages SET body = NULL, author = NULL WHERE position = ?", places)
    return len(found)


def _forget_old_turns(db: Database, before: float, gone: _Gone) -> int:
    """Forget what old turns said and did. What they cost stays."""
    last = db.execute(
        "SELECT id FROM turns WHERE began < ? ORDER BY began DESC LIMIT 1", (before,)
    ).fetchone()
    if last is None:
        return 0
    found = db.execute(
        "SELECT DISTINCT turn FROM lines WHERE turn <= ? ORDER BY turn LIMIT ?", (last[0], PORTION)
    ).fetchall()
    acted = db.execute(
        "SELECT DISTINCT turn FROM effects JOIN turns ON turns.id = turn"
        " WHERE turn <= ? AND finish IS NOT NULL ORDER BY turn LIMIT ?",
        (last[0], PORTION),
    ).fetchall()
    turns = [turn for (turn,) in found]
    for conversation, body in select_many(
        db, "SELECT conversation, body FROM lines WHERE turn IN ({})", turns
    ):
        gone[conversation].append(body)
    change_many(db, "DELETE FROM lines WHERE turn IN ({})", turns)
    change_many(db, "UPDATE turns SET framing = NULL WHERE id IN ({})", turns)
    change_many(db, "DELETE FROM effects WHERE turn IN ({})", [turn for (turn,) in acted])
    return max(len(found), len(acted))


def _forget_old_deeds(db: Database, before: float) -> int:
    """Forget for whom tools changed something, and their arguments. That they did, and when, stays."""
    found = db.execute(
        "SELECT id FROM audit WHERE began < ? AND (person <> '' OR arguments <> '' OR approved_by <> '')"
        " ORDER BY began LIMIT ?",
        (before, PORTION),
    ).fetchall()
    db.executemany("UPDATE audit SET person = '', arguments = '', approved_by = '' WHERE id = ?", found)
    return len(found)
