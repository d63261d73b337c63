"""Servers that hang, die, flood and lie: each is named, bounded, and nobody else suffers."""

import asyncio
import resource
from pathlib import Path
from types import SimpleNamespace

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from pixi.mcp import offers, server, transports
from pixi.mcp.connection import connected
from pixi.mcp.offers import Broken, CallFailed, Program, Ready
from pixi.mcp.server import McpTimeouts
from pixi.mcp.wire import MOST_BYTES, ConnectionLog
from tests.mcp.scene import SECONDS, alive, hurried, kept, rogue, started
from tests.waiting import until

HASTY = McpTimeouts(start=0.6, first_pause=0.05, longest_pause=0.4)
"""For those that would never say that they are there."""


async def test_one_that_behaves(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("well")) as it:
        state = await it.ready()
        assert [(tool.name, tool.description, tool.reads) for tool in state.tools] == [
            ("echo", "Say it again.", True)
        ]
        assert await it.server.call("echo", {"text": "häm 🥞"}, SECONDS) == "häm 🥞"
        assert it.said.startswith("MCP server rogue is used for the first time: ")


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (
            Program("nonesuch-server"),
            "there is no program 'nonesuch-server' here; install it or mend `command`",
        ),
        (Program("cat"), "it answers 'Method not found'; is it an MCP server?"),
        (Program("yes"), "it writes what is no message of the protocol: 'y'"),
        (Program("false"), "it ended with status 1"),
        (rogue("dies-at-once"), "it ended with status 3: no [31mflour"),
        (rogue("not-json"), "it writes what is no message of the protocol: '<html>'"),
        pytest.param(
            rogue("other-version"),
            "Unsupported protocol version from the server: 1066-10-14",
            marks=pytest.mark.nightly,
        ),
        (rogue("rubbish-tool"), "its list of tools cannot be had: it sends what the protocol does not allow"),
        (rogue("deaf"), "it does not answer"),
    ],
    ids=lambda value: value.args[-1] if isinstance(value, Program) and value.args else None,
)
async def test_what_is_no_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Program, why: str
) -> None:
    hurried(monkeypatch)

    def named(_: object) -> bool:
        """It is tried again: on a busy machine it may not have come so far at once."""
        return any(isinstance(state, Broken) and why in state.why for state in it.states)

    async with kept(tmp_path, where, patience=HASTY) as it:
        await it.until(named)
        assert not any({"\n", "\x1b"} & set(state.why) for state in it.states if isinstance(state, Broken))
        with pytest.raises(CallFailed, match=r"^rogue is being (restarted; try again in \d+ s|started)"):
            await it.server.call("echo", {}, 1)
        assert it.said.count(why) == 1


async def test_what_fails_while_it_is_used_comes_out_as_it_is() -> None:
    with pytest.raises(CallFailed, match="rogue refused"):
        async with connected("rogue", rogue("refuses"), SECONDS) as connection:
            await connection.call("echo", {}, SECONDS)


async def test_keys_of_ours_are_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "DISCORD_TOKEN", "PIXI_MODEL__API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary")
    notes = tmp_path / "notes"
    program = rogue("environment", notes)
    async with kept(tmp_path, Program(program.command, program.args, {"OWN": "pancake"})) as it:
        await it.ready()
    told = notes.read_text()
    assert '"OWN": "pancake"' in told
    assert '"PATH"' in told
    assert "canary" not in told


async def test_a_folder_that_is_not_there_and_a_zero_byte(tmp_path: Path) -> None:
    for program in (Program("cat", folder=tmp_path / "none"), Program("cat", ("a\0b",))):
        async with kept(tmp_path / "x", program) as it:
            await it.until(lambda server: isinstance(server.state, Broken))
            assert "'cat' cannot be run (" in it.said


