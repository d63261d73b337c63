"""The tables of a store, in a file and on a server, and the steps from each version of them to the next."""

import re
from collections.abc import Iterator, Mapping

APPLICATION = 0x50495849
"""`PIXI`: it tells our files from those of other programs, and our locks on a server from theirs."""

FIRST_VERSION = 11
"""The version that the first statements make; what was made before it is not read."""

# Written as SQLite takes them, but for three words that each database has in its own way: ID is a number that
# the database gives, as the primary key; SECONDS is a time since the epoch; INDEXED is what an index by
# conversation holds besides. The order of columns and indexes is that of the first files.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # Resets are counted here; a conversation that was never reset has no row. `revision` is the number
        # of the last time that words were taken out of it, counted over all of them: by it other processes
        # see that what they hold in memory is no longer so.
        """CREATE TABLE conversations (
            address TEXT PRIMARY KEY,
            generation INTEGER NOT NULL,
            revision INTEGER NOT NULL DEFAULT 0
        ) WITHOUT ROWID""",
        # `lease` is that of `leases` under which it began; 0: none. `mark` is what is known of its end while
        # it is under way: `written` or `stopped`. `framing` is how it was asked, as JSON: digests, names of
        # tools and numbers, no word of anybody's.
        """CREATE TABLE turns (
            id ID,
            conversation TEXT NOT NULL,
            generation INTEGER NOT NULL,
            persona TEXT NOT NULL,
            began SECONDS NOT NULL,
            ended SECONDS,
            finish TEXT,
            steps INTEGER,
            prompt_tokens INTEGER,
            cached_tokens INTEGER,
            completion_tokens INTEGER,
            model TEXT NOT NULL DEFAULT '',
            cost REAL,
            lease INTEGER NOT NULL DEFAULT 0,
            mark TEXT,
            framing BLOB
        )""",
        # The inbox. A row stays for good, so that an id is never answered twice; its body is forgotten by
        # a reset. Waiting are those with a body and without a turn. Numbers are counted from 1 in each
        # conversation, in the order of arrival. `author` is who wrote the message, until they or the
        # conversation are forgotten. `again` is NULL for nearly all. 0: the message comes due again, since
        # `turn` left it unanswered; else the turn that answers it then, while `turn` is still the one whose
        # lines hold its words.
        """CREATE TABLE messages (
            position ID,
            conversation TEXT NOT NULL,
            id TEXT NOT NULL,
            body BLOB,
            turn INTEGER REFERENCES turns (id),
            number INTEGER,
            author TEXT,
            addressed INTEGER NOT NULL DEFAULT 0,
            sent_at REAL NOT NULL DEFAULT 0,
            again INTEGER,
            UNIQUE (conversation, id)
        )""",
        "CREATE INDEX waiting_messages ON messages (conversation, position) WHERE turn IS NULL",
        "CREATE INDEX answered_messages ON messages (turn, position) WHERE turn IS NOT NULL",
        """CREATE TABLE lines (
            position ID,
            conversation TEXT NOT NULL,
            turn INTEGER NOT NULL REFERENCES turns (id),
            kind TEXT NOT NULL,
            body BLOB NOT NULL
        )""",
        # `command` is the number of the command that acts.
        """CREATE TABLE effects (
            turn INTEGER NOT NULL REFERENCES turns (id),
            sequence INTEGER NOT NULL,
            kind TEXT NOT NULL,
            payload BLOB NOT NULL,
            outcome TEXT,
            platform_id TEXT,
            target INTEGER NOT NULL DEFAULT 0,
            command INTEGER,
            PRIMARY KEY (turn, sequence)
        ) WITHOUT ROWID""",
        # Pictures of messages and lines, each once per conversation.
        """CREATE TABLE pictures (
            conversation TEXT NOT NULL,
            digest TEXT NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (conversation, digest)
        )""",
        "CREATE UNIQUE INDEX numbered_messages ON messages (conversation, number)",
        "CREATE INDEX messages_of_a_person ON messages (author) WHERE author IS NOT NULL",
        # Whose words stand in messages that others wrote.
        """CREATE TABLE quotes (
            person TEXT NOT NULL,
            message INTEGER NOT NULL REFERENCES messages (position),
            PRIMARY KEY (person, message)
        ) WITHOUT ROWID""",
        "CREATE INDEX quotes_in_a_message ON quotes (message)",
        "CREATE INDEX turns_of_a_conversation ON turns (INDEXED)",
        "CREATE INDEX turns_by_time ON turns (began)",
        "CREATE INDEX lines_of_a_turn ON lines (turn)",
        "CREATE INDEX posted ON effects (platform_id) WHERE platform_id IS NOT NULL",
        # What people chose for a channel, and how far each channel was read: no part of a conversation.
        """CREATE TABLE places (
            address TEXT PRIMARY KEY,
            personas TEXT NOT NULL,
            model TEXT NOT NULL,
            home INTEGER NOT NULL
        ) WITHOUT ROWID""",
        "CREATE TABLE watermarks (address TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID",
        # What a persona remembers of a person. `audience` is that of the place where it was told, and
        # `conversation` that place: what was told in private does not come back in public. `uses` counts how
        # often it did come back: what never does goes first.
        """CREATE TABLE memories (
            id ID,
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
            id ID,
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
        """CREATE INDEX unanswered_messages ON messages (conversation, sent_at)
            WHERE turn IS NULL AND addressed = 1 AND body IS NOT NULL""",
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
        "CREATE INDEX history ON lines (conversation, turn, position)",
        # What was used, added up by day (counted from 1970, in UTC). `person` is "" for whoever was
        # forgotten, and for what nobody in particular asked for; `messages` are those that were answered,
        # `writes` what tools changed; `unpriced` are the tokens whose price is not known; each way in which
        # the web was searched has a name of its own in `model`.
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
            searches INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (day, person, channel, guild, model)
        ) WITHOUT ROWID""",
        "CREATE INDEX usage_of_a_person ON usage (person)",
        # Who was told on which day that there is no more for them, e.g. `person:42`.
        """CREATE TABLE notices (
            day INTEGER NOT NULL,
            whom TEXT NOT NULL,
            PRIMARY KEY (day, whom)
        ) WITHOUT ROWID""",
        # Stores that are open and own conversations, see `leases`. A number is never given twice.
        "CREATE TABLE owners (id ID AUTOINCREMENT)",
        # Who owns a conversation; `number` grows whenever that changes.
        """CREATE TABLE leases (
            conversation TEXT NOT NULL PRIMARY KEY,
            owner INTEGER NOT NULL,
            number INTEGER NOT NULL
        ) WITHOUT ROWID""",
        # By both, so that it is preferred to `turns_of_a_conversation`, in which all turns are.
        "CREATE INDEX unfinished_turns ON turns (conversation, finish) WHERE finish IS NULL",
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
        "CREATE INDEX due_again ON messages (again, conversation, position) WHERE again IS NOT NULL",
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
        # Keys of the HTTP server, without their secrets. The lists are JSON. `signs` is what the tokens of
        # the visitors of a publishable key are signed with.
        """CREATE TABLE keys (
            digest TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            scopes TEXT NOT NULL,
            personas TEXT NOT NULL,
            origins TEXT NOT NULL,
            created REAL NOT NULL,
            revoked REAL,
            signs TEXT NOT NULL DEFAULT ''
        ) WITHOUT ROWID""",
        "CREATE UNIQUE INDEX keys_in_use ON keys (name) WHERE revoked IS NULL",
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
        # Of each addon that keeps tables of its own here: the version that they have.
        "CREATE TABLE addon_tables (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    ),
    (
        # Requests over HTTP that came with an idempotency key: `key` is a digest of the person and the key,
        # `digest` one of the whole request, `message` the id of what it said.
        """CREATE TABLE requests (
            key TEXT PRIMARY KEY,
            digest TEXT NOT NULL,
            person TEXT NOT NULL,
            conversation TEXT NOT NULL,
            message TEXT NOT NULL,
            sent_at REAL NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX requests_of_a_person ON requests (person)",
        "CREATE INDEX requests_of_a_conversation ON requests (conversation)",
        "CREATE INDEX requests_by_time ON requests (sent_at)",
    ),
)
"""The statements that make the first version, and those that lead from each to the next.

Stores out there were made by them: what changes goes into a version of its own."""

_WORD = re.compile(r"\b[A-Z]+\b")
_CHANGE = re.compile(r"(CREATE|DROP) (?:UNIQUE )?(TABLE|INDEX) (\w+)")


def latest_version() -> int:
    """Return the present version of the tables."""
    return FIRST_VERSION + len(MIGRATIONS) - 1


def statements(words: Mapping[str, str], since: int = 0, until: int | None = None) -> Iterator[str]:
    """Yield what leads from one version of the tables to another.

    Args:
        words: those of a database, in place of SQLite's.
        since: the version that there is; 0: no tables.
        until: the version that is wanted; None: the present one.
    """
    last = None if until is None else until - FIRST_VERSION + 1
    for migration in MIGRATIONS[max(0, since - FIRST_VERSION + 1) : last]:
        for statement in migration:
            yield _WORD.sub(lambda found: words.get(found[0], found[0]), statement)


def names_in(version: int, *kinds: str) -> set[str]:
    """Return the names of the tables and indexes that a version has, or those of one kind, e.g. `TABLE`."""
    names: set[str] = set()
    for statement in statements({}, until=version):
        for verb, kind, name in _CHANGE.findall(statement):
            if kinds and kind not in kinds:
                continue
            if verb == "CREATE":
                names.add(name)
            else:
                names.discard(name)
    return names
