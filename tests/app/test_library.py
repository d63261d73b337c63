"""The databases of a service: opened for who names them, checked, read by the model of the settings."""

from pathlib import Path

import pytest

from pixi.app import find_persona, open_engine
from pixi.app.databases import DatabasePool, open_library
from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.settings import Settings
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox
from tests.app.scene import persona_file, reading, service_in, settings_file
from tests.app.test_reload import Scene, scene
from tests.servers.scripted_openai import ScriptedOpenAI, finish, stream

__all__ = ["scene"]

KEEPER = "---\nname: {0}\ndatabases: [{1}]\n---\n\nYou are {0}.\n"


def database(folder: Path, name: str, text: str = "The ferry leaves at 07:40.") -> None:
    (folder / "databases" / name).mkdir(parents=True)
    (folder / "databases" / name / "one.md").write_text(text)


def settings(folder: Path, more: str = "") -> Settings:
    (folder / "pixi.toml").write_text(more)
    return reading(folder)()


async def test_all_databases_are_open_and_can_be_searched_without_any_model(tmp_path: Path) -> None:
    database(tmp_path, "islands")
    async with open_library(settings(tmp_path), reads=False) as library:
        assert {"islands", "pancakes", "pixi-manual"} <= library.databases.keys()
        found = await library.databases["islands"].search("ferry")
        assert [hit.source.title for hit in found.hits] == ["one"]


@pytest.mark.parametrize("traits", [Traits(small=True, tools=False), Traits(tools=False)])
async def test_a_model_without_tools_is_shown_what_the_documents_of_its_persona_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traits: Traits
) -> None:
    database(tmp_path, "islands", "# The ferry\n\nThe ferry leaves the harbour from pier seven.\n")
    database(tmp_path, "secrets", "# The ferry\n\nThe ferry leaves the harbour never.\n")
    persona_file(tmp_path, "keeper", KEEPER.format("Keeper", "islands"))
    model = ScriptedModel("[SEND: Hi.]", "[SEND: At dawn.]", traits=traits)

    async def opened(*_: object, **__: object) -> ScriptedModel:
        return model

    monkeypatch.setattr("pixi.app.building.open_model", opened)
    channel = RecordingChannel()
    some = settings(
        tmp_path, f'[persona]\ndefault = "keeper"\n[store]\nurl = "sqlite:///{tmp_path}/pixi.db"\n'
    )
    async with open_engine(some, find_persona(some)) as engine:
        for text in ("my cat is called Biscuit", "When does the ferry leave the harbour?"):
            await engine.receive(channel.message(text), channel)
            await engine.settled()
        assert [tool.name for tool in engine.tools if tool.source.startswith("database:")] == []
    first, second = (request.lines[-1].text for request in model.requests)
    assert first.removeprefix("> ").splitlines()[-1].endswith("my cat is called Biscuit")
    assert "pier seven" not in first
    assert "one.md" in second
    assert "The ferry leaves the harbour from pier seven." in second
    assert "never" not in second


async def test_the_settings_say_which_databases_there_are(tmp_path: Path) -> None:
    database(tmp_path, "islands")
    database(tmp_path, "diary")
    some = settings(tmp_path, '[databases]\nnames = ["islands"]\n')
    async with open_library(some, reads=False) as library:
        assert list(library.databases) == ["islands"]
        with pytest.raises(ConfigError, match="`names` of \\[databases\\] leaves out the database 'diary'"):
            library.check(Persona("Mo", "You are Mo.", databases=("diary",)))


async def test_a_folder_of_databases_that_somebody_named_must_be_there(tmp_path: Path) -> None:
    database(tmp_path, "islands")
    named = settings(tmp_path, '[databases]\nfolder = "databasis"\n')
    with pytest.raises(ConfigError, match="databasis"):
        async with open_library(named, reads=False):
            pass
    faults = DatabasePool(named, None, progress=print).missing(
        Persona("Mo", "You are Mo.", databases=("islands", "pancakes"))
    )
    assert len(faults) == 1, "it is told once"


async def test_the_model_that_answers_reads_unless_another_is_named(tmp_path: Path) -> None:
    database(tmp_path, "islands")
    main = ScriptedModel()
    async with ScriptedOpenAI() as server:
        at = f'base_url = "{server.base_url}"\n'
        one = settings(tmp_path, f'[model]\nname = "big"\n{at}')
        async with open_library(one, names=["islands"], main=main) as library:
            assert library.agent.model is main
        two = settings(tmp_path, f'[model]\nname = "big"\n{at}[helper_model]\nname = "cheap"\n')
        async with open_library(two, names=["islands"], main=main) as library:
            assert library.agent.model is not None
            assert library.agent.model.name == "cheap"
            await library.change(one, main)
            assert library.agent.model is main
            await library.change(two, main)
            assert library.agent.model.name == "cheap"


async def test_what_reads_has_the_time_of_a_turn_or_what_is_set(tmp_path: Path) -> None:
    database(tmp_path, "islands")
    unset, short = (settings(tmp_path, text) for text in ("", "[limits]\ntool_seconds = 10\n"))
    async with open_library(unset, names=["islands"], main=ScriptedModel()) as library:
        assert library.agent.seconds == unset.limits.seconds
        tools = Toolbox()
        library.register(Addon(CommandRegistry(), tools))
        query = tools.get("query_islands_database")
        assert query is not None
        assert query.timeout is None
        await library.change(short, ScriptedModel())
        assert library.agent.seconds == 10


async def test_a_bot_opens_what_its_personas_name_and_no_more(tmp_path: Path) -> None:
    database(tmp_path, "islands")
    persona_file(tmp_path, "pixi")
    persona_file(tmp_path, "keeper", KEEPER.format("Keeper", "islands"))
    async with ScriptedOpenAI(stream("[SEND: hi]", finish())) as server:
        settings_file(tmp_path, server)
        async with service_in(tmp_path) as service:
            names = {tool.name for tool in service.engine.tools}
            assert {"search_islands_database", "query_islands_database", "recall"} <= names
            assert "search_pixi_manual_database" not in names


async def test_a_persona_whose_database_is_missing_is_told_of_and_comes_when_it_is_there(
    scene: Scene,
) -> None:
    persona_file(scene.folder, "keeper", KEEPER.format("Keeper", "islands"))
    told = await scene.look()
    assert any("no database `islands`" in line and "keeper.md" in line for line in told), told
    assert "keeper" not in scene.service.personas
    database(scene.folder, "islands")
    assert await scene.look() == ["INFO: personas changed: keeper new"]
    assert "search_islands_database" in {tool.name for tool in scene.service.engine.tools}


async def test_where_nothing_can_read_everything_stays_as_it_was(scene: Scene) -> None:
    database(scene.folder, "islands")
    persona_file(scene.folder, "keeper", KEEPER.format("Keeper", "islands"))
    assert await scene.look() == ["INFO: personas changed: keeper new"]
    scene.settings('[helper_model]\nname = "nowhere.gguf"\n', name="newer")
    (line,) = await scene.look()
    assert "nowhere.gguf" in line
    assert await scene.said() == "first"
