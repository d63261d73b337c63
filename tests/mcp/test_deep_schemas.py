"""Messages that are nested more deeply than a parser goes: what is too deep is cut, and the rest counts."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.addons.mcp import register
from pixi.mcp.wire import shallow
from pixi.settings.sections import McpSettings
from pixi.toolbox.tools import Toolbox
from tests.mcp.scene import kept, rogue
from tests.steps import steps_of

AWKWARD = '"[{\\' + "}]" * 200  # brackets in a text are none


async def test_a_tool_with_an_abyss_for_a_schema_costs_no_other_tool(tmp_path: Path) -> None:
    async with kept(tmp_path, rogue("abyss")) as it:
        tools = (await it.ready()).tools
        assert [tool.name for tool in tools] == ["deep", "echo"]
        toolbox = Toolbox()
        assert register(tools, it.server, toolbox, McpSettings(command="x")) == []
        assert [tool.name for tool in toolbox] == ["rogue_deep", "rogue_echo"]


@pytest.mark.parametrize("levels", [1, 80, 159, 160, 200, 5_000])
@pytest.mark.parametrize(("opened", "closed"), [('{"a": ', "}"), ("[1, ", ", 2]")])
def test_what_is_too_deep_is_null_and_nothing_else(opened: str, closed: str, levels: int) -> None:
    text = json.dumps(AWKWARD)
    message = f'{{"x": {text}, "deep": {opened * levels}{text}{closed * levels}, "y": [{text}]}}'.encode()
    told = json.loads(shallow(message))
    assert (told["x"], told["y"]) == (AWKWARD, [AWKWARD])
    assert (shallow(message) == message) == (levels < 160)
    assert shallow(shallow(message)) == shallow(message)


@pytest.mark.parametrize("value", [{"name": AWKWARD, "of": [{}]}, [], {}], ids=["rows", "lists", "objects"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_long_message_that_is_not_deep_is_not_walked_over(value: object, whole: bool) -> None:
    message = json.dumps([value] * 5_000).encode()[: None if whole else -1]
    assert steps_of(lambda: shallow(message), in_lines=True) < 100
    assert shallow(message) == message


@given(
    st.lists(st.sampled_from([b"{", b"[" * 50, b"}", b"]", b'"', b"\\", b"a", b"\n", b"\xff"]), max_size=40)
)
def test_what_is_no_message_stays_as_it_is_or_is_cut(pieces: list[bytes]) -> None:
    message = b"".join(pieces)
    assert len(shallow(message)) <= len(message) + len(b"null") * message.count(b"[" * 50)
