"""The tables, their versions, and opening a file that holds them."""

import errno
import os
import re
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.store.database import COPYING, later_version, unfinished_copy
from pixi.store.sqlite.faults import Damaged, is_busy, opening_error

APPLICATION = 0x50495849  # "PIXI", in the file's header: tells our files from those of other programs
LOCK_SECONDS = 5.0
"""How long a call waits while another process writes."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # Resets are counted here; a conversation that was never reset has no row.
        "CREATE TABLE conversations (address TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID",
        """CREATE TABLE turns (
            id INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL,
            generation INTEGER NOT NULL,
            persona TEXT NOT NULL,
            began INTEGER NOT NULL DEFAULT (strftime('%s', 'now')),
            ended INTEGER,
            finish TEXT,
            steps INTEGER,
            prompt_tokens INTEGER,
            cached_tokens INTEGER,
            completion_tokens INTEGER
        )""",
        "CREATE INDEX unfinished_turns ON turns (conversation) WHERE finish IS NULL",
        # The inbox. A row stays for good, so that an id is never answered twice; its body is forgotten by
        # a reset. Waiting are those with a body and without a turn.
        """CREATE TABLE messages (
            position INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL,
            id TEXT NOT NULL,
            body BLOB,
            turn INTEGER REFERENCES turns (id),
            UNIQUE (conversation, id)
        )""",
        "CREATE INDEX waiting_messages ON messages (conversation, position) WHERE turn IS NULL",
        "CREATE INDEX answered_messages ON messages (turn, position) WHERE turn IS NOT NULL",
        """CREATE TABLE lines (
            position INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL,
            turn INTEGER NOT NULL REFERENCES turns (id),
            kind TEXT NOT NULL,
            body BLOB NOT NULL
        )""",
        "CREATE INDEX history ON lines (conversation, position)",
        """CREATE TABLE effects (
            turn INTEGER NOT NULL REFERENCES turns (id),
            sequence INTEGER NOT NULL,
            kind TEXT NOT NULL,
            payload BLOB NOT NULL,
            outcome TEXT,
            platform_id TEXT,
            PRIMARY KEY (turn, sequence)
        ) WITHOUT ROWID""",
        # Pictures of messages and lines, each once per conversation.
        """CREATE TABLE pictures (
            conversation TEXT NOT NULL,
            digest TEXT NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (conversation, digest)
        )""",
        f"PRAGMA application_id = {APPLICATION}",
    ),
    (
        # Numbers are counted from 1 in each conversation, in the order of arrival. `author` is who wrote the
        # message, until they or the conversation are forgotten.
        "ALTER TABLE messages ADD COLUMN number INTEGER",
        "ALTER TABLE messages ADD COLUMN author TEXT",
        "ALTER TABLE messages ADD COLUMN addressed INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN sent_at REAL NOT NULL DEFAULT 0",
        """UPDATE messages SET number = counted.number FROM (
            SELECT position AS place,
                row_number() OVER (PARTITION BY conversation ORDER BY position) AS number
            FROM messages
        ) AS counted WHERE position = counted.place""",
        """UPDATE messages SET
            author = json_extract(CAST(body AS TEXT), '$.author.id'),
            addressed = coalesce(json_extract(CAST(body AS TEXT), '$.addressed'), 0),
            sent_at = coalesce(json_extract(CAST(body AS TEXT), '$.sent_at'), 0)
        WHERE body IS NOT NULL AND json_valid(CAST(body AS TEXT))""",
        "CREATE UNIQUE INDEX numbered_messages ON messages (conversation, number)",
        "CREATE INDEX messages_of_a_person ON messages (author) WHERE author IS NOT NULL",
        """CREATE INDEX unanswered_messages ON messages (conversation, sent_at)
            WHERE turn IS NULL AND addressed AND body IS NOT NULL""",
        # Whose words stand in messages that others wrote.
        """CREATE TABLE quotes (
            person TEXT NOT NULL,
            message INTEGER NOT NULL REFERENCES messages (position),
            PRIMARY KEY (person, message)
        ) WITHOUT ROWID""",
        "CREATE INDEX quotes_in_a_message ON quotes (message)",
        "ALTER TABLE turns ADD COLUMN model TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE turns ADD COLUMN cost REAL",
        "CREATE INDEX turns_of_a_conversation ON turns (conversation)",
        "CREATE INDEX turns_by_time ON turns (began)",
        "CREATE INDEX lines_of_a_turn ON lines (turn)",
        "ALTER TABLE effects ADD COLUMN target INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX posted ON effects (platform_id) WHERE platform_id IS NOT NULL",
        # What people chose for a channel, and how far each channel was read: no part of a conversation.
        """CREATE TABLE places (
            address TEXT PRIMARY KEY,
            personas TEXT NOT NULL,
            model TEXT NOT NULL,
            home INTEGER NOT NULL
        ) WITHOUT ROWID""",
        "CREATE TABLE watermarks (address TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID",
    ),
    (
        # What a persona remembers of a person. `audience` is that of the place where it was told, and
        # `conversation` that place: what was told in private does not come back in public. `uses` counts how
        # often it did come back: what never does goes first.
        """CREATE TABLE memories (
            id INTEGER PRIMARY KEY,
            persona TEXT NOT NULL,
            person TEXT NOT NULL,
            guild TEXT NOT NULL,
            conversation TEXT NOT NULL,
            audience TEXT NOT NULL,
            text TEXT NOT NULL,
            told REAL NOT NULL,
            uses INTEGER NOT NULL DEFAULT 0
        )""",
        "CREATE INDEX memories_of_a_person ON memories (person, persona)",
        "CREATE INDEX memories_of_a_guild ON memories (guild)",
        # What tools changed in the world, on whose behalf. A row stays when its person is forgotten, without
        # them and without the arguments.
        """CREATE TABLE audit (
            id INTEGER PRIMARY KEY,
            began REAL NOT NULL,
            seconds REAL,
            conversation TEXT NOT NULL,
            guild TEXT NOT NULL,
            turn INTEGER NOT NULL,
            persona TEXT NOT NULL,
            person TEXT NOT NULL,
            tool TEXT NOT NULL,
            arguments TEXT NOT NULL,
            approved_by TEXT NOT NULL,
            outcome TEXT
        )""",
        "CREATE INDEX audit_of_a_person ON audit (person)",
        "CREATE INDEX audit_by_time ON audit (began)",
    ),
    (
        # As before, in the words of both databases.
        "DROP INDEX unanswered_messages",
        """CREATE INDEX unanswered_messages ON messages (conversation, sent_at)
            WHERE turn IS NULL AND addressed = 1 AND body IS NOT NULL""",
        # `revision` is the number of the last time that words were taken out of a conversation, counted over
        # all of them: by it other processes see that what they hold in memory is no longer so.
        "ALTER TABLE conversations ADD COLUMN revision INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX conversations_by_revision ON conversations (revision)",
        "CREATE INDEX words_by_time ON messages (sent_at) WHERE author IS NOT NULL",
        # Where the part of a conversation begins that a model is shown which holds so many tokens: at
        # `first_turn`, with its notes from `notes_from` on; `factor` is how far tokens are underestimated.
        """CREATE TABLE windows (
            conversation TEXT NOT NULL,
            context_tokens INTEGER NOT NULL,
            first_turn INTEGER NOT NULL,
            notes_from INTEGER NOT NULL,
            factor REAL NOT NULL,
            PRIMARY KEY (conversation, context_tokens)
        ) WITHOUT ROWID""",
        # What is remembered of the turns up to `summarized`; `version` counts what became of it.
        """CREATE TABLE summaries (
            conversation TEXT NOT NULL PRIMARY KEY,
            summarized INTEGER NOT NULL,
            version INTEGER NOT NULL,
            summary BLOB NOT NULL
        ) WITHOUT ROWID""",
        "DROP INDEX history",
        "CREATE INDEX history ON lines (conversation, turn, position)",
        # What was used, added up by day (counted from 1970, in UTC). `person` is "" for whoever was
        # forgotten, and for what nobody in particular asked for; `messages` are those that were answered,
        # `writes` what tools changed; `unpriced` are the tokens whose price is not known.
        """CREATE TABLE usage (
            day INTEGER NOT NULL,
            person TEXT NOT NULL,
            channel TEXT NOT NULL,
            guild TEXT NOT NULL,
            model TEXT NOT NULL,
            messages INTEGER NOT NULL,
            writes INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            cached_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL,
            unpriced INTEGER NOT NULL,
            cost REAL NOT NULL,
            PRIMARY KEY (day, person, channel, guild, model)
        ) WITHOUT ROWID""",
        "CREATE INDEX usage_of_a_person ON usage (person)",
        # Who was told on which day that there is no more for them, e.g. `person:42`.
        """CREATE TABLE notices (
            day INTEGER NOT NULL,
            whom TEXT NOT NULL,
            PRIMARY KEY (day, whom)
        ) WITHOUT ROWID""",
    ),
    (
        # How often the web was searched: each way of it has a name of its own in `model`.
        "ALTER TABLE usage ADD COLUMN searches INTEGER NOT NULL DEFAULT 0",
    ),
    (
        # Stores that are open and own conversations, see `leases`. A number is never given twice.
        "CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT)",
        # Who owns a conversation; `number` grows whenever that changes. A turn keeps the one it began under;
        # 0: it began before there were leases.
        """CREATE TABLE leases (
            conversation TEXT NOT NULL PRIMARY KEY,
            owner INTEGER NOT NULL,
            number INTEGER NOT NULL
        ) WITHOUT ROWID""",
        "ALTER TABLE turns ADD COLUMN lease INTEGER NOT NULL DEFAULT 0",
        # By both, so that it is preferred to `turns_of_a_conversation`, in which all turns are.
        "DROP INDEX unfinished_turns",
        "CREATE INDEX unfinished_turns ON turns (conversation, finish) WHERE finish IS NULL",
        # What is known of the end of a turn that is under way: `written` or `stopped`.
        "ALTER TABLE turns ADD COLUMN mark TEXT",
        # The commands of turns that are under way: recorded when they closed, gone when the turn ends.
        """CREATE TABLE commands (
            turn INTEGER NOT NULL REFERENCES turns (id),
            number INTEGER NOT NULL,
            name TEXT NOT NULL,
            argument BLOB NOT NULL,
            target INTEGER NOT NULL,
            outcome TEXT,
            PRIMARY KEY (turn, number)
        ) WITHOUT ROWID""",
        # The number of the command that acts.
        "ALTER TABLE effects ADD COLUMN command INTEGER",
        # NULL for nearly all. 0: the message comes due again, since `turn` left it unanswered; else the turn
        # that answers it then, while `turn` is still the one whose lines hold its words.
        "ALTER TABLE messages ADD COLUMN again INTEGER",
        "CREATE INDEX due_again ON messages (again, conversation, position) WHERE again IS NOT NULL",
    ),
    (
        # Conversations that people have over HTTP, under the names by which their clients know them.
        """CREATE TABLE talks (
            address TEXT PRIMARY KEY,
            person TEXT NOT NULL,
            persona TEXT NOT NULL,
            name TEXT NOT NULL,
            began REAL NOT NULL,
            last REAL NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX talks_of_a_person ON talks (person, last)",
        "CREATE INDEX talks_by_name ON talks (person, name)",
        "CREATE INDEX talks_by_time ON talks (last)",
        # Keys of the HTTP server, without their secrets. The lists are JSON.
        """CREATE TABLE keys (
            digest TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            scopes TEXT NOT NULL,
            personas TEXT NOT NULL,
            origins TEXT NOT NULL,
            created REAL NOT NULL,
            revoked REAL
        ) WITHOUT ROWID""",
        "CREATE UNIQUE INDEX keys_in_use ON keys (name) WHERE revoked IS NULL",
    ),
    (
        # Of a publishable key: what the tokens of its visitors are signed with.
        "ALTER TABLE keys ADD COLUMN signs TEXT NOT NULL DEFAULT ''",
    ),
    (
        # Files that people sent over HTTP. What is in them lies beside the store, see `[http] files`.
        """CREATE TABLE files (
            id TEXT PRIMARY KEY,
            person TEXT NOT NULL,
            name TEXT NOT NULL,
            media_type TEXT NOT NULL,
            size INTEGER NOT NULL,
            digest TEXT NOT NULL,
            sent_at REAL NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX files_of_a_person ON files (person)",
        "CREATE INDEX files_by_time ON files (sent_at)",
    ),
    (
        # Of each addon that keeps tables of its own here: the version that they have.
        "CREATE TABLE addon_tables (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    ),
    (
        # How a turn was asked, as JSON: digests, names of tools and numbers, no word of anybody's.
        "ALTER TABLE turns ADD COLUMN framing BLOB",
    ),
)
"""The statements that lead from each version of the tables to the next, oldest first."""


_NEWEST_PLAUSIBLE = 100
"""A version of the tables above this one was written by no Pixi: the file is damaged."""

_CHANGE = re.compile(r"(CREATE|DROP) (?:UNIQUE )?(?:TABLE|INDEX) (\w+)")


def connect(path: Path | None, *, unfinished: bool = False) -> sqlite3.Connection:
    """Open the file, made if missing and brought to the present version; None: a store in memory.

    To be used by the calling thread alone.

    Args:
        path: the file.
        unfinished: whether it may be a copy that is not finished.

    Raises:
        ConfigError: the file cannot be opened, is not ours, or is of a later version. It is left as it is.
        Damaged: it holds no database, or not the tables of its version.
    """
    name = ":memory:"
    if path is not None:
        name = str(path)
        _make_private(path)
    connection = sqlite3.connect(name, timeout=LOCK_SECONDS, isolation_level=None)
    try:
        _migrate(connection, name, unfinished=unfinished)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # what a reset forgets is gone from the file too
    except (sqlite3.Error, UnicodeDecodeError) as error:
        connection.close()
        raise opening_error(error, name) from None
    except ConfigError:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Make the file if it is missing, for its owner alone. SQLite gives its companions the same mode.

    One that is there is not opened: to close it again would give up the locks of another connection to it
    in this process, as POSIX has it.
    """
    try:
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        _see_that_it_may_be_written(path)
    except FileNotFoundError:
        raise ConfigError(f"The store {path}: there is no folder {path.parent}; make it.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise _cannot_be_opened(path, error.strerror if isinstance(error, OSError) else error) from None


_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _see_that_it_may_be_written(path: Path) -> None:
    try:
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except OSError as error:  # e.g. a symbolic link that leads to itself
        raise _cannot_be_opened(path, error.strerror) from None
    if kind:
        raise ConfigError(f"The store {path} is a {kind}; name a file in [store] url.")
    if not os.access(path, os.R_OK | os.W_OK):
        raise _cannot_be_opened(path, os.strerror(errno.EACCES))


def _cannot_be_opened(path: Path, reason: object) -> ConfigError:
    return ConfigError(f"The store {path} cannot be opened ({reason}); mend the path or its permissions.")


def _migrate(connection: sqlite3.Connection, name: str, *, unfinished: bool) -> None:
    """Bring the tables to the present version, in one transaction.

    Raises:
        ConfigError: that cannot be done; see `version_of`.
    """
    if version_of(connection, name, unfinished=unfinished) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have done it meanwhile.
        version = version_of(connection, name, unfinished=unfinished)
        if version and tables_of(connection) != tables_of_version(version):
            raise Damaged(f"The store {name} is damaged.")
        for number in range(version, len(MIGRATIONS)):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # A statement of ours that is wrong: that is no reason to set a whole file aside.
        raise ConfigError(f"The tables of the store {name} cannot be brought up to date: {error}.") from None
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def version_of(connection: sqlite3.Connection, name: str, *, unfinished: bool = False) -> int:
    """Return the version of the tables; 0 for an empty file.

    Raises:
        ConfigError: the file is another program's, of a later version, or an unfinished copy.
        Damaged: it is ours, but lacks some of the tables and indexes of its version.
    """
    application, version = (
        int(connection.execute(question).fetchone()[0])
        for question in ("PRAGMA application_id", "PRAGMA user_version")
    )
    found = {table for (table,) in connection.execute("SELECT name FROM sqlite_master")}
    is_ours = application == APPLICATION or names_in(1) <= found
    if not is_ours and (application or version or found):
        raise ConfigError(
            f"The store {name} is the database of another program; name another file in [store] url."
        )
    if len(MIGRATIONS) < version <= _NEWEST_PLAUSIBLE:
        raise later_version(name, version, len(MIGRATIONS))
    is_harmed = not 0 <= version <= _NEWEST_PLAUSIBLE or not names_in(version) <= found
    if is_harmed or (found and (application != APPLICATION or not version)):
        raise Damaged(f"The store {name} is damaged.")
    if COPYING in found and not unfinished:
        raise unfinished_copy(name)
    return version


Columns = list[tuple[str, str, int]]
"""The columns of a table, each by its name, its type, and its place in the primary key, counted from 1."""


def tables_of(connection: sqlite3.Connection) -> dict[str, Columns]:
    """Return the columns of each table of ours that is there."""
    return {
        table: connection.execute(f"SELECT name, type, pk FROM pragma_table_info('{table}')").fetchall()
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if table in names_in(len(MIGRATIONS))
    }


def tables_of_version(version: int) -> dict[str, Columns]:
    """Return the columns of each table that a version has."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        make_tables(fresh, version)
        return tables_of(fresh)


def make_tables(connection: sqlite3.Connection, version: int) -> None:
    """Make the tables of a version in an empty database."""
    for statement in (each for statements in MIGRATIONS[:version] for each in statements):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version}")


def names_in(version: int) -> set[str]:
    """Return the names of the tables and indexes that a version has."""
    names: set[str] = set()
    for statement in (each for statements in MIGRATIONS[:version] for each in statements):
        for verb, name in _CHANGE.findall(statement):
            (names.add if verb == "CREATE" else names.discard)(name)
    return names


def _use_wal(connection: sqlite3.Connection) -> None:
    """Let readers and the writer work side by side. SQLite does not wait for this lock by itself."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def empty_wal(connection: sqlite3.Connection) -> None:
    """Carry the log over into the file, so that what was deleted is in neither. In no transaction.

    Where another process reads for longer than we wait, that is left to the next time.
    """
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
