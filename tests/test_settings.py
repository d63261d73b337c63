"""The settings: which source wins, and what each mistake is told."""

import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from pixi.core.errors import ConfigError
from pixi.core.llm import Prices
from pixi.settings import DiscordSettings, LimitSettings, ModelSettings, Secret, Settings, load
from pixi.settings.sections import SECTIONS
from tests.rows import row


def loaded(
    folder: Path,
    toml: str | bytes = "",
    *,
    dotenv: str = "",
    overrides: dict[str, object] | None = None,
    **env: str,
) -> Settings:
    if toml:
        (folder / "pixi.toml").write_bytes(toml if isinstance(toml, bytes) else toml.encode())
    if dotenv:
        (folder / ".env").write_text(dotenv)
    return load(environ=env, folder=folder, overrides=overrides)


def fault(folder: Path, *arguments: Any, **keywords: Any) -> str:
    """What the mistake is told, without the folder's name."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, *arguments, **keywords)
    text = str(caught.value)
    assert len(text.splitlines()) <= 2
    return text.replace(f"{folder}/", "")


def test_without_any_setting_everything_has_its_default(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    assert settings.model == ModelSettings()
    assert settings.model.name == "local"
    assert settings.helper_model == settings.model
    assert settings.embedding_model is None
    assert settings.persona.default == "pixi"
    assert settings.persona.folder == tmp_path / "personas"
    assert settings.reply.prose == "auto"
    assert settings.store.url == "sqlite:///pixi.db"
    assert settings.limits == LimitSettings()
    assert settings.origin is None
    assert settings.sources == {}


EVERYTHING = """
addons = ["waves.py"]
[model]
name = "local"
base_url = "https://api.openai.com/v1"
temperature = 1
max_tokens = 500
context_tokens = 8192
extra_body = { top_k = 40 }
tools = "native"
grammar = "llama.cpp"
vision = true
prices = { prompt = 1.25, completion = 10, cached = 0.125 }
[models.fast]
name = "quick"
[models.wild]
temperature = 2
[helper_model]
name = "small"
[embedding_model]
name = "vectors"
[persona]
default = "pixi"
folder = "personas"
[reply]
prose = "drop"
pace = "brisk"
gather_seconds = 1.5
gather_messages = 4
waiting_messages = 50
[history]
summarize = false
summary_tokens = 200
[databases]
folder = "databases"
names = ["pancakes"]
[store]
url = "sqlite:///pixi.db"
[discord]
token = "t"
api_url = ""
allowed_users = [1, "2"]
blocked_guilds = [3]
admins = [4]
dms = false
bots = true
home_channels = ["5"]
faces = "webhook"
pings = ["users"]
catch_up_minutes = 5
slash = false
[limits]
commands = 3
seconds = 60
"""


def test_all_sections_are_read(tmp_path: Path) -> None:
    settings = loaded(tmp_path, EVERYTHING)
    assert settings.model.temperature == 1.0
    assert settings.model.extra_body == {"top_k": 40}
    assert settings.model.tools == "native"
    assert settings.embedding_model is not None
    assert settings.embedding_model.name == "vectors"
    assert settings.databases.names == ("pancakes",)
    assert settings.discord == DiscordSettings(
        token=Secret("t"),
        allowed_users=(1, 2),
        blocked_guilds=(3,),
        admins=(4,),
        dms=False,
        bots=True,
        home_channels=(5,),
        faces="webhook",
        pings=("users",),
        catch_up_minutes=5.0,
        slash=False,
    )
    assert settings.model.prices == Prices(1.25, 10, 0.125)
    assert settings.limits == LimitSettings(commands=3, seconds=60)
    assert (settings.reply.prose, settings.reply.pace, settings.reply.gather_seconds) == (
        "drop",
        "brisk",
        1.5,
    )
    assert (settings.reply.gather_messages, settings.reply.waiting_messages) == (4, 50)
    assert (settings.history.summarize, settings.history.summary_tokens) == (False, 200)
    assert settings.addons == (tmp_path / "waves.py",)
    assert settings.origin == tmp_path / "pixi.toml"


def test_the_stronger_source_wins(tmp_path: Path) -> None:
    toml = '[model]\nname = "file"\n'
    variable: dict[str, Any] = {"PIXI_MODEL__NAME": "environment"}
    dotenv = "PIXI_MODEL__NAME=dotenv\n"
    assert loaded(tmp_path, toml).model.name == "file"
    assert loaded(tmp_path, toml, dotenv=dotenv).model.name == "dotenv"
    assert loaded(tmp_path, toml, **variable).model.name == "environment"
    flagged = loaded(tmp_path, toml, overrides={"model.name": "flag", "model.base_url": None}, **variable)
    assert flagged.model.name == "flag"
    assert flagged.sources == {"model.name": "a flag"}


def test_an_empty_variable_is_not_set_and_hides_that_of_dotenv(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path, '[model]\nname = "file"', dotenv="PIXI_MODEL__NAME=dotenv", PIXI_MODEL__NAME=""
    )
    assert settings.model.name == "file"


def test_well_known_variables_fill_what_pixi_was_not_told(tmp_path: Path) -> None:
    known: dict[str, Any] = {
        "OPENAI_API_KEY": "ambient",
        "OPENAI_BASE_URL": "http://proxy/v1",
        "DISCORD_TOKEN": "d",
    }
    settings = loaded(tmp_path, '[model]\nname = "m"', **known)
    assert settings.model.api_key == Secret("ambient")
    assert settings.model.base_url == "http://proxy/v1"
    assert settings.discord.token == Secret("d")
    own = loaded(tmp_path, '[model]\nname = "m"\nbase_url = "http://mine/v1"\napi_key = "mine"', **known)
    assert own.model.api_key == Secret("mine")
    assert own.model.base_url == "http://mine/v1"


def test_a_key_alone_chooses_no_server(tmp_path: Path) -> None:
    assert loaded(tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL="http://h/v1").model.name == "local"


def test_an_address_without_a_name_means_the_servers_only_model(tmp_path: Path) -> None:
    assert loaded(tmp_path, PIXI_MODEL__BASE_URL="http://h/v1").model.name == ""
    assert loaded(tmp_path, overrides={"model.base_url": "http://h/v1"}).model.name == ""


def test_variables_hold_numbers_lists_and_tables(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        PIXI_LIMITS__COMMANDS="7",
        PIXI_MODEL__VISION="true",
        PIXI_MODEL__EXTRA_BODY='{"top_k": 1}',
        PIXI_DATABASES__NAMES="a, b",
        PIXI_DISCORD__ADMINS="[1, 2]",
        PIXI_ADDONS="one.py,/two.py",
    )
    assert settings.limits.commands == 7
    assert settings.model.vision is True
    assert settings.model.extra_body == {"top_k": 1}
    assert settings.databases.names == ("a", "b")
    assert settings.discord.admins == (1, 2)
    assert settings.addons == (tmp_path / "one.py", Path("/two.py"))


def test_a_helper_of_the_same_server_has_its_key(tmp_path: Path) -> None:
    main = '[model]\nname = "a"\nbase_url = "http://one/v1"\napi_key = "k"\ntemperature = 1\n[helper_model]\n'
    same = loaded(tmp_path, main + "max_tokens = 9").helper_model
    assert (same.name, same.temperature, same.max_tokens) == ("a", 1.0, 9)
    smaller = loaded(tmp_path, main + 'name = "b"').helper_model
    assert (smaller.name, smaller.base_url, smaller.api_key) == ("b", "http://one/v1", Secret("k"))
    assert smaller.temperature is None
    elsewhere = loaded(tmp_path, main + 'base_url = "http://two/v1"').helper_model
    assert elsewhere.name == "", "the one model of that server"


def test_further_models_are_sections_with_names(tmp_path: Path) -> None:
    main = '[model]\nname = "a"\nbase_url = "http://one/v1"\napi_key = "k"\ntemperature = 1\n'
    settings = loaded(
        tmp_path,
        main + '[models.fast]\nname = "b"\nvision = true\n[models.wild]\ntemperature = 2\n'
        '[models.far]\nname = "c"\nbase_url = "http://two/v1"\n[models.later]\n',
    )
    assert list(settings.models) == ["fast", "wild", "far"]
    fast, wild, far = settings.models.values()
    assert (fast.name, fast.base_url, fast.api_key) == ("b", "http://one/v1", Secret("k"))
    assert (fast.temperature, fast.vision) == (None, True)
    assert (wild.name, wild.temperature) == ("a", 2.0)
    assert (far.name, far.base_url, far.api_key) == ("c", "http://two/v1", None)
    assert settings.sources["models.fast.name"] == str(tmp_path / "pixi.toml")


def test_further_models_can_come_from_the_environment(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        '[models.fast]\nname = "b"\n',
        PIXI_MODELS__FAST__NAME="c",
        PIXI_MODELS__LARGE_ONE__MAX_TOKENS="9",
        PIXI_MODELS__LARGE_ONE__PRICES='{"prompt": 1, "completion": 2}',
    )
    assert settings.models["fast"].name == "c"
    assert settings.models["large_one"].max_tokens == 9
    assert settings.models["large_one"].prices == Prices(1, 2, cached=1)


def test_a_key_never_goes_to_another_server(tmp_path: Path) -> None:
    toml = '[model]\nname = "a"\nbase_url = "http://one/v1"\napi_key = "k"\n'
    settings = loaded(
        tmp_path,
        toml + '[helper_model]\nname = "b"\nbase_url = "http://two/v1"\n'
        '[embedding_model]\nname = "c"\nbase_url = "https://api.openai.com/v1"',
        OPENAI_API_KEY="ambient",
    )
    assert settings.helper_model.api_key is None
    assert settings.embedding_model is not None
    assert settings.embedding_model.api_key == Secret("ambient")


def test_config_is_a_flag_or_a_variable(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('[model]\nname = "other"')
    assert load(Path("other.toml"), environ={}, folder=tmp_path).model.name == "other"
    assert loaded(tmp_path, '[model]\nname = "no"', PIXI_CONFIG="other.toml").model.name == "other"


def test_a_byte_order_mark_and_empty_sections_do_no_harm(tmp_path: Path) -> None:
    settings = loaded(tmp_path, b'\xef\xbb\xbf[model]\nname = "m"\n[limits]\n')
    assert settings.model.name == "m"
    assert set(settings.sources) == {"model.name"}


def test_a_folder_called_dotenv_is_a_virtual_environment(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    assert loaded(tmp_path).model.name == "local"


def test_variables_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    assert loaded(tmp_path, PIXI_PROJECT_ROOT="/x", PIXI_HOME="/y").sources == {}


FILE_FAULTS = [
    ('[model]\nnmae = "x"', "pixi.toml, line 2: [model] has no key 'nmae'; did you mean 'name'?"),
    ('[modle]\nname = "x"', "no section [modle]; did you mean 'model'?"),
    ("[zzz]\na = 1", "pixi.toml, line 2: there is no section [zzz]. Known are: model, helper_model"),
    ('\nname = "x"', "pixi.toml, line 2: there is no setting 'name'; it belongs in [model]."),
    ('[model]\nprose = "send"', "[model] has no key 'prose'; it belongs in [reply]."),
    ('model = "gpt"', "pixi.toml, line 1: model is a section; write [model] and its keys below."),
    ("[[model]]\nname = 1", "model is a section"),
    ("[discord.allowed]\nusers = [1]", "[discord] has no key 'allowed'"),
    (
        "[model\n",
        "pixi.toml is not valid TOML: Expected ']' at the end of a table declaration (at line 1, column 7).",
    ),
    ("a = " + "[" * 9000, "pixi.toml is not valid TOML"),
    ("[limits]\ncommands = 1" + "0" * 5000, "pixi.toml is not valid TOML"),
    (b"a = '\xff'", "pixi.toml: byte 6 is not UTF-8; save the file with the encoding UTF-8."),
    ('[limits]\ncommands = "many"', 'limits.commands is "many"; it must be a whole number from 1 to 1,000.'),
    ("[limits]\ncommands = -1", "limits.commands is -1; it must be a whole number from 1 to 1,000."),
    ("[limits]\nseconds = 1e9", "limits.seconds is 1000000000.0; it must be a number from 0.1 to 86,400."),
    ("[model]\ntemperature = nan", "it must be a number from 0 to 5."),
    ("[model]\ntemperature = true", "model.temperature is true; it must be a number"),
    ('[model]\ntools = "x"', 'it must be one of "auto", "native", "text", "off".'),
    ('[model]\nname = ""', "model.name is empty; give it a value or remove the line."),
    ('[model]\nbase_url = "localhost:80"', "it must be an address such as https://api.openai.com/v1."),
    ('[model]\nbase_url = "http://[/v1"', "it must be an address"),
    ("[model]\nextra_body = 1", "model.extra_body is 1; it must be a table."),
    ("[model]\nextra_body = {a = 1979-05-27}", "it must be a table of what JSON can say"),
    ('[persona]\nfolder = ""', "it must be a path in quotes."),
    ('addons = "a.py"', 'addons is "a.py"; it must be a list of paths.'),
    ('[discord]\nadmins = ["mo"]', "it must be a list of ids such as"),
    ('[embedding_model]\nbase_url = "http://h/v1"', "[embedding_model] needs a name"),
    ("[models.fast]\nnmae = 1", "pixi.toml, line 2: [models.fast] has no key 'nmae'; did you mean 'name'?"),
    ('[models]\nname = "x"', "pixi.toml, line 2: each further model is a section: write [models.NAME]"),
    ('models = ["x"]', "pixi.toml, line 1: models is a section; write [models.NAME] and its keys below."),
    ('[models.Fast]\nname = "x"', "[models.Fast] cannot be chosen by that name; it must be small letters"),
    ("[models.default]", "pixi.toml, line 1: the model called 'default' is [model] itself"),
    ("[models.gpt-4.1]\nname = 'x'", "[models.gpt-4] has no key '1'"),
    (
        "[models.fast]\ntemperature = 9",
        "line 2: models.fast.temperature is 9; it must be a number from 0 to 5.",
    ),
    ("[model]\nprices = 2", "model.prices is 2; it must be dollars for a million tokens, such as { prompt ="),
    ("[model]\nprices = { prompt = 1 }", "it must be dollars for a million tokens"),
    ("[model]\nprices = { prompt = 1, completion = -2 }", "it must be dollars for a million tokens"),
    ("[model]\nprices = { promt = 1 }", "model.prices has no key 'promt'; did you mean 'prompt'?"),
    ("[discord]\nadmins = 1", "discord.admins is 1; it must be a list of ids such as [123456789012345678]."),
    ("[discord]\nadmins = [-1]", "discord.admins is [-1]; it must be a list of ids"),
    ("[discord]\nhome_channels = [1, true]", "it must be a list of ids"),
    ('[discord]\nfaces = "mask"', 'discord.faces is "mask"; it must be one of "off", "profile", "webhook".'),
    ('[discord]\npings = ["all"]', 'it must be a list of any of "users", "roles", "everyone".'),
    ("[discord]\ncatch_up_messages = 51", "it must be a whole number from 0 to 50."),
    ("[discord]\npicture_megabytes = 0", "it must be a number from 0.1 to 100."),
    ('[discord]\napi_url = "discord.com"', "it must be an address such as https://discord.com/api/v10."),
    (
        '[discord]\ntoken = "two words"',
        "discord.token is not a token; copy it again, without spaces or quotes.",
    ),
    ('[reply]\npace = "fast"', 'it must be one of "persona", "off", "brisk", "human".'),
    ("[reply]\ngather_seconds = 61", "it must be a number from 0 to 60."),
    ("[reply]\ngather_messages = 0", "reply.gather_messages is 0; it must be a whole number from 1 to 100."),
    ("[reply]\ngather_messages = 2.5", "it must be a whole number from 1 to 100."),
    ("[reply]\nwaiting_messages = 0", "it must be a whole number from 1 to 100,000."),
    (
        "[reply]\nwaiting_message = 9",
        "[reply] has no key 'waiting_message'; did you mean 'waiting_messages'?",
    ),
    ("[history]\nsummary_tokens = 99", "it must be a whole number from 100 to 4,000."),
    ('[history]\nsummarize = "often"', "it must be true or false."),
    ("[history]\nsummarise = false", "[history] has no key 'summarise'; did you mean 'summarize'?"),
]


def test_a_mistake_in_the_file_is_told_with_its_place_and_mend(tmp_path: Path) -> None:
    for toml, told in FILE_FAULTS:
        with row(toml):
            assert told in fault(tmp_path, toml)


VARIABLE_FAULTS = [
    ("PIXI_MODEL__NMAE", "x", "PIXI_MODEL__NMAE: [model] has no key 'nmae'; did you mean 'name'?"),
    ("PIXI_MODLE__NAME", "x", "there is no section [modle]; did you mean 'model'?"),
    ("PIXI_MODEL_NAME", "x", "PIXI_MODEL_NAME: write PIXI_MODEL__NAME, with two underscores."),
    (
        "PIXI_LIMITS__COMMANDS",
        "x",
        'PIXI_LIMITS__COMMANDS: limits.commands is "x"; it must be a whole number',
    ),
    ("PIXI_MODEL__EXTRA_BODY", "{", "it must be a table."),
    ("PIXI_MODELS__FAST", "x", "PIXI_MODELS__FAST: each further model is a section"),
    ("PIXI_MODELS__FAST__NMAE", "x", "PIXI_MODELS__FAST__NMAE: [models.fast] has no key 'nmae'"),
    ("PIXI_DISCORD__PINGS", "users, all", "it must be a list of any of"),
    ("PIXI_CONFIG", "gone.toml", "gone.toml: there is no such file; name a settings file that exists."),
    ("OPENAI_BASE_URL", "nowhere", "OPENAI_BASE_URL: model.base_url is"),
]


def test_a_mistake_in_the_environment_is_told(tmp_path: Path) -> None:
    for name, value, told in VARIABLE_FAULTS:
        variables: dict[str, Any] = {name: value}
        with row(name):
            assert told in fault(tmp_path, **variables)


def test_a_mistake_in_dotenv_is_told_with_its_line(tmp_path: Path) -> None:
    assert fault(tmp_path, dotenv="\n\nwhat is this = ?\n").startswith(".env, line 3 is not NAME=value")
    told = fault(tmp_path, dotenv="# hello\n\nPIXI_MODEL__NMAE=x\n")
    assert told.startswith(".env, line 3: PIXI_MODEL__NMAE: [model] has no key 'nmae'")


def test_a_mistake_in_a_flag_is_told(tmp_path: Path) -> None:
    told = fault(tmp_path, overrides={"model.base_url": "x"})
    assert told.startswith('on the command line: model.base_url is "x"')


def test_all_mistakes_are_told_at_once_each_with_its_place_and_mend(tmp_path: Path) -> None:
    toml = """\
