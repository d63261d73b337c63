"""Finding addons and letting them register."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pixi.addons.loading import AddonSource, from_file, installed, load_addons
from pixi.toolbox.addon import Addon, basics
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox

WAVE = '''
def setup(addon):
    @addon.command(aliases=("greet",))
    async def wave(context, how):
        """wave at the person"""

    @addon.tool
    async def roll(context, sides: int) -> int:
        """Roll a die."""
        return sides
'''


class House:
    """A registry with the built-in commands, and what was said of addons."""

    def __init__(self) -> None:
        self.commands, self.tools = CommandRegistry(), Toolbox()
        basics(Addon(self.commands, self.tools))

    def load(self, *sources: AddonSource) -> list[str]:
        return load_addons(sources, self.commands, self.tools)

    @property
    def names(self) -> list[str]:
        return [command.name for command in self.commands] + [tool.name for tool in self.tools]


@pytest.fixture
def service() -> House:
    return House()


def addon(folder: Path, text: str, name: str = "waves.py") -> AddonSource:
    file = folder / name
    file.write_text(text)
    return from_file(file)


def test_a_file_brings_commands_and_tools(service: House, tmp_path: Path) -> None:
    assert service.load(addon(tmp_path, WAVE)) == []
    assert service.names == ["send", "note", "react", "wave", "roll"]
    assert service.commands.names()["wave"] == ("greet",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "import nothing_of_that_name",
            "ModuleNotFoundError: No module named 'nothing_of_that_name' (line 1)",
        ),
        ("x = 1", "it has no `def setup(addon)`; write one that registers its commands and tools."),
        ("setup = 3", "it has no `def setup(addon)`; write one that registers its commands and tools."),
        ("def setup(addon)\n  pass", "line 1: expected ':'."),
        ("def setup(addon):\n    raise ValueError('one\\ntwo')", "ValueError: one two (line 2)"),
        ("def setup(addon):\n    raise KeyError", "KeyError: no reason given (line 2)"),
        ("def setup():\n    pass", "TypeError: setup() takes 0 positional arguments but 1 was given"),
        ("import sys\nsys.exit('bye')", "it tried to end the program (SystemExit)."),
        (
            "async def setup(addon): ...",
            "its `setup` is never awaited; write `def setup(addon)` without `async`.",
        ),
        (WAVE.replace("greet", "say"), "command 'wave': the name 'say' is taken; give it another."),
        (
            WAVE + "\n    raise RuntimeError('after it had registered')",
            "RuntimeError: after it had registered (line 12)",
        ),
        (
            "def setup(addon):\n    @addon.command\n    def wave(context): ...",
            "command 'wave': write it as `async def wave(context, text)`.",
        ),
    ],
)
def test_an_addon_that_fails_is_named_and_leaves_nothing_behind(
    service: House, tmp_path: Path, text: str, problem: str
) -> None:
    good = addon(tmp_path, WAVE.replace("wave", "bow").replace("greet", "curtsy"), "bows.py")
    assert service.load(addon(tmp_path, text), good) == [f"addon waves.py is left out: {problem}"]
    assert service.names == ["send", "note", "react", "bow", "roll"]


def test_a_module_that_could_not_be_imported_is_not_left_half_made(service: House, tmp_path: Path) -> None:
    service.load(addon(tmp_path, "raise ValueError", "half_made.py"))
    assert "pixi_addon_half_made" not in sys.modules


def test_a_file_that_is_not_there_is_named(service: House, tmp_path: Path) -> None:
    (problem,) = service.load(from_file(tmp_path / "gone.py"))
    assert problem == f"addon gone.py is left out: there is no file {tmp_path / 'gone.py'}; check the path."


def test_a_path_without_a_name_is_named_as_it_was_given(service: House) -> None:
    (problem,) = service.load(from_file(Path()))
    assert problem == "addon . is left out: there is no file .; check the path."


def test_a_file_of_another_kind_is_named(service: House, tmp_path: Path) -> None:
    (problem,) = service.load(addon(tmp_path, WAVE, "waves.txt"))
    assert problem == "addon waves.txt is left out: it is not a Python file; its name must end in .py."


def test_two_addons_of_one_name_do_not_mix(service: House, tmp_path: Path) -> None:
    first = addon(tmp_path, WAVE)
    second = AddonSource("again.py", from_file(tmp_path / "waves.py").find)
    assert service.load(first, second) == [
        "addon again.py is left out: command 'wave': the name 'wave' is taken; give it another."
    ]
    assert service.names == ["send", "note", "react", "wave", "roll"]


def test_dataclasses_in_an_addon_work(service: House, tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass A:\n  x: int\n"
    )
    assert service.load(addon(tmp_path, text + WAVE)) == []


def test_installed_packages_are_found_by_their_entry_point(
    service: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wavepack.py").write_text(WAVE)
    info = tmp_path / "wavepack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wavepack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pixi.addons]\nwaves = wavepack\nbroken = no_such_module\nfunction = wavepack:setup\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    problems = service.load(*installed())
    assert problems == [
        "addon broken (of wavepack) is left out: ModuleNotFoundError: No module named 'no_such_module'",
        "addon waves (of wavepack) is left out: command 'wave': the name 'wave' is taken; give it another.",
    ]
    assert service.names == ["send", "note", "react", "wave", "roll"]
    sys.modules.pop("wavepack")


def test_an_entry_point_may_name_the_function_itself(service: House) -> None:
    point = EntryPoint("basics", "pixi.toolbox.addon:basics", "pixi.addons")
    (problem,) = service.load(AddonSource("basics", point.load))
    assert "'send' is taken" in problem
