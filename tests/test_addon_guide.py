"""docs/addons.md and docs/companion.md keep their word: what is printed there runs as it stands."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp

from pixi import Engine
from pixi.addons.loading import GROUP, AddonContents, from_file, load_addon, load_addons
from pixi.companion.cards import CARDS, schemas
from pixi.companion.data import KINDS
from pixi.core.llm import ToolCall, ToolLine
from pixi.core.persona import Persona
from pixi.settings import load
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon, AddonExtras
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox
from tests.channels.http.served import served
from tests.end_to_end.program import environment
from tests.engine.scene import scene
from tests.pages import ROOT, blocks, read_page
from tests.waiting import within

ADDONS, COMPANION = (read_page(ROOT / "docs" / f"{name}.md") for name in ("addons", "companion"))


def printed(page: str, kind: str, name: str) -> str:
    (found,) = [block.text for block in blocks(page, kind) if block.text.startswith(f"# {name}\n")]
    return found


# What the page says of commands without an example.
MORE = """
    @wave.on_open
    async def opened(context):
        await context.send("*lifts a hand*")
"""


async def test_the_command_waves_and_may_say_what_happens_when_it_opens(tmp_path: Path) -> None:
    assert "`@wave.on_open`" in ADDONS
    assert f"`{GROUP}`" in ADDONS
    file = tmp_path / "wave.py"
    file.write_text(printed(ADDONS, "python", "wave.py") + MORE, encoding="utf-8")
    model = ScriptedModel("[WAVE: both hands]\n[SEND: hey]")
    channel = RecordingChannel()
    async with Engine(model=model, persona=Persona("Pixi", "You are Pixi.")) as engine:
        assert load_addons([from_file(file)], engine.commands, engine.tools) == []
        await engine.receive(channel.message("hi"), channel)
        await engine.settled()
        wave = engine.commands.get("wave")
    assert channel.sent == ["*lifts a hand*", "*waves both hands*", "hey"]
    assert wave is not None
    assert "wave at the person" in wave.description
    assert f"[WAVE: how] {wave.description}" in str(model.requests[0].lines[0])


def test_the_example_without_a_model_prints_what_it_says() -> None:
    (example,) = [block.text for block in blocks(ADDONS, "python") if "asyncio.run(main())" in block.text]
    (told,) = re.findall(r"print\(.*?\)  # (.*)$", example, re.MULTILINE)
    # In a process of its own, with every warning an error: as somebody who copies it would run it.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-"],
        input=example.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode() == told + "\n"


async def test_the_library_that_is_built_there(tmp_path: Path) -> None:
    (tmp_path / "books.py").write_text(printed(ADDONS, "python", "books.py"), encoding="utf-8")
    (tmp_path / "pixi.toml").write_text(printed(ADDONS, "toml", "pixi.toml"), encoding="utf-8")
    settings = load(folder=tmp_path, environ={})
    assert settings.addons == (tmp_path / "books.py",)
    assert settings.addon["books"]["wishes_per_day"].value == 5
    brought = AddonExtras()
    contents: list[AddonContents] = []

    def load_books(addon: Addon) -> None:
        commands, tools = CommandRegistry(), Toolbox()
        contents.append(load_addon(from_file(tmp_path / "books.py"), commands, tools, brought))
        for tool in tools:
            addon._tools.add(tool)
        for notice in tools.notices:
            addon.notice(notice)

    store = await SqliteStore.open(":memory:")
    reader = Persona("Edda", "You lend books.", tools=("books",))
    model = ScriptedModel(
        [
            ToolCall("1", "search_books", '{"words": "emm"}'),
            ToolCall("2", "request_purchase", '{"title": "Emma"}'),
        ],
        "[SEND: it is there]",
        [ToolCall("3", "request_purchase", '{"title": "Evelina"}'), ToolCall("4", "my_wishes", "{}")],
        "[SEND: asked for]",
        "[SEND: it was bought!]",
    )
    async with scene(model, persona=reader, addons=[load_books], store=store) as here:
        (tables,) = brought.tables
        await store.open_tables(tables)
        await here.talk("have you emma?", "and evelina?")
        answers = [line.text for line in here.history() if isinstance(line, ToolLine)]
        assert json.loads(answers[0]) == ["Emma"]
        assert answers[1] == "Emma is on the shelf already: say so."
        assert json.loads(answers[3]) == [{"title": "Evelina", "status": "waits"}]
        async with served(store=store, routes=brought.routes) as server:
            key = await server.key("staff", "chat", "approve")
            _, waiting = await server.get("/api/books/wishes", **key)
            (wish,) = waiting["wishes"]
            assert wish == {"title": "Evelina", "person": "author:Mo", "bought": False}
            for status in (200, 404):
                async with server.http.put(
                    f"{server.url}/api/books/wishes", json={**wish, "bought": True}, headers=key
                ) as answer:
                    assert answer.status == status
        await here.talk("hi")
        assert "'Evelina', which they asked for, was bought. Tell them so." in here.history()[-1].text
    assert [each.tools for each in contents] == [("search_books", "my_wishes", "request_purchase")]
    assert (await store.export("author:Mo"))["books"] == [{"title": "Evelina", "status": "bought"}]
    await store.forget("author:Mo")
    assert "books" not in await store.export("author:Mo")
    await store.close()


def test_all_that_an_addon_may_bring_is_told() -> None:
    told = set(re.findall(r"^\| `@?addon\.(\w+)", ADDONS, re.MULTILINE))
    assert told == {name for name in vars(Addon) if not name.startswith("_")}


def test_the_keys_of_the_cards_and_their_schemas() -> None:
    shipped = json.loads((ROOT / "pixi" / "companion" / "cards.schema.json").read_text("utf-8"))
    assert shipped == schemas()
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]+)`|a list of these) \|$", COMPANION, re.MULTILINE))
    assert rows.keys() == CARDS.keys()
    for name, keys in rows.items():
        if keys:
            assert keys.split() == list(CARDS[name].__struct_fields__)
    assert set(KINDS) >= {"skatepark", "street", "diy", "snow"}


async def test_the_host_app_that_is_printed_there_runs(tmp_path: Path) -> None:
    import asyncio

    (tmp_path / "host.py").write_text(printed(COMPANION, "python", "host.py"), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "host.py", cwd=tmp_path, env=environment(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout
        async with within("the address of the host app"):
            url = (await process.stdout.readline()).decode().strip()
        headers = {"Authorization": "Bearer a-key"}
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{url}/api/spots?query=lantern", headers=headers) as answer,
        ):
            told: Any = await answer.json()
        assert told["spots"][0]["name"] == "Lantern Bowl"
    finally:
        process.kill()
        await process.wait()