[model]
nmae = "x"
temperature = "hot"
[[model.fallback]]
name = 5
[[model.fallback]]
top = 1
[modle]
name = "x"
[models."fast"]
max_tokens = -1
[reply]
gather_seconds = "soon"
[web_search]
engine = "searxng"
[limits]
month_dollars = 10
"""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, toml, dotenv="PIXI_STORE_URL=x\nnonsense here\n", PIXI_DISCORD__TOKEN="a b")
    told = [fault.replace(f"{tmp_path}/", "") for fault in caught.value.faults]
    assert [line[:28].partition(":")[0] for line in told] == [
        ".env, line 2 is not NAME=val",
        ".env, line 1",
        "pixi.toml, line 2",
        "pixi.toml, line 3",
        "pixi.toml, line 5",
        "pixi.toml, line 7",
        "pixi.toml, line 6",
        "pixi.toml, line 9",
        "pixi.toml, line 11",
        "pixi.toml, line 13",
        "PIXI_DISCORD__TOKEN",
    ]
    assert "did you mean 'name'?" in told[2]
    assert str(caught.value).splitlines() == [*caught.value.faults]


def test_what_cannot_hold_together_is_told_with_the_rest_but_no_mistake_twice(tmp_path: Path) -> None:
    searching = '[web_search]\nengine = "searxng"\n[limits]\nmonth_dollars = 10\n[model]\nname = "x"\n'
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"{searching}[reply]\nprose = 1\n[embedding_model]\nmodel = 'x'\n")
    told = "\n".join(caught.value.faults)
    assert [word in told for word in ("reply.prose", "needs the address", "[embedding_model] has no")] == [
        True
    ] * 3
    assert "needs the price" not in told  # whose model the embeddings are is not known
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"{searching}[reply]\nprose = 1\n")
    assert ["needs the price of each model" in fault for fault in caught.value.faults] == [False, False, True]


@pytest.mark.parametrize(
    ("unknown", "also"),
    [
        ("[modle]\nx = 1", ["[embedding_model] needs", "[web_search]"]),
        ("[modle]\nx = 1\n[embeding_model]\nname = 'e'", ["[web_search]"]),
        ("tool = 'x'\n[reply]\nx = 1", ["[embedding_model] needs"]),
    ],
)
def test_a_section_that_nobody_knows_hides_no_mistake_elsewhere(
    tmp_path: Path, unknown: str, also: list[str]
) -> None:
    (tmp_path / "pixi.toml").write_text(
        f'{unknown}\n[embedding_model]\nbase_url = "http://h"\n[web_search]\nengine = "mcp"'
    )
    with pytest.raises(ConfigError) as caught:
        load(environ={}, folder=tmp_path)
    cross = [fault for fault in caught.value.faults if "there is no" not in fault and "no key" not in fault]
    assert len(cross) == len(also), cross
    assert all(text in fault for text, fault in zip(also, cross, strict=True)), cross


def test_a_settings_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").mkdir()
    with pytest.raises(ConfigError, match=r"pixi\.toml is a folder, and a settings file is wanted"):
        load(environ={}, folder=tmp_path)
    (tmp_path / "broken.toml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="there is no such file"):
        load(Path("broken.toml"), environ={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("toml", "variable"),
    [
        ("[model]\napi_key = 1234567", "x"),
        ('[model]\napi_key = "canary canary"', "x"),
        ('[model]\napi_key = ["canary"]', "x"),
        ('[model]\nbase_url = "ftp://me:canary@host/"', "x"),
        ("", "cänary"),
    ],
)
def test_no_error_shows_a_secret(tmp_path: Path, toml: str, variable: str) -> None:
    told = fault(tmp_path, toml, DISCORD_TOKEN=variable)
    for secret in ("canary", "1234567", "cänary"):
        assert secret not in told


def test_secrets_never_print(tmp_path: Path) -> None:
    settings = loaded(tmp_path, OPENAI_API_KEY=" canary ", DISCORD_TOKEN="canary")
    assert "canary" not in f"{settings!r} {settings} {settings.model.api_key:}"
    assert settings.model.api_key is not None
    assert settings.model.api_key.reveal() == "canary"


def test_an_empty_key_in_the_file_is_no_key(tmp_path: Path) -> None:
    assert loaded(tmp_path, '[model]\nname = "m"\napi_key = ""').model.api_key is None


def test_every_number_has_a_range() -> None:
    hints = [
        hint for kind in SECTIONS.values() for hint in get_type_hints(kind, include_extras=True).values()
    ]
    assert not {int, float, int | None, float | None}.intersection(hints)


def test_importing_brings_in_nothing_heavy() -> None:
    script = "import sys, pixi.settings; print([m for m in sys.modules if m in sys.argv])"
    heavy = ["pydantic", "openai", "aiohttp", "rapidfuzz", "dotenv", "asyncio", "rich"]
    done = subprocess.run([sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("toml", "env", "is_set"),
    [
        ("", {}, False),
        ("[model]\ntemperature = 0.5\n", {"OPENAI_API_KEY": "sk", "OPENAI_BASE_URL": "http://x/v1"}, False),
        ("[model]\nname = 'local'\n", {}, True),
        ("[model]\nbase_url = 'http://x/v1'\n", {}, True),
        ("", {"PIXI_MODEL__NAME": "local"}, True),
    ],
)
def test_a_model_is_set_by_a_name_or_an_address_and_not_by_a_key(
    tmp_path: Path, toml: str, env: dict[str, str], is_set: bool
) -> None:
    (tmp_path / "pixi.toml").write_text(toml)
    assert load(environ=env, folder=tmp_path).model_is_set is is_set