async def test_one_that_dies_is_restarted_and_its_tools_say_so(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    patience = McpTimeouts(start=SECONDS, first_pause=SECONDS)
    async with kept(tmp_path, rogue("die", notes), patience=patience) as it:
        await it.ready()
        with pytest.raises(CallFailed, match=r"rogue ended before it answered; it is being restarted"):
            await it.server.call("echo", {"text": "x"}, SECONDS)
        await it.until(lambda server: isinstance(server.state, Broken))
        assert "rogue: it ended with status 3: out of flour; it is tried again." in it.said
        with pytest.raises(CallFailed, match=r"rogue is being restarted; try again in \d+ s"):
            await it.server.call("echo", {"text": "x"}, SECONDS)
        assert [tool.name for tool in it.server.tools] == ["echo"]


def pauses_in(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of ten seconds and more that are asked for, none of which is waited."""
    asked: list[float] = []
    sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        if seconds >= 10:
            asked.append(seconds)
            seconds = 0
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", at_once)
    return asked


async def test_each_pause_is_longer_until_the_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = pauses_in(monkeypatch)
    patience = McpTimeouts(start=SECONDS, first_pause=10.0, longest_pause=40.0)
    async with kept(tmp_path, Program("nonesuch-server"), patience=patience) as it:
        await it.until(lambda _: len(pauses) >= 4)
    assert pauses[:4] == [10.0, 20.0, 40.0, 40.0]


async def test_one_that_was_well_for_long_begins_with_the_first_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = pauses_in(monkeypatch)
    patience = McpTimeouts(start=SECONDS, first_pause=10.0, longest_pause=60.0, lived=0.0)
    async with kept(tmp_path, rogue("die"), patience=patience) as it:
        for _ in range(3):
            await it.ready()
            with pytest.raises(CallFailed):
                await it.server.call("echo", {}, SECONDS)
            await it.until(lambda server: isinstance(server.state, Broken))
        assert pauses[:2] == [10.0, 10.0]


async def test_a_call_that_hangs_is_bounded(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with kept(tmp_path, rogue("hang-call", notes)) as it:
        await it.ready()
        with pytest.raises(CallFailed, match=r"rogue did not answer within 0\.2 seconds\."):
            await it.server.call("echo", {}, 0.2)
        await until(lambda: notes.read_text().splitlines()[1:] == ["called", "cancelled"])
        assert isinstance(it.server.state, Ready)


async def test_a_call_that_is_cancelled_is_cancelled_there(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with kept(tmp_path, rogue("slow", notes)) as it:
        await it.ready()
        calling = asyncio.create_task(it.server.call("echo", {}, SECONDS))
        await until(lambda: "called" in notes.read_text())
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await until(lambda: "cancelled" in notes.read_text())


async def test_one_that_hangs_over_its_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pixi.mcp import connection

    hurried(monkeypatch)
    monkeypatch.setattr(connection, "_LIST_SECONDS", 0.2)
    async with kept(tmp_path, rogue("hang-list")) as it:
        await it.until(lambda server: isinstance(server.state, Broken))
        assert "its list of tools cannot be had: it does not answer" in it.said


def megabytes() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("way", ["huge", pytest.param("huge-late-number", marks=pytest.mark.nightly)])
async def test_a_result_of_fifty_megabytes_is_refused(tmp_path: Path, way: str) -> None:
    async with kept(tmp_path, rogue(way)) as it:
        await it.ready()
        before = megabytes()
        with pytest.raises(CallFailed, match=r"rogue refused: the answer has more than 8 MB"):
            await it.server.call("echo", {}, SECONDS)
        assert megabytes() - before < 40
        assert isinstance(it.server.state, Ready)


async def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurried(monkeypatch)
    monkeypatch.setattr(transports, "_LONGEST_LINE", 2 * MOST_BYTES)
    async with kept(tmp_path, rogue("endless-line")) as it:
        await it.ready()
        before = megabytes()
        with pytest.raises(CallFailed):
            await it.server.call("echo", {}, SECONDS)
        await it.until(lambda server: isinstance(server.state, Broken))
        assert "it writes a line without end" in it.said
        assert megabytes() - before < 40


@pytest.mark.parametrize("way", ["flood", "complains", pytest.param("pings", marks=pytest.mark.nightly)])
async def test_a_flood_does_not_stop_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    hurried(monkeypatch)
    turns, passing, most, passes = 0, 0, 0, ConnectionLog.passes

    async def counted(it: ConnectionLog, item: SessionMessage | Exception) -> bool:
        nonlocal passing
        passing += 1
        return await passes(it, item)

    async def watch() -> None:
        nonlocal turns, passing, most
        while True:
            turns, passing = turns + 1, 0
            await asyncio.sleep(0)
            most = max(most, passing)

    monkeypatch.setattr(ConnectionLog, "passes", counted)
    async with kept(tmp_path, rogue(way)) as it:
        await it.ready()
        before = megabytes()
        watching = asyncio.create_task(watch())
        try:
            if way == "complains":
                called = await it.server.call("echo", {"text": "still here"}, SECONDS)
                assert called == "still here"
            else:  # it is made to wait, and so is its answer
                with pytest.raises(CallFailed):
                    await it.server.call("echo", {"text": "still here"}, 0.3)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        assert turns > 1
        assert most <= 2  # messages that were taken in one turn of the loop
        assert megabytes() - before < 40


async def test_what_floods_is_made_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand messages that nobody asked for are taken in a second, and no more."""
    now, loop = 100.0, asyncio.get_running_loop()
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        asked.append(seconds)
        now += seconds + 0.001

    monkeypatch.setattr(asyncio, "sleep", sleep)
    news = JSONRPCNotification(jsonrpc="2.0", method="notifications/message")
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: now)
        wire = ConnectionLog()
        for _ in range(5_000):
            assert not await wire.passes(SessionMessage(news))
    assert asked == pytest.approx([1.0, 1.0])


async def test_answers_that_nobody_asked_for(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("other-number")) as it:
        await it.ready()
        with pytest.raises(CallFailed, match="did not answer within"):
            await it.server.call("echo", {}, 0.3)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("rubbish-result", "rogue sent a result that the protocol does not allow."),
        ("refuses", "rogue refused: no [2J flour"),
        ("asks-person", "rogue refused: sign in first"),
    ],
)
async def test_answers_that_are_none(tmp_path: Path, way: str, told: str) -> None:
    async with kept(tmp_path, rogue(way)) as it:
        await it.ready()
        with pytest.raises(CallFailed) as failed:
            await it.server.call("echo", {}, SECONDS)
        assert str(failed.value) == told
        assert isinstance(it.server.state, Ready)


