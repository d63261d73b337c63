"""The companion's tools, as models call them: natively and in text, within guardrails that hold."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from pixi.companion.data import CompanionData, NewDraft, Unavailable, Uncertain
from pixi.companion.tools import DRAFTS, SOURCE, WRITES, Companion, register_deciding
from pixi.core.events import Shown
from pixi.core.llm import ToolCall, ToolLine
from pixi.core.message import Author, Rights
from pixi.core.persona import Persona
from pixi.fetching.web import Web
from pixi.store.sqlite import SqliteStore
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Step
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox
from tests.companion.conftest import tables
from tests.engine.scene import Scene, scene

MO = "author:Mo"
KIT = Persona("Kit", "You skate.", tools=(SOURCE,), tool_steps=3)


def call(tool: str, number: str = "1", **arguments: Any) -> ToolCall:
    return ToolCall(number, tool, json.dumps(arguments))


@dataclass
class Played:
    """A talk with the companion."""

    here: Scene
    data: CompanionData

    async def asks(self, *calls: ToolCall) -> list[Any]:
        """Somebody writes, and the model calls these; gives what it was told."""
        steps: list[Step] = list(calls)
        self.here.model.add(steps, "[SEND: ok]")
        await self.here.talk("go")
        said = [line.text for line in self.here.history() if isinstance(line, ToolLine)]
        return [_json(text) for text in said[-len(calls) :]]

    def cards(self) -> list[Any]:
        return [event.card for event in self.here.channel.events if isinstance(event, Shown)]


def _json(text: str) -> Any:
    """What a tool answered: its JSON, or its words."""
    first, _, _ = text.partition("\n")
    try:
        return json.loads(first)
    except ValueError:
        return text


@asynccontextmanager
async def played(
    data: CompanionData | None = None, *, persona: Persona = KIT, store: SqliteStore | None = None
) -> AsyncGenerator[Played, None]:
    async with tables() as sample, Web() as web:
        kept = data or sample
        companion = Companion(kept, web, "trickbook")
        deciding = partial(register_deciding, data=kept)
        async with scene(
            ScriptedModel(), persona=persona, addons=[companion.setup, deciding], store=store
        ) as here:
            yield Played(here, kept)


@pytest.fixture
async def play() -> AsyncIterator[Played]:
    async with played() as made:
        yield made


async def test_spots_are_found_and_shown(play: Played) -> None:
    (told,) = await play.asks(call("search_spots", query="lanten bowl"))
    assert (told["count"], told["spots"][0]["name"]) == (1, "Lantern Bowl")
    (card,) = play.cards()
    assert card.type == "spots_list"
    assert card.data[0]["deepLink"] == "trickbook://spot/spot-lantern-bowl"
    (nothing,) = await play.asks(call("search_spots", query="zzzz"))
    assert nothing == {"spots": [], "count": 0}
    assert len(play.cards()) == 1


async def test_a_list_is_made_of_names_and_what_is_unknown_is_told_with_the_nearest(play: Played) -> None:
    (told,) = await play.asks(
        call("create_tricklist", name="Summer", tricks=["kick flip", "Heelflp", "flip", "Ollie", "ollie"])
    )
    counts = {name: told[name] for name in ("trickCount", "matchedTricks", "requestedTricks")}
    assert counts == {"trickCount": 3, "matchedTricks": 3, "requestedTricks": 5}
    assert told["unmatched"].startswith("'flip' is not known (nearest: 360 flip")
    (card,) = play.cards()
    assert card.data == {
        "_id": told["_id"],
        "name": "Summer",
        "trickCount": 3,
        "deepLink": f"trickbook://tricklist/{told['_id']}",
    }
    (lists,) = await play.asks(call("get_user_tricklists"))
    assert [each["name"] for each in lists["tricklists"][0]["tricks"]] == ["Kickflip", "Heelflip", "Ollie"]
    assert lists["tricklists"][0]["createdBy"] == "Kit"


async def test_a_list_of_no_known_trick_is_not_made(play: Played) -> None:
    (told,) = await play.asks(call("create_tricklist", name="x", tricks=["moonwalk"]))
    assert told == "None of these tricks is known. 'moonwalk' is not known."
    assert await play.data.tricklists(MO) == ()


async def test_a_trick_of_another_sport_is_found_all_the_same(play: Played) -> None:
    (told,) = await play.asks(
        call("create_tricklist", name="x", tricks=["Barspin", "Manual"], category="bmx")
    )
    assert told["matchedTricks"] == 2
    (other,) = await play.asks(call("create_tricklist", name="y", tricks=["Barspin"]))
    assert other["matchedTricks"] == 1


async def test_tricks_are_looked_up(play: Played) -> None:
    (told,) = await play.asks(call("search_trickipedia", query="kickflp"))
    assert told["tricks"][0]["difficulty"] == "intermediate"
    assert told["tricks"][0]["_id"] == "skateboard-kickflip"


async def test_a_draft_has_the_place_of_its_link(play: Played) -> None:
    link = "https://www.google.com/maps/place/Rusty+Rail/@1,2,17z/data=!3d54.91!4d-38.21"
    (told,) = await play.asks(call("create_spot_draft", name="Rusty Rail", type="street", mapsUrl=link))
    assert (told["name"], told["status"]) == ("Rusty Rail", "pending_approval")
    (draft,) = await play.data.drafts()
    assert (draft.latitude, draft.longitude, draft.maps_url) == (54.91, -38.21, link)
    assert (draft.submitted_by, draft.submitted_via) == (MO, "Kit")
    (card,) = play.cards()
    assert card.data["status"] == "pending_approval"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "Nobody could find it: give a maps link, coordinates, or at least the city."),
        ({"mapsUrl": "https://example.org/x"}, "is no link to a map that can be read"),
        ({"latitude": 138.2, "longitude": 54.9}, "seem to be swapped"),
        ({"latitude": 10**400, "longitude": 1}, "latitude"),
        ({"type": "cinema", "city": "y"}, "type"),
    ],
    ids=range(5),
)
async def test_a_bad_draft_is_told_to_the_model_and_not_kept(
    play: Played, more: dict[str, Any], told: str
) -> None:
    (said,) = await play.asks(call("create_spot_draft", **{"name": "x", "type": "street"} | more))
    assert told in str(said)
    assert await play.data.drafts() == ()


async def test_half_a_sign_keeps_no_draft_away(play: Played) -> None:
    given = r'{"name": "Nook \ud83d", "type": "diy", "city": "\ud83d\udef9 Wexcombe"}'
    await play.asks(ToolCall("1", "create_spot_draft", given))
    (draft,) = await play.data.drafts()
    assert (draft.name, draft.city) == ("Nook \ufffd", "\N{SKATEBOARD} Wexcombe")


async def test_too_many_tricks(play: Played) -> None:
    (said,) = await play.asks(call("create_tricklist", name="x", tricks=["Ollie"] * 10_000))
    assert "There are 10000 tricks: 50 is the most." in str(said)


@pytest.mark.parametrize("kind", ["spot", "trick", "tricklist"])
async def test_sharing_shows_a_card(play: Played, kind: str) -> None:
    (made,) = await play.asks(call("create_tricklist", name="x", tricks=["Ollie"]))
    ids = {"spot": "spot-lantern-bowl", "trick": "skateboard-ollie", "tricklist": made["_id"]}
    (told,) = await play.asks(call("share_content", type=kind, id=ids[kind]))
    assert told == {"found": True}
    assert play.cards()[-1].type == f"{kind}_card"


async def test_of_another_person_nothing_is_shared_or_told(play: Played) -> None:
    (made,) = await play.asks(call("create_tricklist", name="x", tricks=["Ollie"]))
    steps: list[Step] = [call("share_content", "1", type="tricklist", id=made["_id"])]
    steps.append(call("get_user_tricklists", "2"))
    play.here.model.add(steps, "[SEND: no]")
    await play.here.say("mine?", author=Author("2", "Jo"))
    await play.here.engine.settled()
    said = [line.text for line in play.here.history() if isinstance(line, ToolLine)][-2:]
    assert (
        said[0]
        == "There is no tricklist of this id among theirs: search for it, and take the _id from there."
    )
    assert json.loads(said[1])["count"] == 0


async def test_the_sixth_write_of_an_hour_waits_over_all_tools(play: Played) -> None:
    for number in range(3):
        await play.asks(call("create_tricklist", name=f"l{number}", tricks=["Ollie"]))
    for number in range(2):
        await play.asks(call("create_spot_draft", name=f"s{number}", type="diy", city="Wexcombe"))
    for late in (
        call("create_tricklist", name="l6", tricks=["Ollie"]),
        call("create_spot_draft", name="s6", type="diy", city="Wexcombe"),
    ):
        (told,) = await play.asks(late)
        assert told.startswith("As much was done for Mo as may be")
    assert len(await play.data.tricklists(MO)) == 3
    assert len(await play.data.drafts()) == 2


async def test_a_call_that_comes_again_writes_nothing_twice(play: Played) -> None:
    same = {"name": "x", "type": "street", "city": "Wexcombe"}
    first, second = await play.asks(
        call("create_spot_draft", "1", **same), call("create_spot_draft", "2", **same)
    )
    assert first["_id"] == second["_id"]
    assert len(await play.data.drafts()) == 1


async def test_a_write_is_confirmed_where_the_persona_s_file_says_so() -> None:
    careful = Persona("Kit", "You skate.", tools=(SOURCE,), confirm=("create_spot_draft",))
    async with played(persona=careful) as play:
        (told,) = await play.asks(call("create_spot_draft", name="x", type="diy", city="Wexcombe"))
        assert "no answer came" in told
        assert [question.tool for question in play.here.channel.questions] == ["create_spot_draft"]
        assert await play.data.drafts() == ()


async def test_data_that_is_away_is_told_in_words() -> None:
    class Away:
        async def search_spots(self, search: object) -> object:
            raise Unavailable("The spots cannot be read just now. Try again later.")

    away: Any = Away()
    async with played(away) as play:
        (told,) = await play.asks(call("search_spots", query="x"))
        assert told == "The spots cannot be read just now. Try again later."


async def test_a_write_of_which_nobody_knows_is_on_record_as_such_and_counts() -> None:
    class Losing:
        async def create_draft(self, *given: object) -> object:
            raise Uncertain("No answer came. Nobody knows whether it was done. Tell them so.")

    losing: Any = Losing()
    store = await SqliteStore.open(":memory:")
    async with played(losing, store=store) as play:
        told = [
            (await play.asks(call("create_spot_draft", name=f"s{number}", type="diy", city="Wexcombe")))[0]
            for number in range(6)
        ]
        assert told[:5] == ["No answer came. Nobody knows whether it was done. Tell them so."] * 5
        assert told[5].startswith("As much was done for Mo as may be")
        assert [each.outcome for each in await store.audit(9)] == ["unknown"] * 5
    await store.close()


async def test_no_more_than_three_rounds_of_tools() -> None:
    def more(request: Any) -> list[Step]:
        asked = len(request.lines)
        return [call("search_spots", query=f"q{asked}")] if request.tools else ["[SEND: enough]"]

    async with played() as play:
        play.here.model.add(*([more] * 6))
        await play.here.talk("go")
        assert len(play.here.model.requests) == 4
        assert play.here.channel.sent == ["enough"]


def test_no_tool_deletes() -> None:
    tools = Toolbox()
    companion: Any = Companion(None, None)  # type: ignore[arg-type]
    companion.setup(Addon(CommandRegistry(), tools))
    assert {tool.name: tool.writes for tool in tools} == {
        "search_spots": False,
        "get_user_tricklists": False,
        "create_tricklist": True,
        "search_trickipedia": False,
        "create_spot_draft": True,
        "share_content": False,
    }
    assert all(tool.source == SOURCE for tool in tools)
    assert {tool.name for tool in tools if tool.writes} == set(WRITES)


JUDGE = Persona("Kit", "You skate.", tools=(SOURCE, DRAFTS))


async def test_an_operator_decides_by_a_button_and_nobody_else() -> None:
    async with played(persona=JUDGE) as play:
        channel = play.here.channel
        made = await play.data.create_draft("discord:9", NewDraft("Quizzical Nook", "diy", "Wexcombe"), "k")
        asked = call("decide_spot_draft", id=made.id, name="Quizzical Nook", approve=True)
        (told,) = await play.asks(asked)
        assert told.startswith("Only operators of the bot may use decide_spot_draft")
        assert (await play.asks(call("list_spot_drafts")))[0].startswith("Only operators")
        channel.powers[MO] = Rights(operator=True)
        (listed,) = await play.asks(call("list_spot_drafts"))
        assert (listed["drafts"][0]["_id"], listed["drafts"][0]["submittedBy"]) == (made.id, "discord:9")
        assert (listed["count"], listed["more"]) == (1, False)
        for number in range(20):
            await play.data.create_draft("discord:9", NewDraft("Other", "diy", "Wexcombe"), f"o{number}")
        (listed,) = await play.asks(call("list_spot_drafts"))
        assert (listed["count"], len(listed["drafts"]), listed["more"]) == (20, 20, True)
        channel.verdicts = ["no", "yes", "yes"]
        (told,) = await play.asks(asked)
        assert "said no" in told
        (wrong,) = await play.asks(call("decide_spot_draft", id=made.id, name="Other", approve=True))
        assert wrong.startswith("The _id and the name are not those of one draft")
        (told,) = await play.asks(asked)
        assert told == {"_id": made.id, "status": "approved"}
        assert play.cards()[-1].plain.startswith("Quizzical Nook\nStatus: Approved")
        assert 'name: "Quizzical Nook"' in channel.questions[0].arguments
        decided = await play.data.draft(made.id)
        assert decided
        assert decided.decided_by == MO
