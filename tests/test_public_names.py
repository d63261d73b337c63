"""What `import pixi` offers: few names, each from its home, and nothing heavy until it is used."""

import subprocess
import sys

import pytest

import pixi

NAMES = [
    "Addon",
    "Author",
    "Card",
    "Channel",
    "ChannelError",
    "CommandEnded",
    "CommandStarted",
    "CommandStream",
    "CommandText",
    "ConfigError",
    "Context",
    "DirectoryDatabase",
    "Engine",
    "Event",
    "Field",
    "Image",
    "Limits",
    "Message",
    "Model",
    "ModelError",
    "Persona",
    "PixiError",
    "Prose",
    "Rate",
    "RetrievalAgent",
    "Role",
    "StoreError",
    "Thought",
    "ToolCallEnded",
    "ToolError",
    "Toolbox",
    "TurnReport",
    "open_engine",
]


def test_the_names_are_these() -> None:
    assert pixi.__all__ == NAMES


def test_each_name_is_there() -> None:
    for name in NAMES:
        assert getattr(pixi, name) is not None, name
        assert name in dir(pixi)


def test_there_is_no_other() -> None:
    with pytest.raises(AttributeError, match="Egnine"):
        pixi.Egnine  # noqa: B018


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = "import sys, pixi; print(*sorted(m for m in sys.modules if m.startswith('pixi')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pixi"]


def test_an_engine_needs_none_of_the_heavy_packages() -> None:
    heavy = ["openai", "pydantic", "aiohttp", "rich", "prompt_toolkit", "xllamacpp", "tantivy", "numpy"]
    code = f"import sys, pixi; pixi.Engine; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
