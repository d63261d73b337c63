"""The companion as a program: an app's server asks, a scripted model acts, its admins approve."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest

from pixi import companion
from pixi.companion.data import NewDraft
from pixi.store.opening import open_store
from tests.companion.conftest import opened
from tests.end_to_end.bot import Scene, scene
from tests.end_to_end.program import ran
from tests.end_to_end.test_discord_tools import calls
from tests.end_to_end.test_serve import serving
from tests.engine.test_tools_any_model import Call, Server
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen

Round = str | list[Call] | Callable[[], list[Call]]

LINK = "https://www.google.com/maps/place/Quizzical+Nook/@1,2,17z/data=!3d54.91!4d-38.21"
SETTINGS = 'addons = ["companion"]\n[addon.companion]\ndeep_links = "trickbook"\n[model]\ntools = "{tools}"\n'


class Model(Server):
    """A server whose next calls may follow from what it was told of the last ones."""

    def __init__(self, form: Literal["native", "text"], rounds: list[Round]) -> None:
        super().__init__(form, [])
        self._later = rounds

    def choose(self, seen: Seen) -> Reply:
        following = self._later.pop(0)
        if callable(following):
            self.bodies.append(seen.json())
            following = following()
            self.bodies.pop()
        self._rounds = [following]
        return super().choose(seen)

    def told(self) -> dict[str, Any]:
        """What the last call gave."""
        found: dict[str, Any] = json.loads(self.answers()[-1].partition("\n")[0])
        return found


def call(tool: str, **arguments: object) -> list[Call]:
    return [(tool, json.dumps(arguments))]


@pytest.mark.parametrize("form", ["native", pytest.param("text", marks=pytest.mark.nightly)])
async def test_find_list_submit_share_approve_find(tmp_path: Path, form: Literal["native", "text"]) -> None:
    (tmp_path / "pixi.toml").write_text(SETTINGS.format(tools="auto" if form == "native" else "text"))
    assert (await ran(tmp_path, b"", "companion", "load", "sample")).out == "Loaded 40 spots and 61 tricks.\n"
    key = (await ran(tmp_path, b"", "keys", "add", "app", "--scopes", "chat,chat:on-behalf,approve")).out
    secret = next(word for word in key.split() if word.startswith("pixi_sk_"))
    model = Model(
        form,
        [
            *(call("search_spots", query="lanten bowl"), "[SEND: lantern bowl. go early]"),
            call("create_tricklist", name="Summer", tricks=["kick flip", "Ollie", "Heelflip"]),
            lambda: call("share_content", type="tricklist", id=model.told()["_id"]),
            "[SEND: there you go]",
            call("create_spot_draft", name="Quizzical Nook", type="diy", mapsUrl=LINK),
            "[SEND: sent. people look at it first]",
            *(call("search_spots", query="quizzical nook"), "[SEND: it is up]"),
        ],
    )
    async with ScriptedOpenAI(choose=model.choose) as socket:
        words = ("--model", "scripted", "--base-url", socket.base_url, "--persona", "kit")
        async with serving(tmp_path, *words) as (_, url), aiohttp.ClientSession() as http:
            headers = {"Authorization": f"Bearer {secret}"}

            async def say(message: str) -> dict[str, Any]:
                body = {"userId": "66f0", "message": message, "conversation": "dm"}
                async with http.post(f"{url}/api/chat", json=body, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    told: dict[str, Any] = await answer.json()
                    return told

            async def ask(method: str, path: str, **body: str) -> tuple[int, Any]:
                given = body if method == "PUT" else None
                async with http.request(method, f"{url}{path}", json=given, headers=headers) as answer:
                    return answer.status, await answer.json()

            found = await say("where can i skate?")
            assert found["text"] == "lantern bowl. go early"
            assert found["richContent"]["type"] == "spots_list"
            assert found["richContent"]["data"][0]["deepLink"] == "trickbook://spot/spot-lantern-bowl"
            shared = await say("make me a list")
            assert [card["type"] for card in shared["cards"]] == ["tricklist_card", "tricklist_card"]
            assert shared["richContent"]["data"]["trickCount"] == 3
            draft = await say(f"there is a new one: {LINK}")
            assert draft["richContent"]["type"] == "spot_draft_confirmation"
            assert draft["richContent"]["data"]["status"] == "pending_approval"
            assert "The link to a map shows Quizzical Nook at 54.91000, -38.21000" in str(model.bodies)

            _, waiting = await ask("GET", "/api/spots/drafts")
            (one,) = waiting["drafts"]
            assert (one["submittedBy"], one["submittedVia"]) == ("web:app:66f0", "Kit")
            path = f"/api/spots/drafts/{one['_id']}"
            for _ in range(2):
                status, decided = await ask("PUT", f"{path}/approve", userId="admin")
                assert (status, decided["status"], decided["decidedBy"]) == (200, "approved", "web:app:admin")
            status, problem = await ask("PUT", f"{path}/reject", reason="no")
            assert (status, problem["title"]) == (409, "Decided before")
            assert "approved before, by web:app:admin on 2" in problem["detail"]
            assert (await ask("PUT", "/api/spots/drafts/none/approve"))[0] == 404

            again = await say("is it there?")
            assert again["richContent"]["data"][0]["name"] == "Quizzical Nook"
            assert "that they submitted was approved. Tell them so." in str(model.bodies[-1])


async def test_drafts_are_decided_in_the_terminal_and_a_bad_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text(SETTINGS.format(tools="auto"))
    assert (await ran(tmp_path, b"", "drafts")).out == "No drafts wait.\n"
    wrong = await ran(tmp_path, b"", "drafts", "approve", "none")
    assert (wrong.code, wrong.err) == (1, "pixi-persona: There is no draft of the id 'none'.\n")
    (tmp_path / "other.toml").write_text('[addon.companion]\ndata = "https://app.example"\n')
    elsewhere = await ran(tmp_path, b"", "--config", "other.toml", "drafts")
    assert elsewhere.code == 2
    assert "other.toml, line 2: the companion's data is kept by an app" in elsewhere.err
    (tmp_path / "spots.json").write_text('{"spots": [{"name": "A"}]}')
    bad = await ran(tmp_path, b"", "companion", "load", "spots.json")
    assert bad.code == 1
    assert "spot 1 ('A'): _id is missing: give a text." in bad.err


async def test_of_many_drafts_it_is_told_how_many_more_there_are(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'pixi.db'}")
    tables = await opened(store)
    for number in range(53):
        await tables.create_draft("discord:7", NewDraft(f"n{number}", "diy", "Wexcombe"), f"k{number}")
    decided = (await tables.drafts(limit=1))[0]
    await tables.approve(decided.id, "web:1")
    await store.close()
    (tmp_path / "pixi.toml").write_text(f'[store]\nurl = "sqlite:///{tmp_path / "pixi.db"}"\n')

    async def listed(*words: str) -> tuple[int, str]:
        told = (await ran(tmp_path, b"", "drafts", *words)).out
        return told.count(": diy, Wexcombe\n"), told.splitlines()[-1]

    more = "… and {} more that wait: drafts list --limit 52"
    assert await listed() == (50, more.format(2))
    assert await listed("list", "--limit", "3") == (3, more.format(49))
    for words, count in ((("--limit", "52"), 52), (("--limit", "1000000"), 52), (("--all",), 53)):
        number, last = await listed("list", *words)
        assert number == count
        assert "more" not in last
    assert await listed("list", "--all", "--limit", "50") == (
        50,
        "… and 3 more: drafts list --all --limit 53",
    )
    for wrong in ("0", "-1", "x", "9" * 400):
        refused = await ran(tmp_path, b"", "drafts", "list", "--limit", wrong)
        assert (refused.code, refused.out) == (2, "")


async def test_what_a_file_is_loaded_for_is_shown_while_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    @contextmanager
    def spinner() -> Iterator[Callable[[str], None]]:
        yield shown.append
        shown.append("over")

    monkeypatch.setattr("pixi.cli.console.spinner", spinner)
    spots = [{"_id": f"s{number}", "name": "A", "type": "diy"} for number in range(1_234)]
    (tmp_path / "spots.json").write_text(json.dumps({"spots": spots}))
    loaded = await ran(tmp_path, b"", "companion", "load", "spots.json")
    assert loaded.out == "Loaded 1,234 spots and 0 tricks.\n"
    assert shown == ["reading spots.json", "keeping 1,234 spots and 0 tricks", "over"]


KIT = (Path(companion.__file__).parent / "personas" / "kit.md").read_text(encoding="utf-8")


def boxes(here: Scene) -> list[Any]:
    return [box for message in here.room.messages for box in message.embeds]


async def test_on_discord_it_is_the_same_with_cards_as_boxes(tmp_path: Path) -> None:
    tricks = ["kick flip", "Ollie"]
    scripts = (
        *(calls("search_spots", query="lanten bowl"), "[SEND: lantern bowl]"),
        *(calls("create_spot_draft", name="Quizzical Nook", type="diy", mapsUrl=LINK), "[SEND: sent]"),
        *(calls("create_tricklist", name="Summer", tricks=tricks), "[SEND: made]"),
    )
    addons = ["companion"]
    async with scene(tmp_path, *scripts, personas={"pixi": KIT.replace("name: Kit", "name: Pixi")}) as here:
        (tmp_path / "pixi.toml").write_text(f'[store]\nurl = "sqlite:///{tmp_path / "pixi.db"}"\n')
        assert (await ran(tmp_path, b"", "companion", "load", "sample")).code == 0
        async with here.bot(addons=addons):
            await here.ask("where can i skate?")
            await here.said("", "lantern bowl")
            (found,) = boxes(here)
            assert (found["title"], found["fields"][0]["name"]) == ("1 spot", "Lantern Bowl")
            await here.ask(f"a new one: {LINK}")
            await here.said("", "lantern bowl", "", "sent")
            draft = boxes(here)[-1]
            assert draft["fields"][0] == {"name": "Status", "value": "Pending approval", "inline": True}
            await here.ask("a list")
            await here.said("", "lantern bowl", "", "sent", "", "made")
            asked = here.model.requests[-1].json()["messages"]
            assert "The link to a map shows Quizzical Nook" in str(asked)
    told = (await ran(tmp_path, b"", "drafts")).out
    assert "pending approval\n  Quizzical Nook: diy, (54.91000, -38.21000)" in told
    assert f"by {here.mo.id}" in told or f"by discord:{here.mo.id}" in told
