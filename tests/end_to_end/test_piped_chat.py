"""`chat` with lines in and lines out, against a server with a script, over real pipes and sockets."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.end_to_end.program import Ended, chat, piped
from tests.servers.scripted_openai import (
    Hang,
    Reply,
    ScriptedOpenAI,
    Wait,
    answer,
    error,
    finish,
    stream,
    usage,
)
from tests.waiting import within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX")

HELLO = stream("[NOTE: they say hi]", "[SEND: om", "g hi]", "[REACT: 🥞]", finish(), usage(20, 9))
BYE = stream("[SEND: bye]\n[SEND: see\nyou]", finish())


async def ask(server: ScriptedOpenAI, home: Path, data: str | bytes, *words: str) -> Ended:
    return await chat(home, data, "--model", "scripted", "--base-url", server.base_url, *words)


def said(server: ScriptedOpenAI, request: int) -> str:
    """What the model was asked last."""
    return str(server.requests[request].json()["messages"][-1]["content"])


async def test_the_replies_alone_are_printed_each_line_answered_before_the_next(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO, BYE) as server:
        ended = await ask(server, tmp_path, "hi\n\n   \nwho are you?\n")
        assert ended == Ended(0, "omg hi\nbye\nsee\nyou\n", "")
        assert len(server.requests) == 2
        assert "hi" in said(server, 0)
        assert "who are you?" not in said(server, 0)
        assert "who are you?" in said(server, 1)


@pytest.mark.parametrize("nothing", ["", "\n  \n"])
async def test_where_nothing_is_said_no_model_is_loaded(tmp_path: Path, nothing: str) -> None:
    assert await chat(tmp_path, nothing, "--model", "missing.gguf") == Ended(0, "", "")
    assert (await chat(tmp_path, f"{nothing}hi\n", "--model", "missing.gguf")).code == 2


async def test_json_is_every_event(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        ended = await ask(server, tmp_path, "hi", "--json", "--user", "mo")
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert all(event.pop("t") >= 0 for event in events)
    (said_by,) = events[0]["answers"]
    assert events == [
        {
            "event": "turn_start",
            "turn": 1,
            "seq": 0,
            "conversation": "terminal:pixi:mo",
            "persona": "Pixi",
            "answers": [said_by],
        },
        {"event": "note", "turn": 1, "seq": 1, "id": "1.0", "text": "they say hi"},
        {"event": "send", "turn": 1, "seq": 2, "id": "1.1", "text": "omg hi"},
        {"event": "react", "turn": 1, "seq": 3, "id": "1.2", "emoji": "🥞", "message": said_by},
        {
            "event": "turn_end",
            "turn": 1,
            "seq": 4,
            "finish": "stop",
            "steps": 1,
            "usage": {"prompt_tokens": 20, "cached_tokens": 0, "completion_tokens": 9},
        },
    ]
    assert (ended.code, ended.err) == (0, "")


async def test_with_deltas_messages_are_seen_growing(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        ended = await ask(server, tmp_path, "hi", "--json", "--deltas")
    events = [json.loads(line) for line in ended.out.splitlines()]
    of_message = [event for event in events if event.get("id") == "1.1"]
    assert [event["event"] for event in of_message][:1] == ["started"]
    assert of_message[-1]["event"] == "send"
    assert "".join(event["text"] for event in of_message[1:-1]).strip() == "omg hi"
    assert [event["seq"] for event in events] == list(range(len(events)))


async def test_with_notes_the_notes_are_marked(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        ended = await ask(server, tmp_path, "hi", "--notes")
    assert ended.out == "(note: they say hi)\nomg hi\n(reaction: 🥞)\n"


async def test_a_talk_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO, BYE) as server:
        await ask(server, tmp_path, "remember the syrup", "--user", "mo")
        await ask(server, tmp_path, "hi again", "--user", "mo")
        messages = json.dumps(server.requests[1].json()["messages"], ensure_ascii=False)
        assert "remember the syrup" in messages
        assert "[SEND: omg hi]" in messages


async def test_input_that_is_not_utf8_ends_it_and_the_replies_before_stand(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        ended = await ask(server, tmp_path, b"hi\nol\xe9\nmore\n")
    assert ended.out == "omg hi\n"
    assert ended.code == 2
    assert ended.err.startswith("pixi-persona: standard input, line 2: byte 3 (0xe9) is not UTF-8.\n")
    assert len(ended.err.splitlines()) == 2


@pytest.mark.parametrize("as_json", [True, False])
async def test_a_model_that_fails_is_told_and_the_rest_is_still_asked(tmp_path: Path, as_json: bool) -> None:
    refused = error(404, "The model `scripted` does not exist", code="model_not_found")
    async with ScriptedOpenAI(refused, HELLO) as server:
        ended = await ask(server, tmp_path, "hi\nagain\n", *(["--json"] if as_json else []))
    assert ended.code == 1
    if as_json:
        events = [json.loads(line) for line in ended.out.splitlines()]
        assert any(event["event"] == "error" and "scripted" in event["text"] for event in events)
        assert [event["finish"] for event in events if event["event"] == "turn_end"] == ["error", "stop"]
        assert ended.err == ""
    else:
        assert ended.out.splitlines()[-1] == "omg hi"
        assert ended.err.startswith("pixi-persona: ")
        assert len(ended.err.splitlines()) == 1


async def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        words = ("chat", "--model", "scripted", "--base-url", server.base_url)
        reading, writing = os.pipe()
        async with piped(tmp_path, *words, stdout=writing) as program:
            os.close(writing)
            await program.say("hi")
            assert await asyncio.to_thread(os.read, reading, 100) == b"omg hi\n"
            os.close(reading)
            ended = await program.end(b"again\nand again\nand again\n")
        assert ended == Ended(128 + signal.SIGPIPE, "", "")
        assert len(server.requests) == 2


async def test_a_polite_kill_amid_a_reply_ends_it_at_once_and_what_was_said_stands(tmp_path: Path) -> None:
    async with ScriptedOpenAI(stream("[SEND: first]", Hang())) as server:
        words = ("chat", "--model", "scripted", "--base-url", server.base_url)
        async with piped(tmp_path, *words) as program:
            await program.say("hi")
            assert await program.hear() == "first"
            program.process.send_signal(signal.SIGTERM)
            async with within("the end of the program"):
                assert await program.process.wait() == 143
            assert program.process.stderr
            assert await program.process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_an_output_that_is_full_ends_it_with_a_line(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    async with ScriptedOpenAI(HELLO) as server:
        words = ("chat", "--model", "scripted", "--base-url", server.base_url)
        async with piped(tmp_path, *words, stdout=full) as program:
            os.close(full)
            ended = await program.end(b"hi\nagain\n")
    assert ended == Ended(1, "", "pixi-persona: No space left on device.\n")


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", pytest.param("2>&-", marks=pytest.mark.nightly)])
async def test_closed_streams_are_no_fault(tmp_path: Path, closed: str) -> None:
    launch = f"import os\nos.execvp('sh', ['sh', '-c', '{{}} {closed}'.format(os.environ['COMMAND'])])"
    async with ScriptedOpenAI(HELLO) as server:
        command = f"'{sys.executable}' -m pixi chat --model scripted --base-url {server.base_url}"
        async with piped(tmp_path, launch=launch, environ={"COMMAND": command}) as program:
            ended = await program.end(b"hi\n")
    said = "" if "<&-" in closed else "omg hi\n"
    assert ended == Ended(0, said, "")


async def test_ctrl_c_twice_ends_what_will_not_end(tmp_path: Path) -> None:
    async with ScriptedOpenAI(stream("[SEND: first]", Hang())) as server:
        words = ("chat", "--model", "scripted", "--base-url", server.base_url)
        async with piped(tmp_path, *words) as program:
            await program.say("hi")
            assert await program.hear() == "first"
            program.process.send_signal(signal.SIGINT)
            program.process.send_signal(signal.SIGINT)
            ended = await program.end()
    assert ended == Ended(130, "", "")


LAUNCH = """
import os, sys
from pixi.cli import main

