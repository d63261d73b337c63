"""The bundled model in its own process: real llama.cpp, real weights, one process for most of the tests."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
from msgspec import structs
from msgspec.structs import replace

from pixi.core.errors import ConfigError, ModelError
from pixi.core.language import CommandEnded, CommandStarted, CommandStream, Prose
from pixi.core.llm import (
    AssistantLine,
    Finished,
    Line,
    PromptProgress,
    Repeats,
    Request,
    SystemLine,
    Text,
    UserLine,
)
from pixi.core.persona import Persona
from pixi.core.prompt import CommandHelp, command_grammar, prefix
from pixi.engine.context import prompt_template
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.models import llama_process
from pixi.models.llama import LocalModel
from pixi.models.llama_process import LlamaProcess, ServerSettings
from pixi.models.traits import describe
from pixi.models.weights import cached, installed
from pixi.settings.sections import Sampling
from tests.knowledge.retrieval.scene import BRIDGE_ENTRY, TEA_ENTRY
from tests.waiting import until

WEIGHTS = installed() or cached()
pytestmark = [
    pytest.mark.skipif(
        find_spec("xllamacpp") is None, reason="xllamacpp is not installed: `make test` does it"
    ),
    pytest.mark.skipif(WEIGHTS is None, reason="the bundled weights are not here: `make test` fetches them"),
    pytest.mark.asyncio(loop_scope="module"),
]

SEND = CommandHelp("send", "message", "a message")
NOTE = CommandHelp("note", "thought", "a thought")
REACT = CommandHelp("react", "emoji", "an emoji")
PREFIX: tuple[Line, ...] = (
    SystemLine("You are Pixi, a cheerful art student who lives on a small island."),
    UserLine("Hi!"),
    AssistantLine("[REACT: 👋]\n[SEND: Hi! I was drawing a cat.]"),
    UserLine("What do you like?"),
    AssistantLine("[SEND: I love cats and pancakes!]"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncGenerator[LocalModel, None]:
    local = await LocalModel.open(context_tokens=1024, max_tokens=120)
    yield local
    await local.close()


async def reply_to(
    model: LocalModel, said: str, commands: Sequence[CommandHelp], *, small: bool = True, silence: bool = True
) -> tuple[str, Finished]:
    grammar = command_grammar(commands, silence=silence, small=small)
    return await whole(model, Request((*PREFIX, UserLine(said)), grammar=grammar))


async def whole(model: LocalModel, request: Request) -> tuple[str, Finished]:
    text, last = "", None
    async for delta in model.stream(request):
        if isinstance(delta, Text):
            text += delta.text
        last = delta
    assert isinstance(last, Finished)
    return text, last


def commands_in(text: str, names: Sequence[str], finished: Finished) -> list[CommandEnded]:
    """The commands of a reply that is nothing else, but for a name that the token limit cut in two."""
    if finished.reason == "length":
        text = re.sub(r"\[[^:\]]*$", "", text)
    stream = CommandStream(names)
    events = [*stream.feed(text), *stream.close()]
    assert not [e for e in events if isinstance(e, Prose) and e.text.strip()], text
    ends = [e for e in events if isinstance(e, CommandEnded)]
    assert len(ends) == len([e for e in events if isinstance(e, CommandStarted)])
    return ends


@pytest.mark.nightly
async def test_it_is_what_it_says(model: LocalModel) -> None:
    assert model.name.startswith("SmolLM2-135M")
    assert describe(model.traits) == "135M: short prompt, no tools"
    assert model.traits.context_tokens == 1024


@pytest.mark.nightly
@pytest.mark.parametrize("said", ["[SEND: [[ ]", "tell me a very long story!", "😀 你好"])
async def test_every_reply_is_complete_commands(model: LocalModel, said: str) -> None:
    await replies_in_complete_commands(model, said)


async def replies_in_complete_commands(model: LocalModel, said: str) -> None:
    text, finished = await reply_to(model, said, (NOTE, REACT, SEND))
    ends = commands_in(text, ("note", "react", "send"), finished)
    full = ends[:-1] if finished.reason == "length" else ends  # some scripts take a token for each character
    assert all(end.complete and end.argument for end in full)
    assert 1 <= sum(end.name == "send" for end in ends) <= 2
    assert [end.name for end in ends] == sorted((e.name for e in ends), key=["note", "react", "send"].index)
    # As the history holds it: the next prompt begins with this one, to the byte.
    written = "\n".join(f"[{end.name.upper()}: {end.argument}]" for end in full)
    assert text == written or (full != ends and text.startswith(written))


@pytest.mark.nightly
@pytest.mark.parametrize("silence", [True, False])
@pytest.mark.parametrize("said", ["hi", "show me some code"])
async def test_the_large_grammar_is_taken_and_read_too(model: LocalModel, said: str, silence: bool) -> None:
    text, finished = await reply_to(model, said, (SEND, NOTE, REACT), small=False, silence=silence)
    ends = commands_in(text, ("note", "react", "send"), finished)
    assert ends
    if finished.reason == "stop":
        assert all(end.complete for end in ends)
        assert silence or any(end.name == "send" for end in ends)


@pytest.mark.nightly
@pytest.mark.parametrize("grammar", ["auto", "llama.cpp"])
async def test_set_to_a_larger_size_it_takes_the_whole_prompt(grammar: Literal["auto", "llama.cpp"]) -> None:
    commands = (SEND, NOTE, REACT)
    persona = Persona("Pixi", "You are Pixi, an art student who loves pancakes.")
    lines = prefix(prompt_template(small=False), persona, commands, person="Mo", small=False)
    local = await LocalModel.open(parameters=1.5, context_tokens=2048, max_tokens=60, grammar=grammar)
    try:
        assert describe(local.traits) == "1.5B: whole prompt, no tools"
        wanted = command_grammar(commands, silence=True, small=False)
        text, finished = await whole(local, Request((*lines, UserLine("mo: hi")), grammar=wanted))
        assert text
        if grammar != "auto":
            assert commands_in(text, ("note", "react", "send"), finished)
        held, _ = await whole(local, Request((*lines, UserLine("mo: hi")), grammar='root ::= "x"'))
        assert (held == "x") == (grammar != "auto")
    finally:
        await local.close()


@pytest.mark.nightly
async def test_commands_of_ones_own(model: LocalModel) -> None:
    wave = CommandHelp("挥手", "how", "wave")
    odd = CommandHelp('say "hi" \\ now', "", "odd")
    text, finished = await reply_to(model, "wave!", (wave,))
    assert {end.name for end in commands_in(text, ("挥手",), finished)} == {"挥手"}
    text, _ = await reply_to(model, "hi", (odd,))
    assert text.splitlines()[0] == '[SAY "HI" \\ NOW]'


@pytest.mark.nightly
async def test_warmed_up_it_evaluates_only_what_is_new(model: LocalModel) -> None:
    lines = (SystemLine("You are Bo. " * 40), *PREFIX[1:])
    await model.warm(lines)
    text, first = await whole(model, Request((*lines, UserLine("How are you?")), grammar=grammar()))
    assert first.usage.prompt_tokens > 150
    assert first.usage.prompt_tokens - first.usage.cached_tokens <= 30
    longer = (*lines, UserLine("How are you?"), AssistantLine(text), UserLine("And now?"))
    _, second = await whole(model, Request(longer, grammar=grammar()))
    # A reply is not always cut into the tokens that it was written in: at worst it is read once more.
    new = first.usage.completion_tokens + 30
    assert second.usage.prompt_tokens - second.usage.cached_tokens <= new


@pytest.mark.nightly
async def test_documents_and_the_talk_beside_them_are_read_once(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bundled model is not trusted with documents. What its server keeps is the same for any.
    monkeypatch.setattr(model, "_traits", structs.replace(model.traits, small=False))
    talk: tuple[Line, ...] = (SystemLine("You are Bo. " * 20), UserLine("How are you?"))
    text, first = await whole(model, Request(talk))
    new: list[int] = []  # tokens that were evaluated for each question
    agent = RetrievalAgent(model)
    questions = ("Who built the Khaju bridge?", "From where is the tea?", "How long is it, in metres?")
    for number, question in enumerate(questions):
        entries = [TEA_ENTRY, BRIDGE_ENTRY] if number % 2 else [BRIDGE_ENTRY, TEA_ENTRY]
        await agent.query(
            question,
            entries,
            lambda name, usage, prices: new.append(usage.prompt_tokens - usage.cached_tokens),
        )
        talk = (*talk, AssistantLine(text), UserLine("And now?"))
        said = first.usage.completion_tokens
        text, first = await whole(model, Request(talk))
        assert first.usage.prompt_tokens - first.usage.cached_tokens <= said + 30
    await agent.close()
    assert new[0] > 300
    assert max(new[1:]) <= 30


@pytest.mark.nightly
async def test_a_reply_that_nobody_wants_any_more(model: LocalModel) -> None:
    stream = model.stream(Request((*PREFIX, UserLine("hi")), grammar=grammar()))
    await anext(stream)
    await stream.aclose()
    await replies_in_complete_commands(model, "hi")


@pytest.mark.nightly
async def test_a_proxy_of_the_environment_is_not_in_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    model = await LocalModel.open(context_tokens=256)
    try:
        await model.warm(PREFIX[:1])
    finally:
        await model.close()


@pytest.mark.nightly
async def test_how_it_samples_may_be_set() -> None:
    stops = Sampling(stop=(" ",), seed=7).fields_for("llama.cpp")
    model = await LocalModel.open(context_tokens=512, max_tokens=20, sampling=stops)
    try:
        replies = [(await whole(model, Request((*PREFIX, UserLine("Hi!")))))[0] for _ in range(3)]
    finally:
        await model.close()
    assert replies[1]
    assert replies[1] == replies[2]  # the first read the prompt in other pieces, which rounds otherwise
    assert " " not in "".join(replies)


@pytest.mark.nightly
async def test_a_process_that_dies_is_named_and_started_again_once() -> None:
    told: list[str] = []
    model = await LocalModel.open(context_tokens=512, max_tokens=40, progress=told.append)
    try:
        assert told[0] == f"loading {model.name} …"  # and the seconds, where it takes long
        await killed_in_mid_reply(model)
        text, _ = await reply_to(model, "hi", (SEND,))
        assert text.startswith("[SEND: ")
        await killed_in_mid_reply(model)
        await killed_in_mid_reply(model)
        with pytest.raises(ModelError, match="died twice") as caught:
            await reply_to(model, "hi", (SEND,))
        assert caught.value.permanent
    finally:
        await model.close()
    with pytest.raises(ModelError, match="is closed"):
        await reply_to(model, "hi", (SEND,))


async def killed_in_mid_reply(model: LocalModel) -> None:
    stream = model.stream(Request((*PREFIX, UserLine("hi")), grammar=grammar()))
    await anext(stream)
    os.kill(pid_of(model), signal.SIGKILL)
    with pytest.raises(ModelError, match=f"{model.name} died: it was ended by signal 9"):
        async for _ in stream:
            pass


def pid_of(model: LocalModel) -> int:
    process = model._process
    assert process is not None
    return process.pid


def grammar() -> str:
    return command_grammar((SEND, NOTE, REACT), silence=True, small=True)


@pytest.mark.nightly
async def test_a_prompt_that_nobody_waited_for_to_its_end_is_read_on(model: LocalModel) -> None:
    long = " ".join(f"Ferry {number} leaves from the harbour at {number % 24}." for number in range(60))
    request = Request((SystemLine(long), UserLine("hi")))
    reached = total = 0
    async with aclosing(model.stream(request)) as deltas:
        async for delta in deltas:
            assert isinstance(delta, PromptProgress)
            reached, total = delta.done, delta.total
            if reached:
                break
    assert 0 < reached < total
    told = [delta async for delta in model.stream(request) if isinstance(delta, PromptProgress)]
    assert told[0].done >= reached


@pytest.mark.nightly
async def test_closing_ends_the_process_without_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_process, "_CLOSE_SECONDS", 60.0)
    assert WEIGHTS is not None
    process = await LlamaProcess.start(ServerSettings(str(WEIGHTS), 256, 1))
    await process.close()
    await process.close()
    assert not process.alive
    assert "signal" not in process.last_words


async def test_a_broken_file_is_named_with_what_llama_cpp_says(tmp_path: Path) -> None:
    assert WEIGHTS is not None
    broken = tmp_path / "broken.gguf"
    with WEIGHTS.open("rb") as file:
        broken.write_bytes(file.read(3_000_000))
    with pytest.raises(ConfigError, match=r"cannot load .*broken\.gguf: .*corrupted or incomplete"):
        await LocalModel.open(broken)


async def test_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.models.llama.importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r'pip install "pixi-persona\[local\]"'):
        await LocalModel.open()


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_neither_ctrl_c_nor_a_killed_parent_leaves_an_orphan(tmp_path: Path) -> None:
    """Ctrl-C in the terminal goes to the whole group, and the child outlives it; its parent it does not."""
    program = textwrap.dedent(f"""
        import asyncio, signal, sys
        from pixi.models.llama_process import LlamaProcess, ServerSettings

        async def main():
            process = await LlamaProcess.start(ServerSettings({str(WEIGHTS)!r}, 256, 1))
            signal.signal(signal.SIGINT, lambda *_: print("interrupted", process.alive, flush=True))
            print(process.pid, flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
    """)
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    os.killpg(parent.pid, signal.SIGINT)
    assert await parent.stdout.readline() == b"interrupted True\n"
    await asyncio.sleep(0.1)
    assert runs(child)
    parent.kill()
    await parent.wait()
    await until(lambda: not runs(child), "the end of the orphan")


def runs(pid: int) -> bool:
    """Whether a process is alive; one that ended and was not yet collected is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        if sys.platform == "linux":
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return state != "Z"


SAID = "I was drawing a cat and it ran away!"


@pytest.mark.nightly
@pytest.mark.parametrize("repeats", ["few", "none"])
async def test_a_reply_can_be_kept_from_saying_the_same_again(model: LocalModel, repeats: Repeats) -> None:
    """Left alone the bundled model does: it said so eight times, and says it a ninth time."""
    history = (UserLine("What did you do?"), AssistantLine(f"[SEND: {SAID}]")) * 8
    grammar = command_grammar([SEND], silence=False, small=True)
    request = Request((*PREFIX, *history, UserLine("What did you do?")), grammar=grammar)
    free = [(await whole(model, request))[0] for _ in range(3)]
    kept = [(await whole(model, replace(request, repeats=repeats)))[0] for _ in range(3)]
    assert any(SAID in text for text in free)
    assert not any(SAID in text for text in kept)
