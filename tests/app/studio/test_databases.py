"""Databases on a page: what was read and what was set aside, and what a model finds in them."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pixi.app.studio import databases
from tests.app.scene import persona_file
from tests.app.studio.desk import Desk, desk_in
from tests.servers.scripted_openai import Reply, Seen, stream, usage
from tests.waiting import until

QUESTION = "How long does ginger tea steep?"


def reads(seen: Seen) -> Reply:
    """A reader that names the sentence about ginger."""
    told = "\n".join(str(message["content"]) for message in seen.json()["messages"])
    line = re.search(r"\[(\d+)\][^\[]*seven minutes", told)
    numbers = [int(line[1])] if line else []
    return stream(json.dumps({"answerable": True, "sentences": numbers}), usage(50, 5))


@pytest.fixture
async def studio(tmp_path: Path) -> AsyncGenerator[Desk, None]:
    trolley = tmp_path / "databases" / "Trolley"
    trolley.mkdir(parents=True)
    (trolley / "README.md").write_text("# Teas\n\nThe teas of the trolley.\n")
    (trolley / "ginger.md").write_text("# Ginger tea\n\nGinger steeps for seven minutes.\n")
    (trolley / "broken.pdf").write_bytes(b"%PDF-1.4 no more")
    (trolley / "picture.xyz").write_bytes(b"x")
    persona_file(tmp_path, "wren", "---\ndatabases: [Trolley]\n---\nYou are Wren.\n")
    more = "[prices]\nfirst = { prompt = 1.0, completion = 2.0 }\n"
    async with desk_in(tmp_path, [databases.routes], more, choose=reads) as it:

        async def read() -> bool:
            told = await it.get("databases")
            if all(each["finished"] for each in told["databases"]):
                return True
            await asyncio.sleep(0.05)  # to ask is work, and the documents are read beside it
            return False

        await until(read)
        yield it


async def test_the_list_tells_what_the_command_line_tells(studio: Desk) -> None:
    told = (await studio.get("databases"))["databases"]
    own = {"set_aside", "shipped", "done", "total", "finished", "personas"}
    # Only who reads the documents knows what was passed over, and that is the service.
    lines = [{**line, "passed_over": {}} for line in await studio.printed("databases")]
    rows = [{key: each[key] for key in each if key not in own} | {"passed_over": {}} for each in told]
    assert studio.from_here(rows) == lines
    (trolley,) = [each for each in told if each["name"] == "Trolley"]
    assert (trolley["personas"], trolley["shipped"], trolley["entries"]) == (["wren"], False, 1)
    assert [each["file"] for each in trolley["faults"]] == ["broken.pdf"]
    assert trolley["set_aside"] == 1
    assert trolley["passed_over"] == {".xyz": 1}


async def test_a_search_and_a_query_are_what_a_model_gets_and_are_paid_for(studio: Desk) -> None:
    found = await studio.post("databases/trolley/search", {"query": "ginger", "limit": 3})
    assert found["database"] == "Trolley"
    assert [each["title"] for each in found["results"]] == ["Ginger tea"]
    assert (await studio.refused("POST", "databases/trolley/search", {"query": ""}))[0] == 422
    events = await studio.stream("databases/Trolley/query", {"question": QUESTION})
    assert [each["event"] for each in events[:-1]] == ["progress"] * (len(events) - 1)
    (fact,) = events[-1]["result"]["relevant"]
    assert fact["fact"] == "Ginger steeps for seven minutes."
    assert fact["source"]["title"] == "Ginger tea"

    async def paid() -> bool:
        return (await studio.service.engine.bill()).month.cost > 0

    await until(paid)
    events = await studio.stream("databases/trolley/query", {"question": QUESTION, "ids": [999_999]})
    assert [each["event"] for each in events] == ["error"]
    assert "has no entry 999999" in events[0]["text"]


async def test_no_name_leads_out_of_the_folders_and_a_link_breaks_no_list(studio: Desk) -> None:
    (studio.folder / "databases" / ".hidden").mkdir()
    (studio.folder / "databases" / ".hidden" / "a.md").write_text("# Secret\n\nginger\n")
    for name in ("..", "..%2F..%2Fetc", "%2Fetc", "nothing", ".hidden"):
        status, _ = await studio.ask("POST", f"databases/{name}/search", {"query": "ginger"})
        assert status in (404, 405), name
    (studio.folder / "databases" / "gone").symlink_to(studio.folder / "databases" / "Trolley")
    (studio.folder / "databases" / "empty").mkdir()
    told = {each["name"]: each for each in (await studio.get("databases"))["databases"]}
    assert {"Trolley", "empty"} <= told.keys()
    assert told["empty"]["trouble"] is None