class Bell:
    '''Rings when the program imports the first of itself: before that, Python alone hears Ctrl-C.'''

    def find_spec(self, name, path=None, target=None):
        if name == "pixi.cli.frame":
            sys.meta_path.remove(self)
            os.write(2, b"!")

sys.meta_path.insert(0, Bell())
sys.argv = ["pixi", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize(
    "milliseconds",
    [5, 300, *(pytest.param(each, marks=pytest.mark.nightly) for each in (40, 100, 200, 450, 700, 1000))],
)
async def test_ctrl_c_at_any_moment_is_quiet(tmp_path: Path, milliseconds: int) -> None:
    slow = Reply((Wait(0.05), *stream("[SEND: a]", Wait(0.2), "[SEND: b]", Hang()).steps))
    async with ScriptedOpenAI(slow) as server:
        words = ("--model", "scripted", "--base-url", server.base_url)
        async with piped(tmp_path, "chat", *words, launch=LAUNCH) as program:
            assert program.process.stderr
            assert await program.process.stderr.readexactly(1) == b"!"
            await program.say("hi")
            await asyncio.sleep(milliseconds / 1000)
            program.process.send_signal(signal.SIGINT)
            async with within("the end of the program"):
                assert await program.process.wait() == 130
            assert await program.process.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--persona", "pixie"), "pixi"),
        (("--persona", "nowhere/x.md"), "nowhere/x.md"),
        (("--config", "gone.toml"), "gone.toml"),
        (("--base-url", "ftp://x", "--model", "y"), "ftp://x"),
        (("--model", "gpt-5-mini"), "OPENAI_API_KEY"),
        (("--model", "gone.gguf"), "gone.gguf"),
    ],
)
async def test_what_the_operator_must_mend_is_two_lines_at_most(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    ended = await chat(tmp_path, "hi\n", *words)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("pixi-persona: ")
    assert told in ended.err
    assert len(ended.err.splitlines()) <= 2


async def test_addons_bring_commands_and_a_broken_one_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "waves.py").write_text(
        "def setup(addon):\n"
        "    @addon.command\n"
        "    async def wave(context, how):\n"
        '        """wave at the person"""\n'
        '        await context.send(f"*waves {how}*")\n'
    )
    (tmp_path / "broken.py").write_text("1/0\n")
    (tmp_path / "pixi.toml").write_text('addons = ["broken.py"]\n')
    reply = stream("[WAVE: wildly][SEND: hi]", finish())
    async with ScriptedOpenAI(reply) as server:
        ended = await ask(server, tmp_path, "hi", "--addon", "waves.py")
        assert ended.out == "*waves wildly*\nhi\n"
        assert ended.err == (
            "pixi-persona: addon broken.py is left out: ZeroDivisionError: division by zero (line 1)\n"
        )
        assert "WAVE" in json.dumps(server.requests[0].json()["messages"])


async def test_the_only_model_of_a_server_needs_no_name(tmp_path: Path) -> None:
    listing = {"object": "list", "data": [{"id": "the-only-one", "object": "model"}]}
    async with ScriptedOpenAI(choose=lambda seen: HELLO if seen.body else answer(200, listing)) as server:
        ended = await chat(tmp_path, "hi", "--base-url", server.base_url)
        assert ended == Ended(0, "omg hi\n", "")
        assert server.requests[-1].json()["model"] == "the-only-one"
