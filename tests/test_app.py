"""The composition root: the parts of real settings, joined, opened and closed."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pixi.app import find_persona, open_engine
from pixi.app.service import open_service
from pixi.channels.terminal.lines import seat
from pixi.core.errors import ConfigError, StoreError
from pixi.core.events import Sent, TurnEnded
from pixi.core.persona import Persona
from pixi.settings import ModelSettings, Settings, load
from pixi.settings.model_choice import runs_here
from pixi.testing import RecordingChannel
from tests.servers.scripted_openai import ScriptedOpenAI, answer, finish, stream
from tests.waiting import until

HELLO = stream("[SEND: hi]", finish())


def settings_in(folder: Path, server: ScriptedOpenAI | None = None, **overrides: object) -> Settings:
    values: dict[str, object] = {
        "store.url": f"sqlite:///{folder / 'talk.db'}",
        "model.name": "scripted",
        "model.base_url": server.base_url if server else "http://127.0.0.1:9/v1",
    }
    return load(
        environ={},
        folder=folder,
        overrides=values | {key.replace("__", "."): v for key, v in overrides.items()},
    )


async def test_a_message_goes_in_and_the_reply_comes_out(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        settings = settings_in(tmp_path, server)
        persona = find_persona(settings)
        place, channel = seat(persona.name, "mo"), RecordingChannel()
        doing: list[str] = []
        async with open_engine(settings, persona, progress=doing.append) as engine:
            assert doing[0] == "starting"
            assert doing[-1] == ""
            await engine.receive(place.message("hello"), channel)
            await engine.settled(place.conversation)
        assert [event for event in channel.events if isinstance(event, Sent)] == [Sent("hi")]
        assert isinstance(channel.events[-1], TurnEnded)
        rows = sqlite3.connect(tmp_path / "talk.db")
        assert rows.execute("pragma integrity_check").fetchone() == ("ok",)
        rows.close()


KITCHEN = """
def setup(addon):
    @addon.tool
    async def convert(context, cups: float) -> str:
        "Cups to millilitres."
        return "240 ml"
    @addon.command
    async def bow(context):
        "bow deeply"
"""


async def test_what_a_named_addon_brings_is_offered_in_that_talk_and_told(tmp_path: Path) -> None:
    (tmp_path / "waves.py").write_text("def setup(addon):\n    pass\n")
    (tmp_path / "broken.py").write_text("1/0")
    (tmp_path / "kitchen.py").write_text(KITCHEN)
    told: list[str] = []
    faults: list[str] = []
    persona = Persona("P", "p", commands=("send",))
    async with ScriptedOpenAI(HELLO) as server:
        settings = settings_in(tmp_path, server, addons=["broken.py"])
        place, channel = seat("P", "mo"), RecordingChannel()
        addons = [tmp_path / "kitchen.py", tmp_path / "waves.py"]
        async with open_engine(
            settings, persona, addons=addons, report=faults.append, remark=told.append
        ) as engine:
            await engine.receive(place.message("hello"), channel)
            await engine.settled(place.conversation)
        asked = server.requests[0].json()
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["convert"]
    assert "BOW" in str(asked["messages"])
    assert faults == ["addon broken.py is left out: ZeroDivisionError: division by zero (line 1)"]
    assert told == [
        "kitchen.py brings bow, convert; P's file does not name them, so that this talk alone has them "
        "(to keep them, add commands: [bow] and tools: [convert] there, and the addon to `addons` in "
        "pixi.toml).",
        "waves.py brings nothing: its `setup` registers no command and no tool.",
    ]


async def test_a_persona_that_names_what_an_addon_brings_is_not_told_of_it(tmp_path: Path) -> None:
    (tmp_path / "kitchen.py").write_text(KITCHEN)
    persona = Persona("P", "p", tools=("convert",))  # and all commands
    addons = [tmp_path / "kitchen.py"]
    async with open_engine(settings_in(tmp_path), persona, addons=addons, remark=pytest.fail) as engine:
        assert engine.persona == persona


async def test_an_addon_that_is_named_twice_is_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "kitchen.py").write_text(KITCHEN)
    (tmp_path / "link.py").symlink_to("kitchen.py")
    addons = [tmp_path / "kitchen.py", tmp_path / "link.py"]
    persona = Persona("P", "p", commands=("send",))
    settings = settings_in(tmp_path, addons=["kitchen.py"])
    async with open_engine(settings, persona, addons=addons, report=pytest.fail) as engine:
        assert engine.persona.commands == ("send", "bow")


async def test_named_addons_that_cannot_be_loaded_stop_the_start_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1/0")
    addons = [tmp_path / "broken.py", tmp_path / "gone.py"]
    with pytest.raises(ConfigError) as caught:
        async with open_engine(settings_in(tmp_path), Persona("P", "p"), addons=addons):
            pytest.fail("it is open")
    broken, gone = (fault.replace(f"{tmp_path}/", "") for fault in caught.value.faults)
    assert broken == (
        "addon broken.py: ZeroDivisionError: division by zero (line 1); mend it, or start without it."
    )
    assert gone == "addon gone.py: there is no file gone.py; check the path."


async def test_among_many_people_the_file_decides_what_a_persona_has(tmp_path: Path) -> None:
    (tmp_path / "kitchen.py").write_text(KITCHEN)
    told: list[str] = []
    addons = [tmp_path / "kitchen.py"]
    async with open_service(settings_in(tmp_path), addons=addons, report=told.append) as service:
        assert "convert" not in service.persona_set.personas["pixi"].tools
    assert told == ["kitchen.py brings convert; no persona's file names it (add tools: [convert] to one)."]


async def test_a_persona_that_names_what_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    persona = Persona("P", "p", commands=("send", "juggle"))
    with pytest.raises(ConfigError, match="juggle"):
        async with open_engine(settings_in(tmp_path), persona):
            pass


async def test_everything_is_closed_when_the_caller_fails(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        settings = settings_in(tmp_path, server)
        place = seat("p", "mo")

        async def fail() -> None:
            async with open_engine(settings, Persona("P", "p")) as engine:
                await engine.receive(place.message("hello"), RecordingChannel())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        # The file is free again, and whole: another engine goes on with it.
        async with open_engine(settings, Persona("P", "p")) as engine:
            await engine.receive(place.message("again"), RecordingChannel())
            await engine.settled()


async def test_a_store_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, store__url=f"sqlite:///{tmp_path / 'nowhere' / 'x.db'}")
    with pytest.raises((StoreError, ConfigError), match=r"x\.db|nowhere"):
        async with open_engine(settings, Persona("P", "p")):
            pass


async def test_openai_without_a_key_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    settings = load(environ={}, folder=tmp_path, overrides={"model.name": "gpt-5-mini"})
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        async with open_engine(settings, Persona("P", "p")):
            pass


async def test_several_models_and_no_name_is_for_the_operator_to_settle(tmp_path: Path) -> None:
    listing = {"data": [{"id": "b"}, {"id": "a"}]}
    async with ScriptedOpenAI(answer(200, listing)) as server:
        settings = load(environ={}, folder=tmp_path, overrides={"model.base_url": server.base_url})
        with pytest.raises(ConfigError, match="several models: a, b"):
            async with open_engine(settings, Persona("P", "p")):
                pass


@pytest.mark.parametrize(
    ("name", "here"), [("local", True), ("models/x.gguf", True), ("gpt-5-mini", False), ("", False)]
)
def test_a_model_runs_here_or_at_a_server(name: str, here: bool) -> None:
    assert runs_here(ModelSettings(name=name)) is here


def test_the_persona_is_the_one_of_the_settings(tmp_path: Path) -> None:
    assert find_persona(load(environ={}, folder=tmp_path)).name == "Pixi"
    with pytest.raises(ConfigError, match="gone"):
        find_persona(load(environ={}, folder=tmp_path, overrides={"persona.folder": str(tmp_path / "gone")}))


_STARTS = """
import asyncio, sys
from pixi.app import building
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.settings import load
from pixi.testing import ScriptedModel

