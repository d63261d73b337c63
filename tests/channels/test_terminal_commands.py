"""The terminal's own commands: told, taken, and completed by Tab."""

import asyncio
import io
from datetime import datetime
from functools import partial

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from pixi.channels.terminal.commands import COMMANDS, HELP, Choices, CommandCompleter, TalkChange, told_why
from pixi.channels.terminal.lines import seat
from pixi.channels.terminal.live import LiveTerminal
from pixi.core.llm import ToolCall
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.engine.engine import Engine
from pixi.testing import RecordingChannel, ScriptedModel
from tests.pages import ROOT, code, read_page
from tests.waiting import until

CHOICES = Choices(lambda: {"edda": "keeps a light", "Wren": "keeps tea"}, ("fast", "slow"))


def completed(line: str) -> list[str]:
    found = CommandCompleter(CHOICES).get_completions(Document(line), CompleteEvent())
    return [line[: len(line) + each.start_position] + each.text for each in found]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("/w", ["/why"]),
        ("/P", ["/persona"]),
        ("/forget", ["/forget me"]),
        ("/persona ", ["/persona edda", "/persona Wren"]),
        ("/persona w", ["/persona Wren"]),
        ("/model f", ["/model fast"]),
        ("/undo x", []),
        ("why", []),
        ("//w", []),
    ],
)
def test_tab_completes_commands_and_names(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_every_command_is_offered_and_told() -> None:
    assert completed("/") == [f"/{name}" for name in COMMANDS]
    assert all(f"\n/{name} " in HELP for name in COMMANDS)


async def left_by(*typed: str, columns: int = 100) -> tuple[str, TalkChange | None]:
    """What a terminal shows where this is typed, and what for it was left. `⇒`: what is waited for."""
    model = ScriptedModel("[SEND: **hello** you]")
    screen = io.StringIO()
    with (
        create_pipe_input() as keys,
        create_app_session(input=keys, output=Vt100_Output(screen, lambda: Size(rows=40, columns=columns))),
    ):
        terminal = LiveTerminal(
            seat("pixi", "mo"), "Pixi", "hi", InMemoryHistory(), notes=False, choices=CHOICES
        )
        engine = Engine(model=model, persona=Persona("Pixi", "p"))
        talk = asyncio.create_task(terminal.run(lambda *_: engine))
        await until(lambda: terminal._answering)

        def came(expected: str) -> bool:
            there = expected in screen.getvalue() or expected == terminal._screen.line
            return there and not terminal.busy

        for each in typed:
            line, _, expected = each.partition(" ⇒ ")
            keys.send_text(line)
            await until(partial(came, expected))
        await talk
    return screen.getvalue(), terminal.wants


async def test_one_leaves_for_a_persona_a_model_or_a_choice() -> None:
    shown, wants = await left_by(
        "/persona\r ⇒ keeps tea", "/persona nobody\r ⇒ There is no persona nobody", "/persona wren\r"
    )
    assert wants == TalkChange("persona", "Wren")
    assert "You talk to Pixi" in shown
    shown, wants = await left_by("/model\r ⇒ by its name: fast, slow", "/model qwen3:8b\r")
    assert wants == TalkChange("model", "qwen3:8b")
    assert (await left_by("/brain\r"))[1] == TalkChange("brain")
    assert (await left_by("/quit\r"))[1] is None


async def test_tab_fills_the_line_in_and_shows_what_there_is() -> None:
    _, wants = await left_by("/per\t ⇒ /persona", " \t ⇒ Wren", "\t ⇒ /persona edda", "\r")
    assert wants == TalkChange("persona", "edda")


async def test_why_is_told_of_the_last_reply() -> None:
    nothing, why = "/why\r ⇒ Nothing was answered here yet", "/why\r ⇒ scripted, 1 request"
    shown, _ = await left_by(nothing, "hi\r ⇒ hello", why, "/quit\r")
    assert "no tools" in shown


async def test_why_names_what_was_offered_thought_done_and_reached() -> None:
    model = ScriptedModel([ToolCall("1", "roll", '{"sides": 6}')], "[NOTE: a four]\n[SEND: 4!]\n[SEND: and]")
    engine = Engine(model=model, persona=Persona("P", "p", tools=("roll",)), limits=Limits(messages=1))

    @engine.tool
    async def roll(context: object, sides: int) -> int:
        """Roll a die."""
        return 4

    channel = RecordingChannel()
    async with engine:
        await engine.receive(channel.message("roll it"), channel)
        await engine.settled()
        (turn,) = await engine.turns(channel.conversation, 1)
        looked_back = await engine.look_back(turn.id)
        assert looked_back is not None
        told = told_why(looked_back, datetime.now().astimezone()).splitlines()
        await engine.reset(channel.conversation)
        assert await engine.look_back(999) is None
    assert told[1:] == [
        "model      scripted, 2 requests",
        "tokens     the server did not count them",
        "offered    1 tool: roll",
        "thought    a four",
        "did        uses roll: sides 6",
        "ended      a limit was reached: messages of [limits]",
        "           the reply was closed at a limit",
    ]


def test_the_page_about_the_terminal_names_every_command() -> None:
    told = "\n".join(code(read_page(ROOT / "docs" / "terminal.md")))
    assert not [name for name in COMMANDS if f"/{name}" not in told]
