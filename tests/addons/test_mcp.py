"""Tools of MCP servers, as personas get them: names, terms, what they are given and what they give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from pixi.addons.mcp import register, written
from pixi.core.errors import ConfigError, ToolError
from pixi.core.llm import ToolCall
from pixi.core.message import Image
from pixi.core.persona import Persona
from pixi.engine.context import Role
from pixi.mcp.offers import CallFailed, CallResult, ForeignTool
from pixi.settings.sections import McpSettings
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.tools import EVERYBODY, Tool, Toolbox, tool_from
from tests.engine.scene import scene
from tests.steps import steps_of
from tests.toolbox.narrow import NAME, faults_of

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def foreign(name: str, *, schema: Mapping[str, Any] = CITY, **more: Any) -> ForeignTool:
    return ForeignTool("weather", name, more.pop("title", ""), more.pop("says", "Tells it."), schema, **more)


@dataclass
class Elsewhere:
    """A server that remembers what it was asked, and answers as it was told to."""

    name: str = "weather"
    answer: CallResult | CallFailed = "sunny"
    calls: list[tuple[str, Mapping[str, Any], float]] = field(default_factory=list)

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        self.calls.append((tool, arguments, seconds))
        if isinstance(self.answer, CallFailed):
            raise self.answer
        return self.answer


def registered(
    *tools: ForeignTool, server: Elsewhere | None = None, toolbox: Toolbox | None = None, **wishes: Any
) -> tuple[list[Tool], list[str]]:
    toolbox = Toolbox() if toolbox is None else toolbox
    told = register(tools, server or Elsewhere(), toolbox, McpSettings(command="x", **wishes))
    return list(toolbox), told


async def called(tool: Tool, arguments: Mapping[str, Any]) -> Any:
    # The context is for commands and tools of Pixi; a tool of a server is told nothing of the talk.
    return await tool.call(None, arguments)  # type: ignore[arg-type]


# What becomes of a tool.


def test_a_tool_has_the_servers_name_in_front_and_its_source() -> None:
    (tool,), told = registered(foreign("forecast", says="Tells the weather of tomorrow."))
    assert told == []
    assert (tool.name, tool.source, tool.personas) == ("weather_forecast", "mcp:weather", EVERYBODY)
    assert tool.schema.description == "Tells the weather of tomorrow."
    assert tool.schema.parameters == CITY


def test_a_tool_makes_room_for_one_of_ours_that_wants_its_name() -> None:
    async def weather_forecast(context: Any) -> str:
        """Ours."""
        return "ours"

    early, late = Toolbox(), Toolbox()
    registered(foreign("forecast"), toolbox=early)
    early.add(tool_from(weather_forecast))
    late.add(tool_from(weather_forecast))
    registered(foreign("forecast"), toolbox=late)
    named = {tool.name: tool.source for tool in early}
    assert named == {tool.name: tool.source for tool in late}
    assert named.pop("weather_forecast") == ""
    ((other, source),) = named.items()
    assert NAME.fullmatch(other)
    assert source == "mcp:weather"
    assert early.remove("mcp:weather") == 1
    with pytest.raises(ConfigError, match="the name is taken"):
        early.add(tool_from(weather_forecast))


async def test_schemas_are_written_beforehand_without_holding_anybody_up() -> None:
    tools = [foreign(f"t{number}") for number in range(50)] + [foreign("bad", schema={"type": "array"})]
    wishes = McpSettings(command="x")
    schemas = await written(tools, wishes)
    toolbox = Toolbox()
    told = register(tools, Elsewhere(), toolbox, wishes, schemas)
    assert len(toolbox) == 50
    assert told == [
        "MCP server weather: the tool “bad” is left out: it takes no arguments with names, but array."
    ]


def test_hundreds_that_are_left_out_are_not_all_named() -> None:
    _, told = registered(*(foreign(f"t{number}", schema={"type": "array"}) for number in range(300)))
    assert len(told) == 21
    assert told[-1] == "MCP server weather: 280 more tools are left out so."


def test_a_tool_in_chinese_is_called_safely_and_its_name_is_told() -> None:
    (tool,), _ = registered(foreign("获取天气", says="查询天气预报。"))
    assert tool.name.startswith("weather_cjk_")
    assert NAME.fullmatch(tool.name)
    assert tool.schema.description == "“获取天气” of the MCP server weather. 查询天气预报。"


def test_names_follow_from_the_names_alone_whatever_joins_first() -> None:
    def names(*order: str) -> set[str]:
        toolbox = Toolbox()
        for server in ("a", "a_b", "a-b"):
            toolbox.announce(f"mcp:{server}")
        for name in order:
            tools = [ForeignTool(name, tool, "", "x", {}) for tool in ("b_c", "c", "c.c", "c c")]
            register(tools, Elsewhere(name), toolbox, McpSettings())
        return {f"{tool.source} {tool.name}" for tool in toolbox}

    assert names("a", "a_b") == names("a_b", "a")
    assert len(names("a", "a_b", "a-b")) == 12


def test_what_is_registered_takes_the_place_of_what_was_and_only_that() -> None:
    toolbox = Toolbox()
    registered(foreign("one"), foreign("two"), toolbox=toolbox)
    register([ForeignTool("time", "now", "", "x", {})], Elsewhere("time"), toolbox, McpSettings())
    tools, _ = registered(foreign("two"), foreign("three"), toolbox=toolbox)
    assert [tool.name for tool in tools] == ["time_now", "weather_two", "weather_three"]


@pytest.mark.parametrize(
    ("wishes", "says_that_it_reads", "writes", "approval"),
    [
        ({}, True, False, False),
        ({}, False, True, True),
        ({"reads": ("*",)}, False, False, False),
        ({"reads": ("forecast",)}, False, False, False),
        ({"reads": ()}, True, True, True),
        ({"approval": "never"}, False, True, False),
        ({"approval": "always"}, True, False, True),
    ],
)
def test_who_changes_something_and_who_is_asked_follows_from_the_settings_first(
    wishes: dict[str, Any], says_that_it_reads: bool, writes: bool, approval: bool
) -> None:
    (tool,), _ = registered(foreign("forecast", reads=says_that_it_reads), **wishes)
    assert (tool.writes, tool.approval) == (writes, approval)


def test_seconds_and_personas_are_those_of_the_settings() -> None:
    (tool,), _ = registered(foreign("forecast"), seconds=3.0, personas=("edda",))
    assert (tool.timeout, tool.personas) == (3.0, ("edda",))


# What is left out, and said.


def test_only_the_tools_of_the_settings_are_taken_and_what_is_not_there_is_told_with_the_nearest() -> None:
    tools, told = registered(
        foreign("forecast"), foreign("alerts"), tools=("forecast", "alert", "zzz"), reads=("forecst",)
    )
    assert [tool.name for tool in tools] == ["weather_forecast"]
    assert told == [
        "MCP server weather: tools of [mcp.weather] names “alert”, which it does not have; did you mean "
        "“alerts”?",
        "MCP server weather: tools of [mcp.weather] names “zzz”, which it does not have; it has “forecast”, "
        "“alerts”.",
        "MCP server weather: reads of [mcp.weather] names “forecst”, which it does not have; did you mean "
        "“forecast”?",
    ]


def test_a_schema_that_no_model_takes_leaves_its_tool_out_and_no_other() -> None:
    tools, told = registered(foreign("odd", schema={"type": "string"}), foreign("fine"))
    assert [tool.name for tool in tools] == ["weather_fine"]
    assert told == [
        "MCP server weather: the tool “odd” is left out: it takes no arguments with names, but string.",
    ]


def test_a_server_of_thousands_is_taken_in_part_and_each_tool_costs_the_same() -> None:
    registered(foreign("tool"))  # what is done once
    steps: dict[int, int] = {}
    for many in (100, 400):
        offered = [foreign(f"tool {n}") for n in range(many)]
        steps[many] = steps_of(partial(registered, *offered))
    assert steps[400] < 5 * steps[100]
    tools, told = registered(*(foreign(f"tool {n}") for n in range(5_000)))
    assert len(tools) == 1_000
    assert told == [
        "MCP server weather: it has 5000 tools, and the first 1000 are taken; name those that you want under "
        "`tools` of [mcp.weather]."
    ]


def test_strangers_words_are_clipped() -> None:
    (tool,), told = registered(foreign("x" * 500 + "\n", says="\x1b[31m" + "long " * 5_000))
    assert told == []
    assert NAME.fullmatch(tool.name)
    assert len(tool.schema.description) <= 1_025
    assert "\x1b" not in tool.schema.description


# What it is given.


async def test_arguments_are_mended_led_back_and_sent_by_the_servers_own_names() -> None:
    server = Elsewhere()
    schema = {
        "type": "object",
        "properties": {
            "user.city": {"type": "string"},
            "days": {"type": ["array", "null"], "items": {"type": "integer"}},
            "mode": {"enum": ["Short", "Long"]},
        },
        "required": ["user.city"],
    }
    (tool,), _ = registered(foreign("获取", schema=schema), server=server, seconds=7.0)
    given = {"arguments": {"user_city": "Oslo", "days": "[1, 2]", "mode": "short"}}
    assert await called(tool, given) == "sunny"
    assert server.calls == [("获取", {"user.city": "Oslo", "days": [1, 2], "mode": "Short"}, 7.0)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "city is missing: a text"),
        ({"city": 5}, "city must be a text, not 5"),
        ({"city": "Oslo", "town": 1}, "there is no argument town"),
        ({"city": "Oslo", "near": {"lat_": 1}}, "near.lat is missing: a number from -90 to 90"),
        ({"city": "Oslo", "near": {"lat": 95}}, "near.lat must be a number from -90 to 90, not 95"),
        ({"city": "Oslo", "x_y": [1, "a"]}, "x_y[1] must be a whole number, not"),
        ({"city": "Oslo", "even": 3}, "even: 3 is not a multiple of 2"),
    ],
)
async def test_what_does_not_fit_is_told_in_words_and_nothing_is_sent(given: Any, told: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "near": {
                "type": "object",
                "properties": {"lat": {"type": "number", "minimum": -90, "maximum": 90}},
                "required": ["lat"],
            },
            "x.y": {"type": "array", "items": {"type": "integer"}},
            "even": {"multipleOf": 2},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    server = Elsewhere()
    (tool,), _ = registered(foreign("forecast", schema=schema), server=server)
    with pytest.raises(ToolError) as caught:
        await called(tool, given)
    assert str(caught.value).startswith("Wrong arguments for weather_forecast: ")
    assert told in str(caught.value)
    assert "It takes city (a text)" in str(caught.value)
    assert server.calls == []


@pytest.mark.parametrize(
    "more",
    [
        {"pattern": "^(a+)+$"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#/$defs/nowhere"},
        {"type": 5},
        {"allOf": [{"$ref": "#/$defs/d0"}]},
    ],
)
async def test_a_schema_that_cannot_be_checked_by_is_left_to_the_server(more: dict[str, Any]) -> None:
    doubling = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"type": "object", "properties": {"city": {"type": "string"} | more}, "$defs": doubling}
    server = Elsewhere()
    (tool,), _ = registered(foreign("forecast", schema=schema), server=server)
    await called(tool, {"city": "a" * 40 + "!"})  # what went by such a schema would never end
    assert len(server.calls) == 1


# What it gives.


async def test_a_failure_is_told_in_the_servers_words() -> None:
    (tool,), _ = registered(foreign("forecast"), server=Elsewhere(answer=CallFailed("No such city.")))
    with pytest.raises(ToolError, match=r"No such city\."):
        await called(tool, {"city": "Oslo"})


async def test_text_and_pictures_come_in_their_order() -> None:
    picture = Image("image/png", b"png")
    (tool,), _ = registered(foreign("radar"), server=Elsewhere(answer=["before", picture, "after"]))
    assert await called(tool, {"city": "Oslo"}) == ["before", picture, "after"]


async def test_a_persona_uses_it_in_a_talk_and_a_person_is_asked_before_it_changes_anything() -> None:
    server = Elsewhere()
    tools: Sequence[ForeignTool] = [foreign("forecast", reads=True), foreign("wish", says="Makes weather.")]
    model = ScriptedModel(
        [ToolCall("1", "weather_forecast", '{"city": "Oslo"}')],
        [ToolCall("2", "weather_wish", '{"city": "Oslo"}')],
        "[SEND: no luck]",
    )
    channel = RecordingChannel()
    channel.verdicts.append("no")
    async with scene(model, persona=Persona("Pixi", "You are Pixi."), channel=channel) as stage:
        assert register(tools, server, stage.engine.tools, McpSettings()) == []
        await stage.talk("make it sunny")
    assert [name for name, *_ in server.calls] == ["forecast"]
    assert channel.questions[0].does == "Makes weather."
    assert channel.sent == ["no luck"]
    assert all(faults_of(tool.parameters) == [] for tool in model.requests[0].tools)


async def test_a_persona_may_name_a_tool_of_a_server_that_is_not_there_yet() -> None:
    persona = Persona("Pixi", "You are Pixi.", tools=("weather_forecast",))
    call = ToolCall("1", "weather_forecast", '{"city": "Oslo"}')
    model = ScriptedModel("[SEND: one moment]", [call], "[SEND: sun]")
    async with scene(model, resolver=lambda _: Role(persona, model)) as stage:
        stage.engine.tools.announce("mcp:weather")
        await stage.talk("the weather?")
        wishes = McpSettings(personas=("edda",))
        register([foreign("forecast", reads=True)], Elsewhere(), stage.engine.tools, wishes)
        await stage.talk("and now?")
    assert stage.channel.sent == ["one moment", "sun"]


async def test_a_tool_that_no_server_would_have_is_still_a_mistake() -> None:
    persona = Persona("Pixi", "You are Pixi.", tools=("wether_forecast",))
    async with scene(ScriptedModel(), persona=Persona("Pixi", "You are Pixi.")) as stage:
        stage.engine.tools.announce("mcp:weather")
        with pytest.raises(ConfigError, match="no tool 'wether_forecast'"):
            stage.engine.check(persona)
