"""The guide for persona authors: what it shows is read by the reader itself."""

import re
from pathlib import Path

from pixi.core.language import BUILT_IN
from pixi.personas.files import BrokenPersona, list_personas, load_persona
from pixi.personas.front_matter import KEYS

GUIDE = (Path(__file__).parents[2] / "docs" / "personas.md").read_text(encoding="utf-8")


def test_the_whole_example_loads_without_a_remark(tmp_path: Path) -> None:
    (text,) = re.findall(r"^````markdown\n(.*?)^````$", GUIDE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "mathilde.md"
    path.write_text(text, encoding="utf-8")
    loaded = load_persona(path)
    assert loaded.remarks == ()
    assert loaded.persona.name == "Mathilde"
    assert loaded.persona.in_short
    assert [example.said for example in loaded.persona.examples][:2] == ["hello!", "who are you?"]
    path.write_text(text.replace("summon:", "sumon:"), encoding="utf-8")
    (found,) = list_personas([tmp_path])
    assert isinstance(found, BrokenPersona)
    (fault,) = found.faults
    assert fault.removeprefix(f"{tmp_path}/") in GUIDE.replace("personas/mathilde", "mathilde")


def test_every_key_and_every_command_is_told() -> None:
    assert re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE) == list(KEYS)
    assert {name.lower() for name in re.findall(r"^\| `\[(\w+): ", GUIDE, re.MULTILINE)} == set(BUILT_IN)
