import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from pixi.core.errors import ConfigError
from pixi.documents import Documents, FileLimits, SetAside, process
from pixi.documents.files import Document, Section, open_regular
from pixi.documents.formats.fetched import Label, labelled
from pixi.documents.readers import Readers
from pixi.documents.wire import HANDS_OVER
from tests.documents.at_hand import write
from tests.documents.test_office import epub, line, pdf, word
from tests.waiting import until, within

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    async with Readers(workers=1) as readers:
        yield readers


def slow_text() -> str:
    """A text that takes seconds to read."""
    return "# Heading\n\ntext\n\n" * 1_000_000


def pids(readers: Readers) -> list[int]:
    return [process.pid for process in readers._processes]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_a_file_is_read_by_another_process(readers: Readers, tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", "# Title\n\nText.\n\n## Part\n\nMore.\n")
    documents = await readers.read(path)
    assert documents == (
        Document("", "Title", (Section("Text.", line=3), Section("More.", heading="Part", line=7))),
    )
    assert isinstance(documents, Documents)
    assert documents.note == ""
    (pid,) = pids(readers)
    assert pid != os.getpid()
    await readers.read(path)
    assert pids(readers) == [pid]  # it stays warm


@LINUX
async def test_what_the_program_itself_holds_does_not_count_against_who_reads_for_it(tmp_path: Path) -> None:
    program = [sys.executable, "-c", HOLDING, str(write(tmp_path / "a.md", "text"))]
    assert await asyncio.to_thread(subprocess.check_output, program, text=True) == "the same\n"


HOLDING = """
import asyncio, sys
from pathlib import Path
from pixi.documents.files import FileLimits
from pixi.documents.readers import Readers

async def main():
    held = bytearray(b"x") * 80_000_000  # more than half of what one process may hold
    async with Readers(workers=1, limits=FileLimits(megabytes=150)) as readers:
        await readers.read(Path(sys.argv[1]))
        pids = [process.pid for process in readers._processes]
        await readers.read(Path(sys.argv[1]))
        print("the same" if pids == [process.pid for process in readers._processes] else "another")
    del held

asyncio.run(main())
"""


async def test_many_files_come_once_each_and_faults_stop_nothing(tmp_path: Path) -> None:
    texts = {write(tmp_path / f"{number}.md", f"# {number}\n\nText.\n"): number for number in range(400)}
    bad = {
        tmp_path / "gone.md": "is gone",
        write(tmp_path / "broken.pdf", b"garbage"): "is broken",
        write(tmp_path / "a.exe", b"x"): "no kind",
        write(tmp_path / "bomb.json.zst", zstandard.compress(b"0" * 12_000_000)): "unpacks",
        write(tmp_path / "deep.json", "[" * 100_000): "nests",
    }
    came: dict[Path, object] = {}
    paths = list(texts)
    paths[100:100] = bad
    async with Readers(limits=FileLimits(unpacked_bytes=10_000_000)) as readers:
        async for path, outcome in readers.read_many(iter(paths)):
            assert path not in came
            came[path] = outcome
    for path, reason in bad.items():
        fault = came.pop(path)
        assert isinstance(fault, SetAside)
        assert reason in fault.reason
        assert "\n" not in fault.reason
    assert came == {
        path: (Document("", str(number), (Section("Text.", line=3),)),) for path, number in texts.items()
    }


async def test_every_kind_is_read_though_its_library_is_imported_behind_the_fence(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.pdf": pdf(line("pancake")),
        "a.docx": word("pancake"),
        "a.html": "<html><body><main><p>pancake</p></main></body></html>",
        "a.jsonl.zst": zstandard.compress(b'{"text": "pancake"}\n'),
        "a.csv": "what,how\npancake,round\n",
        "a.rst": "Title\n=====\n\npancake\n",
        "latin.txt": "pancake, crêpe, pâte à crêpes, œufs, beurre demi-salé\n".encode("cp1252"),
        "front.md": "---\ntitle: x\n---\npancake\n",
        "page.fetched": labelled(
            Label("https://example.org/", "html", "utf-8"),
            b"<html><body><article><h1>A</h1><p>pancake, and a paragraph.</p></article></body></html>",
        ),
    }
    epub(tmp_path / "a.epub")
    async with Readers(workers=1) as readers:
        for name, data in files.items():
            documents = await readers.read(write(tmp_path / name, data))
            assert "pancake" in " ".join(section.text for section in documents[0].sections), name
        assert await readers.read(tmp_path / "a.epub")


async def test_a_long_document_comes_whole(readers: Readers, tmp_path: Path) -> None:
    text = "字 " * 400_000
    records = "".join(f'{{"_id": "{number}", "text": "{number}"}}\n' for number in range(20_000))
    long = await readers.read(write(tmp_path / "a.md", f"# T\n\n{text}\n\n## P\n\n{text}"))
    assert [section.text for section in long[0].sections] == [text, text]
    many = await readers.read(write(tmp_path / "a.jsonl", records))
    assert [document.key for document in many] == [str(number) for number in range(20_000)]


async def test_what_was_passed_over_is_told(readers: Readers, tmp_path: Path) -> None:
    documents = await readers.read(write(tmp_path / "a.jsonl", '{"text": "x"}\nbroken\n'))
    assert isinstance(documents, Documents)
    assert documents.note.startswith("1 line is no record")


async def test_a_file_that_takes_too_long_is_set_aside_and_the_next_one_read(tmp_path: Path) -> None:
    slow = write(tmp_path / "slow.md", slow_text())
    others = [write(tmp_path / f"{number}.md", "text") for number in range(20)]
    async with Readers(workers=1, limits=FileLimits(seconds=1.0)) as readers:
        came = {path: out async for path, out in readers.read_many([*others[:10], slow, *others[10:]])}
    fault = came.pop(slow)
    assert isinstance(fault, SetAside)
    assert fault.reason == "takes longer than 1 s to read; split it, or take it out"
    assert all(len(outcome) == 1 for outcome in came.values() if not isinstance(outcome, SetAside))
    assert set(came) == set(others)


@LINUX
async def test_a_file_that_needs_too_much_memory_is_set_aside_and_the_next_one_read(tmp_path: Path) -> None:
    greedy = write(tmp_path / "greedy.json", "[" + "[1,2,3,4,5,6,7,8]," * 700_000 + "0]")
    small = write(tmp_path / "small.md", "text")
    async with Readers(workers=1, limits=FileLimits(megabytes=120)) as readers:
        came = {path: out async for path, out in readers.read_many([greedy, small])}
    fault = came[greedy]
    assert isinstance(fault, SetAside)
    assert fault.reason == "needs more than 120 MiB of memory to read; split it"
    assert not isinstance(came[small], SetAside)


@LINUX
async def test_a_process_killed_while_it_reads_is_replaced(readers: Readers, tmp_path: Path) -> None:
    reading = asyncio.create_task(readers.read(write(tmp_path / "a.txt", "word and word\n\n" * 300_000)))
    await until(lambda: pids(readers))
    (pid,) = pids(readers)
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    assert len(await reading) == 1
    assert pids(readers) != [pid]


@LINUX
async def test_a_file_that_ends_two_processes_is_to_blame(readers: Readers, tmp_path: Path) -> None:
    reading = asyncio.create_task(readers.read(write(tmp_path / "slow.md", slow_text())))
    killed: set[int] = set()
    while len(killed) < 2:
        await until(lambda: set(pids(readers)) - killed)
        (pid,) = set(pids(readers)) - killed
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
    with pytest.raises(SetAside, match="ends the process"):
        await reading
    assert len(await readers.read(write(tmp_path / "a.md", "text"))) == 1


@LINUX
async def test_a_process_that_died_unasked_is_not_asked(readers: Readers, tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", "text")
    await readers.read(path)
    os.kill(pids(readers)[0], signal.SIGKILL)
    assert len(await readers.read(path)) == 1


@LINUX
async def test_cancelling_ends_the_process_and_nothing_else(readers: Readers, tmp_path: Path) -> None:
    reading = asyncio.create_task(readers.read(write(tmp_path / "slow.md", slow_text())))
    await until(lambda: pids(readers))
    (pid,) = pids(readers)
    await asyncio.sleep(0.1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await until(lambda: is_gone(pid))
    assert len(await readers.read(write(tmp_path / "a.md", "text"))) == 1


@LINUX
async def test_leaving_many_files_in_the_middle_ends_what_was_begun(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.md", "text") for number in range(300)]
    slow = write(tmp_path / "slow.md", slow_text())
    async with Readers() as readers:
        many = readers.read_many([*paths, slow, *paths])
        async for _ in many:
            break
        await many.aclose()
        assert len(await readers.read(paths[0])) == 1
        before = pids(readers)
    assert before
    await until(lambda: all(map(is_gone, before)))


@LINUX
async def test_closing_sets_aside_what_is_being_read(tmp_path: Path) -> None:
    readers = Readers(workers=1)
    reading = asyncio.create_task(readers.read(write(tmp_path / "slow.md", slow_text())))
    await until(lambda: pids(readers))
    (pid,) = pids(readers)
    await readers.close()
    await readers.close()
    with pytest.raises(SetAside, match="reading was stopped") as caught:
        await reading
    assert caught.value.again
    assert is_gone(pid)
    with pytest.raises(SetAside, match="reading was stopped"):
        await readers.read(tmp_path / "slow.md")


async def test_calls_overlap(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.md", f"text {number}") for number in range(40)]
    async with Readers() as readers:
        outcomes = await asyncio.gather(*map(readers.read, paths))
    assert [outcome[0].sections[0].text for outcome in outcomes] == [f"text {n}" for n in range(40)]


@LINUX
async def test_no_secret_goes_along(
    readers: Readers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    await readers.read(write(tmp_path / "a.md", "text"))
    environment = Path(f"/proc/{pids(readers)[0]}/environ").read_bytes()
    assert b"canary" not in environment


ORPHAN = """
import asyncio, sys
from pathlib import Path
from pixi.documents.readers import Readers

async def main():
    readers = Readers(workers=2)
    reading = asyncio.create_task(readers.read(Path(sys.argv[1])))
    await readers.read(Path(sys.argv[2]))
    while len(readers._processes) < 2:
        await asyncio.sleep(0.01)
    print(*(process.pid for process in readers._processes), flush=True)
    await reading

asyncio.run(main())
"""


@LINUX
async def test_the_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    slow, quick = write(tmp_path / "slow.md", slow_text()), write(tmp_path / "quick.md", "text")
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", ORPHAN, str(slow), str(quick)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        found = [int(pid) for pid in (await asyncio.to_thread(parent.stdout.readline)).split()]
        assert len(found) == 2
        parent.kill()
    await until(lambda: all(map(is_gone, found)))


IMPOSTOR = """
import struct, sys, time
sys.stdin.buffer.read(4)
def say(body):
    sys.stdout.buffer.write(struct.pack(">I", len(body)) + body)
    sys.stdout.buffer.flush()
say(b"\\x91\\x91\\xa5ready")
try:
    {what}
except BrokenPipeError:
    pass
time.sleep(60)
"""


@pytest.mark.parametrize(
    "what",
    [
        "sys.stdout.buffer.write(b'\\xff' * 100); sys.stdout.buffer.flush()",  # a frame of 4 GB
        "say(b'garbage')",
        "import pickle; say(pickle.dumps(print))",
        "say(b'\\x91\\x94\\xa7refused\\x05\\xa1x\\xc2')",  # a file that nobody asked for
        "say(b'\\x91\\x91\\xa5ready')",
        "[say(b'\\x91\\x96\\xa5piece\\x00\\x91\\x83\\xa3key\\xa0\\xa5title\\xdb\\x00\\x0f\\x00\\x00'"
        " + b'x' * 0xf0000 + b'\\xa8sections\\x90\\x00\\xc2\\xa0') for _ in range(1000)]",  # without an end
        "say(b'\\x91\\x96\\xa5piece\\x00\\x90\\x00\\xc2\\xa1x')",  # a note before all has come
        # pieces of nothing
        "[say(b'\\xdc\\x10\\x00' + b'\\x96\\xa5piece\\x00\\x90\\x01\\xc2\\xa0' * 4096) for _ in range(100)]",
    ],
)
async def test_a_process_that_strangers_took_over_is_not_believed(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write(tmp_path / "impostor.py", IMPOSTOR.format(what=what))
    monkeypatch.setattr(process, "_SCRIPT", script)
    async with Readers(workers=1, limits=FileLimits(characters=1_000_000)) as readers:
        with pytest.raises(SetAside, match="confuses"):
            await readers.read(write(tmp_path / "a.md", "text"))
        assert pids(readers) == []


@pytest.mark.parametrize("script", ["raise SystemExit(3)", "print('hello')", ""])
async def test_a_process_that_does_not_start_is_for_the_operator(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_SCRIPT", write(tmp_path / "broken.py", script))
    path = write(tmp_path / "a.md", "text")
    async with Readers() as readers:
        with pytest.raises(ConfigError, match="does not start"):
            await readers.read(path)
        with pytest.raises(ConfigError, match="does not start"):
            async for _ in readers.read_many([path] * 100):
                pass


@pytest.mark.skipif(sys.platform == "win32", reason="keeps the folder where a process is")
async def test_where_the_current_folder_is_gone_files_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.md", "text")
    (tmp_path / "gone").mkdir()
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    async with Readers(workers=1) as readers:
        assert (await readers.read(path))[0].sections[0].text == "text"


HANDED_OVER = pytest.mark.skipif(not HANDS_OVER, reason="only paths are sent here")


@HANDED_OVER
async def test_files_that_nobody_can_open_hold_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = threading.Event()

    def open_or_wait(path: bytes, limits: FileLimits) -> int:
        if b"gone" in path:
            back.wait()
        return open_regular(path, limits)

    monkeypatch.setattr(process, "open_regular", open_or_wait)
    monkeypatch.setattr(process, "_MOST_OPENING", 3)
    before = sum(thread.name == "opener" for thread in threading.enumerate())  # of other tests
    good = write(tmp_path / "a.md", "text")
    gone = [write(tmp_path / f"gone{number}.md", "text") for number in range(2)]
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    try:
        async with Readers(workers=1, limits=FileLimits(seconds=0.05)) as readers:
            for path in gone:
                with pytest.raises(SetAside, match="takes longer"):
                    await readers.read(path)
            async with within("a thread of the loop"):
                await asyncio.to_thread(lambda: 1)
            assert sum(thread.name == "opener" for thread in threading.enumerate()) <= before + 3
            readers._limits = replace(readers._limits, seconds=60.0)
            assert (await readers.read(good))[0].sections[0].text == "text"
    finally:
        back.set()


@HANDED_OVER
async def test_files_are_kept_open_until_they_are_answered(
    readers: Readers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    send, receive = socket.send_fds, process.ReadingProcess._receive
    held: list[bool] = []
    path = write(tmp_path / "a.md", "text")

    def is_open() -> bool:
        try:
            return os.fstat(sent[0]).st_ino == path.stat().st_ino
        except OSError:
            return False

    async def receive_and_look(self: process.ReadingProcess, deadline: float) -> object:
        held.append(bool(sent) and is_open())
        return await receive(self, deadline)

    def send_and_tell(own: socket.socket, frames: list[bytes], files: list[int]) -> int:
        sent.extend(files)
        return send(own, frames, files)

    monkeypatch.setattr(socket, "send_fds", send_and_tell)
    monkeypatch.setattr(process.ReadingProcess, "_receive", receive_and_look)
    await readers.read(path)
    assert held[1:] == [True] * len(held[1:])
    assert len(held) > 1
    assert not is_open()
