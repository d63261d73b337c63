"""No call reads through a table: what it costs does not grow with what is kept of others."""

from functools import partial

from pixi.core.language import Planned
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Image, Message, Quoted
from pixi.store.kept import ApiKey, ChannelConfig, KeyedRequest, SentFile, Talk
from pixi.store.statements import branches, forgetting, history, http, inbox, journal, leases, personal_data
from tests.begun import begun_in
from tests.store.conftest import Watched

TABLES = (
    *("messages", "turns", "lines", "effects", "commands", "pictures", "quotes", "watermarks"),
    *("conversations", "leases", "talks", "keys", "files", "requests"),
)


def everything(db: Watched) -> None:
    """Each statement of the store, at least once."""
    room = "discord:1:7:pixi"
    picture = Image("image/png", b"cat")
    mo, ann = Author("11", "mo"), Author("12", "ann")
    inbox.receive(db, [Message("0", room, mo, "hm", 1.0, addressed=False)])
    for number in range(1, 5):
        quoted = (Quoted("0", mo, "hm"), Quoted("9", None, "oh"))
        author = (mo, ann)[number % 2]
        inbox.receive(db, [Message(str(number), room, author, "x", 1.0, images=(picture,), quoted=quoted)])
    inbox.revise(db, room, "3", "y")
    inbox.withdraw(db, room, "3")
    inbox.message_id(db, room, 1)
    inbox.unanswered(db, "discord:", 0.0)
    for ids in (("0", "1", "2"), ("4",)):
        turn = begun_in(db, room, ids, model="quick")
        journal.record(db, [journal.Intent(turn, 0, "send", "x", 0, None)])
        journal.record(db, [journal.Settlement(turn, 0, "done" if "1" in ids else "refused", "900")])
        journal.record(
            db, [journal.Plan(turn, (Planned(1, "send", "x"),)), journal.CommandEnd(turn, 1, "done")]
        )
        journal.mark_turn(db, turn, "stopped")
        journal.load(db, room)
        leases.owned_elsewhere(db, room)
        lines = (UserLine("x", (picture,)), AssistantLine("y")) if "1" in ids else ()
        journal.end_turns(db, [journal.Ending(turn, lines, "stop", 1, Usage(), again=("1",))])
    second = begun_in(db, room, ("1",))
    journal.load(db, room)
    db.execute("UPDATE leases SET owner = 99 WHERE conversation = ?", (room,))
    leases.lease(db, room, take=False)
    journal.end_turns(db, [journal.Ending(second, (UserLine("x"),), "stop", 1, Usage())])
    history.turn_behind(db, "discord:1:", "900")
    history.turns(db, room, 3)
    history.tally(db, "discord:1:", 0.0)
    inbox.set_place(db, "discord:1:7:", ChannelConfig(home=True))
    inbox.set_place(db, "discord:1:7:", ChannelConfig())
    inbox.mark(db, {"discord:1:7:": 1})
    inbox.watermarks(db, "discord:")
    history.answer_to(db, room, "1")
    history.last_asked(db, room)
    http.keep_talk(db, Talk("http:1:pixi", mo.id, "pixi", "one", 1.0, 2.0))
    http.keep_talk(db, Talk("http:1:pixi", mo.id, "pixi", "one", 1.0, 3.0), KeyedRequest("k", "d", "5"))
    http.request(db, "k")
    http.talks(db, mo.id, "pixi", 9)
    http.talk(db, mo.id, "one", "")
    http.forget_old(db, 1.0, 9)
    http.add_file(db, SentFile("f1", mo.id, "cat.png", "image/png", 9, "d", 1.0), 99)
    http.file_of(db, "f1")
    http.files_among(db, ("f1", "f2"))
    http.drop_file(db, "f1")
    http.forget_old(db, 1.0, 9)
    http.add_key(db, ApiKey("shop", "d1", ("chat",)))
    http.key_of(db, "d1")
    http.revoke_key(db, "shop", 2.0)
    beside = branches.rewind(db, room, second)
    history.alternatives(db, room)
    branches.restore(db, room, beside)
    personal_data.export(db, mo.id)
    forgetting.forget(db, mo.id)
    begun_in(db, room, ("4",))
    forgetting.forget(db, ann.id)
    forgetting.reset(db, room)


def test_nothing_is_found_by_reading_through_a_table(db: Watched) -> None:
    statements: list[str] = []
    db.raw.set_trace_callback(statements.append)
    everything(db)
    db.raw.set_trace_callback(None)
    looked_at = [one for one in dict.fromkeys(statements) if one.startswith(("SELECT", "UPDATE", "DELETE"))]
    assert len(looked_at) > 40
    for statement in looked_at:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        through = [step for step in plan if step.startswith("SCAN") and step.split()[1] in TABLES]
        assert not through, f"{statement}\n{plan}"


def test_a_message_finds_its_number_by_one_look(db: Watched) -> None:
    """However many there are: the number of steps that the database takes stays the same."""

    def receive(count: int) -> None:
        inbox.receive(db, [Message(str(count), "room", Author("1", "mo"), "x", 1.0)])

    few = [db.steps(partial(receive, count)) for count in range(10)][-1]
    for count in range(10, 3_000):
        receive(count)
    assert db.steps(lambda: receive(3_000)) <= few + 5


def test_what_turns_came_to_lately_is_told_without_reading_through_the_older_ones(db: Watched) -> None:
    for count in range(1_000):
        room = f"discord:1:{count}:pixi"
        inbox.receive(db, [Message("1", room, Author("1", "mo"), "x", 1.0)])
        begun_in(db, room, ("1",))
    db.execute("UPDATE turns SET began = id")
    assert history.tally(db, "discord:", 999.0).turns == 2
    assert db.steps(lambda: history.tally(db, "discord:", 999.0)) < 200
