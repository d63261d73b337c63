"""Five hundred tools at once: which the model is offered, and how long the choice stays as it is."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from pixi.core.llm import AssistantLine, SystemLine, ToolCall, ToolSchema, UserLine
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.engine.capabilities import Capabilities, ToolRoom, ToolSelector
from pixi.models.dialects.chat import chat_fields
from pixi.models.dialects.prompt import Style, encoded
from pixi.models.model import Traits
from pixi.testing import ScriptedModel
from pixi.toolbox.tools import EVERYBODY, BoundCall, Tool
from tests.engine.scene import scene
from tests.steps import steps_of

NEEDLES = {
    "github_create_issue": "Create a new issue in a GitHub repository.",
    "github_list_pull_requests": "List pull requests of a repository, open or closed.",
    "mail_send_message": "Send an e-mail to one or more recipients.",
    "calendar_addEvent": "Add an appointment to the calendar.",
    "weather_forecast": "Weather forecast for a city: temperature, rain and wind.",
    "maps_route": "Find the shortest route between two places by car, bicycle or on foot.",
    "pdf_extract_text": "Extract the text of a PDF document.",
    "currency_convert": "Convert an amount of money from one currency into another, by the exchange rate.",
    "music_play_song": "Play a song by its title and artist.",
    "recipes_search": "Search recipes by ingredients.",
    "wetter_vorhersage": "Gibt die Wettervorhersage für einen Ort zurück.",
    "bahn_verbindungen": "Sucht Zugverbindungen zwischen zwei Bahnhöfen.",
    "traduction_traduire": "Traduit un texte dans une autre langue.",
    "cine_cartelera": "Muestra la cartelera de los cines de una ciudad.",
    "tianqi_cjk_1a2b3c": "“查询天气” of the MCP server tianqi. 查询指定城市的天气预报。",
    "denshi_cjk_4d5e6f": "“乗換案内” of the MCP server denshi. 駅から駅までの電車の乗り換えを検索します。",
    "pogoda_cyrillic_77aa11": "“погода” of the MCP server pogoda. Показывает прогноз погоды в городе.",
    "nalssi_hangul_12ab34": "“날씨” of the MCP server nalssi. 도시의 날씨 예보를 알려 줍니다.",
    "taqs_arabic_55cc66": "“الطقس” of the MCP server taqs. يعرض حالة الطقس في مدينة.",
    "akash_thai_99ee00": "“อากาศ” of the MCP server akash. พยากรณ์อากาศของเมือง",
}

QUESTIONS = {
    "can you open an issue about the crash on github?": "github_create_issue",
    "which pull requests are still waiting for review": "github_list_pull_requests",
    "write an email to Anna that I'm late": "mail_send_message",
    "put the dentist appointment on thursday into my calendar pls": "calendar_addEvent",
    "will it rain in Oslo tomorrow, whats the forecast": "weather_forecast",
    "how long is the route to the airport by bicycle": "maps_route",
    "what does this pdf say": "pdf_extract_text",
    "how much are 300 dollars in another currency": "currency_convert",
    "play that song by Björk": "music_play_song",
    "any recipe with eggs and spinach?": "recipes_search",
    "Wie wird das Wetter morgen in Köln?": "wetter_vorhersage",
    "Wann geht der nächste Zug, welche Verbindung vom Bahnhof Ulm?": "bahn_verbindungen",
    "tu peux me traduire ce texte en anglais ?": "traduction_traduire",
    "¿qué hay en la cartelera del cine esta noche?": "cine_cartelera",
    "明天北京的天气怎么样？": "tianqi_cjk_1a2b3c",
    "新宿から上野までの電車を検索して": "denshi_cjk_4d5e6f",
    "какую погоду обещают на завтра?": "pogoda_cyrillic_77aa11",
    "내일 서울 날씨 어때?": "nalssi_hangul_12ab34",
    "كيف الطقس في القاهرة غدا؟": "taqs_arabic_55cc66",
    "พรุ่งนี้อากาศเป็นอย่างไร": "akash_thai_99ee00",
}

VERBS = ("get", "list", "create", "update", "delete", "search", "count", "export")
THINGS = (
    *("customer", "invoice", "order", "ticket", "branch", "commit", "user", "team", "project", "table"),
    *(
        "column",
        "record",
        "folder",
        "label",
        "comment",
        "webhook",
        "deployment",
        "cluster",
        "metric",
        "alert",
    ),
)
SYSTEMS = ("crm", "shop", "infra")


def tool(name: str, says: str, source: str) -> Tool:
    schema = {"type": "object", "properties": {"id": {"type": "string", "description": "which one"}}}

    async def run(_: object) -> str:
        return f"{name} was called"

    return Tool(
        ToolSchema(name, says, schema),
        lambda arguments: BoundCall(arguments, run),
        source=source,
        personas=EVERYBODY,
    )


def five_hundred() -> list[Tool]:
    """Tools of many servers, those that are asked for among them."""
    hay = [
        tool(
            f"{server}_{verb}_{thing}",
            f"{verb.title()} a {thing} in the {server} system. Gives the {thing} as JSON.",
            f"mcp:{server}",
        )
        for server in SYSTEMS
        for thing in THINGS
        for verb in VERBS
    ]
    needles = [tool(name, says, f"mcp:{name.partition('_')[0]}") for name, says in NEEDLES.items()]
    for number, needle in enumerate(needles):  # strewn among the others
        hay.insert(number * 25, needle)
    return hay


def capabilities(tools: Sequence[Tool]) -> Capabilities:
    return Capabilities({}, (), "", {each.name: each for each in tools}, tuple(each.schema for each in tools))


def names(schemas: Sequence[ToolSchema]) -> list[str]:
    return [each.name for each in schemas]


ROOM = ToolRoom(40, 128_000)
PIXI = Persona("Pixi", "You are Pixi.", tools=("own_named",))
OWN = [
    tool("own_search", "Search the pancake database.", "database:pancakes"),
    tool("own_named", "Note.", ""),
]
EVERYTHING = [*five_hundred(), *OWN]


def offered(
    selector: ToolSelector, asked: str, *, of: Capabilities, lines: Any = (), room: ToolRoom = ROOM
) -> list[str]:
    return names(selector.schemas(of, room, conversation="a", asked=asked, lines=lines))


def test_there_are_five_hundred() -> None:
    assert len(EVERYTHING) >= 500


@pytest.fixture(scope="module")
def of_ten() -> ToolSelector:
    """An selector that looked through the tools already."""
    return ToolSelector(PIXI)


ALL_OF_THEM = capabilities(EVERYTHING)


@pytest.mark.parametrize(("question", "wanted"), QUESTIONS.items())
def test_what_the_talk_is_about_is_offered(of_ten: ToolSelector, question: str, wanted: str) -> None:
    # Of ten, so that it is not there because each server has something offered.
    schemas = of_ten.schemas(
        ALL_OF_THEM, ToolRoom(10, 128_000), conversation=question, asked=question, lines=()
    )
    chosen = names(schemas)
    assert len(chosen) == 10
    assert wanted in chosen
    assert {"own_search", "own_named"} <= set(chosen)


def test_the_order_is_that_of_the_toolbox() -> None:
    chosen = offered(ToolSelector(PIXI), "a github issue", of=capabilities(EVERYTHING))
    everything = [each.name for each in EVERYTHING]
    assert chosen == sorted(chosen, key=everything.index)


def test_what_is_few_is_offered_whole_and_as_it_is() -> None:
    few = capabilities(EVERYTHING[:40])
    assert ToolSelector(PIXI).schemas(few, ROOM, conversation="a", asked="hi", lines=()) is few.schemas


def test_the_choice_stays_while_it_has_what_is_needed() -> None:
    selector, all_of_them = ToolSelector(PIXI), capabilities(EVERYTHING)
    first = offered(selector, "will it rain in Oslo tomorrow, whats the forecast", of=all_of_them)
    for more in ("thanks!", "and on sunday?", "haha ok", "what about the wind"):
        assert offered(selector, more, of=all_of_them) == first
    then = offered(selector, "now convert 20 euros into another currency", of=all_of_them)
    assert "currency_convert" in then
    assert "weather_forecast" in then
    assert offered(selector, "ok, and 50?", of=all_of_them) == then


def test_what_was_called_stays_however_far_the_talk_goes() -> None:
    lines = [
        UserLine("the route please"),
        AssistantLine("", (ToolCall("1", "maps_route", "{}"),)),
        *(UserLine(f"about pancakes, {n}") for n in range(50)),
    ]
    assert "maps_route" in offered(
        ToolSelector(PIXI), "an issue on github", of=capabilities(EVERYTHING), lines=lines
    )


def test_what_was_said_last_counts_too() -> None:
    lines = [UserLine("which recipes have spinach among the ingredients?")]
    assert "recipes_search" in offered(
        ToolSelector(PIXI), "go on, do it", of=capabilities(EVERYTHING), lines=lines
    )


def test_each_server_has_something_offered_where_nothing_is_told() -> None:
    chosen = offered(ToolSelector(PIXI), "hi", of=capabilities(EVERYTHING))
    assert {each.partition("_")[0] for each in chosen} >= {*SYSTEMS, "github", "weather", "tianqi"}


def test_a_persona_that_names_more_than_there_is_room_for_has_the_first_it_names() -> None:
    many = [tool(f"mine_{n}", "Mine.", "") for n in range(60)]
    persona = Persona("Pixi", "", tools=tuple(each.name for each in many))
    assert offered(ToolSelector(persona), "hi", of=capabilities(many)) == [each.name for each in many[:40]]


def test_tools_of_addons_are_chosen_from_where_they_alone_are_too_many() -> None:
    many = [tool(f"addon_{n}", f"About thing{n}.", "") for n in range(60)]
    chosen = offered(ToolSelector(PIXI), "tell me of thing57", of=capabilities([*many, *OWN]))
    assert len(chosen) == 40
    assert {"addon_57", "own_named"} <= set(chosen)


def test_a_small_context_is_not_crowded_out_by_large_tools() -> None:
    large = [tool(f"big_{n}", f"About thing{n}. " + "word " * 1_000, "mcp:big") for n in range(20)]
    room, selector = ToolRoom(40, 8_192), ToolSelector(PIXI)
    chosen = offered(selector, "thing7", of=capabilities([*large, *OWN]), room=room)
    assert "big_7" in chosen
    assert len(chosen) == 3
    assert selector.tokens(capabilities([*large, *OWN]), room) < 8_192 / 2


def test_tools_are_looked_through_once_and_a_choice_costs_few_steps() -> None:
    selector, all_of_them = ToolSelector(PIXI), capabilities(EVERYTHING)
    at_first = steps_of(lambda: offered(selector, "hi", of=all_of_them))
    later = [steps_of(lambda: offered(selector, question, of=all_of_them)) for question in QUESTIONS]  # noqa: B023
    assert max(later) < at_first / 20
    assert max(later) < 10 * len(EVERYTHING)


# In a talk.


async def test_in_a_talk_the_limit_holds_is_told_once_and_what_is_not_offered_can_still_be_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = ToolCall("1", "shop_export_alert", '{"id": "7"}')
    model = ScriptedModel("[SEND: hi]", [call], "[SEND: done]", traits=Traits(context_tokens=64_000))
    with caplog.at_level(logging.INFO, "pixi.engine"):
        async with scene(model, limits=Limits(tools=12)) as stage:
            for each in EVERYTHING:
                stage.engine.tools.add(each)
            await stage.talk("what is on in the cartelera", "hm")
    assert {len(request.tools) for request in model.requests} == {12}
    assert "shop_export_alert" not in names(model.requests[1].tools)
    assert model.requests[0].tools == model.requests[1].tools == model.requests[2].tools
    assert stage.channel.sent == ["hi", "done"]
    assert "shop_export_alert was called" in str(model.requests[2].lines)
    told = [record.getMessage() for record in caplog.records if "tools" in record.getMessage()]
    assert told == [
        f"Pixi has {len(EVERYTHING)} tools, more than a prompt should hold: the model is offered those that "
        "the talk is about, 12 at most (tools of [limits])"
    ]


async def test_a_tool_that_nobody_has_is_answered_in_bounds() -> None:
    model = ScriptedModel([ToolCall("1", "github_create_isue", "{}")], "[SEND: ok]")
    async with scene(model, limits=Limits(tools=12)) as stage:
        for each in EVERYTHING:
            stage.engine.tools.add(each)
        await stage.talk("hi")
    (answer,) = [line.text for line in model.requests[1].lines if type(line).__name__ == "ToolLine"]
    assert "Did you mean github_create_issue?" in answer
    assert f"and {len(EVERYTHING) - 12} more" in answer
    assert len(answer) < 1_000


async def test_a_model_without_tools_of_its_own_is_told_of_no_more() -> None:
    model = ScriptedModel("[SEND: hi]", traits=Traits(context_tokens=64_000))
    async with scene(model, limits=Limits(tools=5)) as stage:
        for each in EVERYTHING:
            stage.engine.tools.add(each)
        await stage.talk("hi")
    assert isinstance(model.requests[0].lines[0], SystemLine)
    sent = encoded(chat_fields(model.requests[0], Style("small", tools="text"))).decode()
    assert sum(f"{each.name}" in sent for each in EVERYTHING) == 5