async def open_model(*_, **__):
    return ScriptedModel(traits=Traits(tools=sys.argv[1] == "large"))

async def start():
    building.open_model = open_model
    persona = Persona("P", "p", databases=tuple(sys.argv[2:]))
    async with building.open_engine(load(environ={"PIXI_STORE__URL": ":memory:"}), persona) as engine:
        heavy = {"difflib", "pixi.knowledge.database", "pydantic", "rapidfuzz"}
        print(len(engine.tools), *sorted(heavy & sys.modules.keys()))

asyncio.run(start())
"""


@pytest.mark.parametrize(
    ("size", "databases", "told"),
    [
        ("large", [], "0"),
        ("small", ["pancakes"], "0 pixi.knowledge.database"),
        ("large", ["pancakes"], "2 pixi.knowledge.database pydantic"),
    ],
)
def test_what_nobody_will_use_is_not_imported(
    tmp_path: Path, size: str, databases: list[str], told: str
) -> None:
    """A persona without tools starts sooner, and so does a small model: it gets no tools, but passages."""
    command = [sys.executable, "-c", _STARTS, size, *databases]
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == told, done.stderr


async def test_the_file_of_the_persona_is_read_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "personas").mkdir()
    file, told = tmp_path / "personas" / "wren.md", list[str]()
    file.write_text("---\nname: Wren\n---\nYou keep tea.\n")
    (tmp_path / "kitchen.py").write_text(KITCHEN)
    async with ScriptedOpenAI(HELLO, HELLO) as server:
        settings = settings_in(tmp_path, server, persona__default="wren")
        addons = [tmp_path / "kitchen.py"]
        async with open_engine(settings, addons=addons, remark=told.append, follow_persona=True) as engine:
            first = engine.persona
            file.write_text("---\nname: Wren\ntools: [nonsuch]\n---\nYou keep coffee.\n")
            await until(lambda: "no tool 'nonsuch'" in told[-1], "word of the mistake")
            assert engine.persona == first
            assert told[-1].endswith("Until then the persona stays as it was.")
            file.write_text("---\nname: Wren\n---\nYou keep coffee.\n")
            await until(lambda: "Wren's file changed" in told[-1], "word of the change")
            place, channel = seat("Wren", "mo"), RecordingChannel()
            await engine.receive(place.message("hello"), channel)
            await engine.settled()
        body = server.requests[0].json()
    assert "You keep coffee." in str(body["messages"])
    assert [tool["function"]["name"] for tool in body["tools"]] == ["convert"]  # of the addon, as before