async def test_arguments_that_cannot_be_sent(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("well")) as it:
        await it.ready()
        for text in ("\ud800", float("nan")):
            with pytest.raises(CallFailed, match="hold what cannot be sent"):
                await it.server.call("echo", {"text": text}, SECONDS)
        assert await it.server.call("echo", {"text": "x"}, SECONDS) == "x"


async def test_a_tool_that_is_not_offered_is_not_called(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("well")) as it:
        await it.ready()
        with pytest.raises(CallFailed, match="rogue has no such tool any more"):
            await it.server.call("rm", {}, SECONDS)


async def test_two_tools_of_one_name(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("twice")) as it:
        state = await it.ready()
        assert [tool.description for tool in state.tools] == ["Say it again."]
        assert "MCP server rogue: it has two tools called 'echo'; the first counts." in it.said


async def test_a_list_in_pages(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("pages")) as it:
        assert [tool.name for tool in (await it.ready()).tools] == ["echo0", "echo1", "echo2"]


async def test_a_list_without_end(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("pages-without-end")) as it:
        assert (await it.ready()).tools == ()
        assert "its list of tools does not end; the first ones count" in it.said


async def test_a_list_that_changes(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.write_text("Say it again.\nold\n")
    async with kept(tmp_path, rogue("described"), patience=HASTY) as it:
        await it.until(lambda server: isinstance(server.state, Broken))  # there is no file: it dies
    async with kept(tmp_path / "here", rogue("changing", notes)) as it:
        assert [tool.name for tool in (await it.ready()).tools] == ["echo", "old"]
        await it.server.call("echo", {"text": "new"}, SECONDS)
        await it.until(lambda server: len(server.tools) == 3)
        assert [tool.name for tool in it.server.tools] == ["echo", "old", "new"]
        assert "MCP server rogue has new tools: new" in it.said


async def test_a_list_that_never_rests_is_read_less_and_less_and_remembered_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "_MOST_KEPT", 50)
    time, any_of, passed = asyncio.get_running_loop().time, server._any_of, 0.0
    asked: list[float] = []

    async def at_once(*events: asyncio.Event, seconds: float | None = None) -> None:
        """The pauses between two looks take no time, and all of it by the clock of the server's loop."""
        nonlocal passed
        if seconds is None:
            await any_of(*events)
        else:
            asked.append(seconds)
            passed += seconds
            await asyncio.sleep(0)

    monkeypatch.setattr(server, "_any_of", at_once)
    clock = SimpleNamespace(time=lambda: time() + passed)
    by_that_clock = {**vars(asyncio), "get_running_loop": lambda: clock}
    monkeypatch.setattr(server, "asyncio", SimpleNamespace(**by_that_clock))
    patience = McpTimeouts(start=SECONDS, list_pause=10.0, longest_pause=60.0)
    notes = tmp_path / "notes"
    async with kept(tmp_path / "here", rogue("restless", notes), patience=patience) as it:
        await until(lambda: len(asked) > 4, "five pauses")
        await until(lambda: notes.read_text().count("listed") >= 6, "six looks")
        assert "it has named so many tools by now that new ones are left out" in it.said
        assert it.server.tools == ()
        approved = await offers.LockFile(tmp_path / "here" / offers.FILE_NAME).approved("rogue")
        assert approved is not None
        assert len(approved.tools) == 50
        assert isinstance(it.server.state, Ready)
    assert [round(seconds) for seconds in asked[:5]] == [10, 20, 40, 60, 60]


async def test_a_list_of_many_megabytes_is_taken_in_part(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("fat-pages")) as it:
        assert len((await it.ready()).tools) == 2
        assert "its list of tools has more than 8 MB; the first ones count." in it.said


async def test_a_result_of_thousands_of_parts_is_cut(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("many-parts")) as it:
        await it.ready()
        told = await it.server.call("echo", {"text": "x"}, SECONDS)
        assert told == "x\n" * 1_000 + "(and 4,000 more parts, which are left out)"


async def test_nothing_is_left_of_one_that_does_not_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried(monkeypatch)
    notes = tmp_path / "notes"
    for way in ("stays", "with-child"):
        async with kept(tmp_path / way, rogue(way, notes)) as it:
            await it.ready()
    processes = started(notes) + started(notes, "child")
    assert len(processes) == 3
    await until(lambda: not any(map(alive, processes)))
