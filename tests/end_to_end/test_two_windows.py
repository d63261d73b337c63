"""Windows, pipes and programs in one folder: a talk is in one place at a time, others go on beside it."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from pixi.channels.terminal import lines
from tests.end_to_end.program import Piped, chat, piped
from tests.end_to_end.test_live_chat import CTRL_C, ENTER, talk
from tests.servers.scripted_openai import Hang, Reply, ScriptedOpenAI, Until, finish, stream
from tests.waiting import until, within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal as POSIX has it")

ASK = "Take it over? (Enter/q)"
OPEN_ELSEWHERE = "? This talk is open in another window."
TAKEN_OVER = "? This talk goes on in another window."
HERE = "· the talk goes on here"


def says(*words: str) -> Reply:
    return stream(*(f"[SEND: {each}]" for each in words), finish())


def heard(server: ScriptedOpenAI, request: int) -> str:
    """All that the model was shown in that request, but the persona."""
    return str(server.requests[request].json()["messages"][1:])


def model_at(server: ScriptedOpenAI) -> tuple[str, ...]:
    return ("chat", "--model", "scripted", "--base-url", server.base_url, "--user", "mo")


async def told(program: Piped) -> str:
    """The next line on standard error."""
    assert program.process.stderr
    async with within("a line on standard error"):
        return (await program.process.stderr.readline()).decode()


async def test_a_second_window_takes_the_talk_over_and_the_first_takes_it_back(tmp_path: Path) -> None:
    async with (
        ScriptedOpenAI(says("alpha"), says("beta"), says("gamma")) as server,
        talk(tmp_path, server) as first,
        talk(tmp_path, server, user="ana") as other,
    ):
        first.type("one" + ENTER)
        await first.shows("Pixi › alpha")
        async with talk(tmp_path, server) as second:
            await second.shows(OPEN_ELSEWHERE)
            await second.shows(ASK)
            assert "goes on" not in first.text
            await second.shows_on(ENTER, HERE)
            await second.shows("Your talk goes on")
            await second.shows("mo › one")
            await second.shows("Pixi › alpha")
            await first.shows(TAKEN_OVER)
            await first.shows(ASK)

            second.type("two" + ENTER)
            await second.shows("Pixi › beta")
            first.type("three" + ENTER)
            assert len(server.requests) == 2
            await first.shows_on(ENTER, HERE)
            await first.shows("mo › two")
            await first.shows("Pixi › beta")
            await first.shows("three")
            first.type(ENTER)
            await first.shows("Pixi › gamma")
            assert all(each in heard(server, 2) for each in ("one", "alpha", "two", "beta", "three"))
            await second.shows(TAKEN_OVER)
            second.type(CTRL_C)
            assert await second.ended() == 0
        assert "another window" not in other.text
        assert first.text.count(TAKEN_OVER) == 1


@pytest.mark.nightly
async def test_who_does_not_take_it_over_leaves_and_the_first_window_hears_nothing_of_it(
    tmp_path: Path,
) -> None:
    async with ScriptedOpenAI(says("alpha"), says("beta")) as server, talk(tmp_path, server) as first:
        first.type("one" + ENTER)
        await first.shows("Pixi › alpha")
        async with talk(tmp_path, server) as second:
            await second.shows(ASK)
            await second.shows_on("q" + ENTER, "· the talk goes on there")
            assert await second.ended() == 0
        first.type("two" + ENTER)
        await first.shows("Pixi › beta")
        assert "another window" not in first.text


@pytest.mark.nightly
async def test_a_window_that_asks_goes_on_by_itself_when_the_other_one_is_closed(tmp_path: Path) -> None:
    async with (
        ScriptedOpenAI(says("alpha"), says("beta")) as server,
        talk(tmp_path, server) as first,
    ):
        first.type("one" + ENTER)
        await first.shows("Pixi › alpha")
        async with talk(tmp_path, server) as second:
            await second.shows(ASK)
            first.type("/quit" + ENTER)
            await second.shows("· it ended there: the talk goes on here")
            await second.shows("Pixi › alpha")
            second.type("two" + ENTER)
            await second.shows("Pixi › beta")


@pytest.mark.nightly
async def test_a_reply_is_cut_where_its_talk_is_taken_over_and_goes_on_there(tmp_path: Path) -> None:
    begun = stream("[SEND: alpha]", "[SEND: be", Hang())
    async with (
        ScriptedOpenAI(begun, says("beta"), says("gamma")) as server,
        talk(tmp_path, server) as first,
    ):
        first.type("one" + ENTER)
        await first.shows("Pixi › be")
        async with talk(tmp_path, server) as second:
            await second.shows(ASK)
            await second.shows_on(ENTER, HERE)
            async with within("the end of the request"):
                await server.requests[0].gone.wait()
            await first.shows("be … (stopped)")
            assert "stopped in the middle" not in first.text  # it was not waited for
            await first.shows(TAKEN_OVER)
            await second.shows("mo › one")
            await second.shows("Pixi › alpha")
            await second.shows("Pixi › beta")
            second.type("two" + ENTER)
            await second.shows("Pixi › gamma")
            assert len(server.requests) == 3
            assert "beta" not in first.text


@pytest.mark.nightly
async def test_a_pipe_goes_on_at_once_beside_a_window_that_waits_for_its_person(tmp_path: Path) -> None:
    async with (
        ScriptedOpenAI(says("alpha"), says("beta"), says("gamma")) as server,
        talk(tmp_path, server) as window,
    ):
        window.type("one" + ENTER)
        await window.shows("Pixi › alpha")
        ended = await chat(tmp_path, "two\n", *model_at(server)[1:])
        assert (ended.code, ended.out, ended.err) == (0, "beta\n", "")
        window.type("three" + ENTER)
        await window.shows("Pixi › gamma")
        assert all(each in heard(server, 2) for each in ("one", "alpha", "two", "beta", "three"))


@pytest.mark.nightly
async def test_a_pipe_waits_for_the_reply_of_a_window_and_says_so(tmp_path: Path) -> None:
    gate = asyncio.Event()
    slow = stream("[SEND: alpha]", Until(gate), "[SEND: beta]", finish())
    async with ScriptedOpenAI(slow, says("gamma")) as server, talk(tmp_path, server) as window:
        window.type("one" + ENTER)
        await window.shows("Pixi › alpha")
        async with piped(tmp_path, *model_at(server)) as program:
            await program.say("two")
            line = "a reply is being written in another window of this talk: it is waited for, 30 s at most."
            assert await told(program) == f"pixi-persona: {line}\n"
            assert len(server.requests) == 1
            gate.set()
            assert await program.hear() == "gamma"
            ended = await program.end()
            assert (ended.code, ended.out, ended.err) == (0, "", "")
        await window.shows("Pixi › beta")
        assert all(each in heard(server, 1) for each in ("one", "alpha", "beta", "two"))


@pytest.mark.parametrize("words", [(), pytest.param(("--json",), marks=pytest.mark.nightly)])
async def test_a_pipe_gives_up_with_the_reason_and_what_it_would_have_said_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(lines, "OWN_SECONDS", 0.4)
    monkeypatch.setattr(lines, "_SOON_SECONDS", 0.2)
    gate = asyncio.Event()
    slow = stream("[SEND: alpha]", Until(gate), "[SEND: beta]", finish())
    async with ScriptedOpenAI(slow, says("gamma")) as server, talk(tmp_path, server) as window:
        window.type("one" + ENTER)
        await window.shows("Pixi › alpha")
        ended = await chat(tmp_path, "two\n", *model_at(server)[1:], *words)
        waits, gave_up = ended.err.splitlines()
        assert (ended.code, ended.out) == (1, "")
        assert waits.startswith("pixi-persona: a reply is being written in another window of this talk: ")
        assert gave_up.startswith(
            "pixi-persona: a reply is being written in another window of this talk, and "
        )
        gate.set()
        await window.shows("Pixi › beta")
        window.type("three" + ENTER)
        await window.shows("Pixi › gamma")
        assert "two" not in heard(server, 1)


@pytest.mark.nightly
async def test_a_pipe_whose_talk_is_taken_over_amid_a_reply_says_so_and_fails(tmp_path: Path) -> None:
    begun = stream("[SEND: alpha]", Hang())
    async with (
        ScriptedOpenAI(begun, says("beta")) as server,
        piped(tmp_path, *model_at(server)) as program,
    ):
        await program.say("one")
        assert await program.hear() == "alpha"
        async with talk(tmp_path, server) as window:
            await window.shows(ASK)
            await window.shows_on(ENTER, HERE)
            ended = await program.end()
            assert (ended.code, ended.out) == (1, "")
            assert ended.err == "pixi-persona: This talk goes on in another window.\n"
            await window.shows("Pixi › alpha")
            await window.shows("Pixi › beta")


@pytest.mark.parametrize(
    "signalled",
    ["SIGKILL", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("SIGTERM", "SIGHUP"))],
)
async def test_a_reply_goes_on_at_the_next_start_however_the_program_ended(
    tmp_path: Path, signalled: str
) -> None:
    begun = stream("[SEND: alpha]", "[SEND: be", Hang())
    async with ScriptedOpenAI(begun, says("beta"), says("gamma")) as server:
        async with talk(tmp_path, server) as killed:
            killed.type("one" + ENTER)
            await killed.shows("Pixi › be")
            killed.process.send_signal(signal.Signals[signalled])
            await killed.ended()
        async with talk(tmp_path, server) as again:
            await again.shows("Your talk goes on; this was today")
            await again.shows("mo › one")
            await again.shows("Pixi › alpha")
            await again.shows("Pixi › beta")
            assert "another window" not in again.text
            assert again.text.count("Pixi › alpha") == 1
            again.type("two" + ENTER)
            await again.shows("Pixi › gamma")
            assert len(server.requests) == 3


@pytest.mark.nightly
async def test_what_was_asked_before_a_kill_is_shown_and_answered_at_the_next_start(tmp_path: Path) -> None:
    async with ScriptedOpenAI(stream(Hang()), says("alpha")) as server:
        async with talk(tmp_path, server) as killed:
            killed.type("one" + ENTER)
            await until(lambda: server.requests)
            killed.process.send_signal(signal.SIGKILL)
            await killed.ended()
        async with talk(tmp_path, server) as again:
            await again.shows("Your talk goes on; this was today")
            await again.shows("mo › one")
            await again.shows("Pixi › alpha")
            assert again.text.count("mo › one") == 1


@pytest.mark.nightly
async def test_different_talks_in_one_folder_know_nothing_of_each_other(tmp_path: Path) -> None:
    begun = stream("[SEND: alpha]", Hang())
    async with (
        ScriptedOpenAI(begun, says("beta"), says("gamma")) as server,
        talk(tmp_path, server) as first,
        talk(tmp_path, server, user="ana") as second,
    ):
        first.type("one" + ENTER)
        await first.shows("Pixi › alpha")
        second.type("two" + ENTER)
        await second.shows("Pixi › beta")
        ended = await chat(tmp_path, "three\n", *model_at(server)[1:-1], "juan")
        assert (ended.code, ended.out, ended.err) == (0, "gamma\n", "")
        for window in (first, second):
            assert "another window" not in window.text
