"""The house, read from its imports: floors, rooms, and what may not stand in them."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "pixi"

FLOORS = {
    "__init__": 7,
    "__main__": 7,
    "cli": 6,
    "app": 5,
    "engine": 4,
    "addons": 4,
    "companion": 4,
    "channels": 3,
    "knowledge": 3,
    "testing": 3,
    "toolbox": 3,
    "web": 3,
    "documents": 2,
    "fetching": 2,
    "mcp": 2,
    "models": 2,
    "personas": 2,
    "settings": 2,
    "store": 2,
    "core": 1,
    "text": 1,
}
"""Rooms on one floor do not know each other."""

BROAD_EXCEPTS = {
    "engine.conversation": 1,
    "engine.command_executor": 1,
    "channels.http.server": 1,
    "models.reply": 1,
}
"""Round a conversation's task, round a channel that shows a piece, round the answer to a request (a client
must not be told what broke), and round what the network calls while a reply is read (it is raised where the
reply was asked for). Nowhere else: a function that somebody else wrote is run inside `foreign`."""

FACES = ("__init__", "__main__")
"""On the top floor, and knowing each other: the public names, and the way in of `python -m pixi`."""

PORTS = ("core.channel",)
"""What the outside is to offer, declared where everything can see it: of these the functions may await."""

CORE_MAY_IMPORT = {
    "abc",
    "bisect",
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "itertools",
    "json",
    "math",
    "msgspec",
    "rapidfuzz",
    "re",
    "types",
    "typing",
    "unicodedata",
}
"""What can only compute. Of the standard library too: most of it could reach a clock, a file or a network."""

ONE_THING = {
    "testing.discord.world": ("messages", "channels", "guilds", "interactions", "world", "gateway"),
}
"""Modules that may know each other in a circle, beside one of them: the state of a simulated Discord."""

FORBIDDEN_NAMES = {"utils", "manager", "base", "helpers", "misc"}
CLOCKS = {"now", "utcnow", "today"}


_LOOKED_AT = (
    *(ast.Import, ast.ImportFrom, ast.ClassDef, ast.Attribute, ast.Call, ast.ExceptHandler),
    *(ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith),
)
"""Nodes that tell something; the others, nine of ten, are passed over."""


@dataclass
class Module:
    """A module of the package, and what was found in it, each with its line.

    Its syntax tree is not kept: those of the whole house take 60 MB.
    """

    name: str  # below the package
    imports: list[tuple[str, int]] = field(default_factory=list)
    impure: list[tuple[str, int]] = field(default_factory=list)
    broad_excepts: list[int] = field(default_factory=list)
    argv_reads: list[int] = field(default_factory=list)
    relative_imports: list[int] = field(default_factory=list)
    classes: list[tuple[str, int]] = field(default_factory=list)  # public ones

    @property
    def room(self) -> str:
        return self.name.split(".")[0]

    def read(self, tree: ast.Module) -> None:
        is_core = self.room == "core"
        for node in ast.walk(tree):
            if not isinstance(node, _LOOKED_AT):
                continue
            line = node.lineno
            if is_core and (what := _impure(node)):
                self.impure.append((what, line))
            if isinstance(node, ast.ExceptHandler | ast.Call):
                self.broad_excepts += _broad(node)
            match node:
                case ast.Import(names=names):
                    self.imports += [(name.name, line) for name in names]
                case ast.ImportFrom(module=source, names=names, level=level):
                    self.imports += [(f"{source or ''}.{name.name}", line) for name in names]
                    if level:
                        self.relative_imports.append(line)
                    if source == "sys" and any(name.name == "argv" for name in names):
                        self.argv_reads.append(line)
                case ast.Attribute(attr="argv", value=ast.Name(id="sys")):
                    self.argv_reads.append(line)
                case ast.ClassDef(name=name) if not name.startswith("_"):
                    self.classes.append((name, line))


@cache
def read_house(package: Path) -> dict[str, Module]:
    """Every module, by name below the package; a folder goes by its own name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        modules[name] = Module(name)
        modules[name].read(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    return modules


def outside_imports(module: Module, package: str) -> Iterator[tuple[str, int]]:
    """What it imports from elsewhere: top-level names with their lines."""
    for name, line in module.imports:
        if name.split(".")[0] != package:
            yield name.split(".")[0], line


def arrows_of(module: Module, house: Mapping[str, Module], package: str) -> Iterator[tuple[str, int]]:
    """What it imports from the house, with the lines; for type checking and inside functions too."""
    for name, line in module.imports:
        if name == package:
            yield "__init__", line
        elif name.startswith(f"{package}."):
            target = name.removeprefix(f"{package}.")
            # `from pixi.core.language import Prose` was read as `pixi.core.language.Prose`.
            while target not in house and "." in target:
                target = target.rpartition(".")[0]
            yield (target if target in house else "__init__"), line
            # The folders on the way to it are imported too.
            while target := target.rpartition(".")[0]:
                if target in house and not f"{module.name}.".startswith(f"{target}."):
                    yield target, line


def faults(package: Path, *, broad_excepts: Mapping[str, int] | None = None) -> list[str]:
    """Everything that is wrong with a house, a line each."""
    house = read_house(package)
    allowed = BROAD_EXCEPTS if broad_excepts is None else broad_excepts
    return [
        *_rooms_without_floor(house),
        *_bad_names(house),
        *_arrows_up(house, package.name),
        *_circles(house, package.name),
        *_impure_core(house, package.name),
        *_broad_excepts(house, allowed),
        *_argv_readers(house),
        *_relative_imports(house),
        *_names_borne_twice(house),
    ]


def _rooms_without_floor(house: Mapping[str, Module]) -> Iterator[str]:
    for room in sorted({module.room for module in house.values()} - FLOORS.keys()):
        yield f"{room}: no floor is known for this room; give it one in {Path(__file__).name}"


def _bad_names(house: Mapping[str, Module]) -> Iterator[str]:
    for name in house:
        for word in sorted(FORBIDDEN_NAMES & set(name.split("."))):
            yield f"{name}: {word!r} says nothing; name it after what it is for"


def _arrows_up(house: Mapping[str, Module], package: str) -> Iterator[str]:
    for module in house.values():
        for target, line in arrows_of(module, house, package):
            here, there = FLOORS.get(module.room, 0), FLOORS.get(target.split(".")[0], 0)
            if there > here > 0:
                yield f"{module.name}:{line}: floor {here} imports {target} of floor {there}: up"
            elif there == here and target.split(".")[0] != module.room and module.room not in FACES:
                yield f"{module.name}:{line}: {module.room} imports {target} of its own floor {here}"


def _circles(house: Mapping[str, Module], package: str) -> Iterator[str]:
    modules: dict[str, set[str]] = {}
    for name, module in house.items():
        known = modules.setdefault(_thing(name), set())
        known.update({_thing(target) for target, _ in arrows_of(module, house, package)} - {_thing(name)})
    for circle in circles(modules):
        yield f"a circle of modules: {' -> '.join([*circle, circle[0]])}"


def _thing(name: str) -> str:
    folder, _, own = name.rpartition(".")
    for thing, members in ONE_THING.items():
        if folder == thing.rpartition(".")[0] and own in members:
            return thing
    return name


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """One circle through each knot of the graph (Tarjan's strongly connected components, walked)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    knots: list[set[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            at = stack.index(node)
            knot = set(stack[at:])
            del stack[at:]
            if len(knot) > 1:
                knots.append(knot)

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return [_walk(graph, knot) for knot in knots]


def _walk(graph: Mapping[str, Iterable[str]], knot: set[str]) -> list[str]:
    """A shortest way from the knot's first node back to itself."""
    start = min(knot)
    ways = [[start]]
    seen = {start}
    for way in ways:  # grows while it is read: breadth first
        for target in sorted(set(graph[way[-1]]) & knot):
            if target == start:
                return way
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    raise AssertionError("a knot holds a circle")


def _impure_core(house: Mapping[str, Module], package: str) -> Iterator[str]:
    for module in house.values():
        if module.room != "core":
            continue
        for name, line in outside_imports(module, package):
            if name not in CORE_MAY_IMPORT:
                yield f"{module.name}:{line}: the core does not import {name}"
        for what, line in module.impure if module.name not in PORTS else ():
            yield f"{module.name}:{line}: the core is pure: no {what}"


def _impure(node: ast.AST) -> str:
    match node:
        case ast.Await() | ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith():
            return "await"
        case ast.Call(func=ast.Name(id="open" | "print" | "input" | "__import__" as name)):
            return name
        case ast.Attribute(attr=attr) if attr in CLOCKS:
            return attr
        case _:
            return ""


def _broad_excepts(house: Mapping[str, Module], allowed: Mapping[str, int]) -> Iterator[str]:
    for module in house.values():
        for line in module.broad_excepts[allowed.get(module.name, 0) :]:
            yield f"{module.name}:{line}: a broad except; name the errors that can come"


def _broad(node: ast.AST) -> Iterator[int]:
    caught: list[ast.expr | None] = []
    match node:
        case ast.ExceptHandler(body=[*_, ast.Raise(exc=None)]):
            return  # it tidies up and catches nothing
        case ast.ExceptHandler(type=ast.Tuple(elts=types)):
            caught = list(types)
        case ast.ExceptHandler(type=kind):
            caught = [kind]
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=types):
            caught = list(types)
    for kind in caught:
        if kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException")):
            yield getattr(node, "lineno", 0)


def _argv_readers(house: Mapping[str, Module]) -> Iterator[str]:
    for module in house.values():
        for line in module.argv_reads if module.room != "cli" else ():
            yield f"{module.name}:{line}: only the command line reads argv"


def _relative_imports(house: Mapping[str, Module]) -> Iterator[str]:
    """They would hide arrows from this reading, and from a person's."""
    for module in house.values():
        for line in module.relative_imports:
            yield f"{module.name}:{line}: a relative import; write the whole name"


def _names_borne_twice(house: Mapping[str, Module]) -> Iterator[str]:
    """A class is found by its name alone, so each public name stands for one class."""
    first: dict[str, str] = {}
    for module in house.values():
        for name, line in module.classes:
            place = f"{module.name}:{line}"
            if first.setdefault(name, place) != place:
                yield f"{place}: a class is called {name}, as the one of {first[name]}; name it otherwise"


def drawing(package: Path) -> str:
    """The floors, highest first, with the rooms on each and what each room imports."""
    house = read_house(package)
    arrows: dict[str, set[str]] = {}
    for module in house.values():
        targets = {target.split(".")[0] for target, _ in arrows_of(module, house, package.name)}
        arrows.setdefault(module.room, set()).update(targets - {module.room})
    lines = []
    for floor in sorted(set(FLOORS.values()), reverse=True):
        for room in sorted(room for room in arrows if FLOORS.get(room) == floor):
            below = ", ".join(sorted(arrows[room], key=lambda name: (-FLOORS.get(name, 0), name)))
            lines.append(f"{floor}  {room:<10} -> {below}" if below else f"{floor}  {room}")
    return "\n".join(lines)


def test_the_house_stands() -> None:
    found = faults(PACKAGE)
    assert not found, "\n".join(["", *found, "", drawing(PACKAGE)])


def test_nothing_waits_in_a_way_that_swallows_its_end() -> None:
    """`wait_for` of Python 3.11 gives a result also if the task is cancelled in that moment; it goes on."""
    waits = [
        f"{path.relative_to(PACKAGE)}:{number}: use asyncio.timeout"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "asyncio.wait_for(" in line
    ]
    assert not waits, waits


def test_the_drawing_shows_every_room_on_its_floor() -> None:
    picture = drawing(PACKAGE)
    assert "\n1  core" in picture
    assert any(line.startswith("6  cli") and "app" in line for line in picture.splitlines())


BAD_HOUSES = {
    "up": (
        {"core/a.py": "from pixi.models.b import C", "models/b.py": "C = 1"},
        "core.a:1: floor 1 imports models.b of floor 2: up",
    ),
    "up inside a function": (
        {"models/a.py": "def f():\n    import pixi.engine.b", "engine/b.py": ""},
        "models.a:2: floor 2 imports engine.b of floor 4: up",
    ),
    "up for type checking": (
        {
            "store/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pixi.app import App",
            "app.py": "class App: ...",
        },
        "store.a:3: floor 2 imports app of floor 5: up",
    ),
    "to the roof": ({"cli/a.py": "from pixi import b"}, "cli.a:1: floor 6 imports __init__ of floor 7: up"),
    "circle of modules": (
        {
            "core/a.py": "import pixi.core.b",
            "core/b.py": "import pixi.core.c",
            "core/c.py": "import pixi.core.a",
        },
        "a circle of modules: core.a -> core.b -> core.c -> core.a",
    ),
    "circle through a folder": (
        {
            "core/a/__init__.py": "from pixi.core.a.one import x",
            "core/a/one.py": "from pixi.core.b import y",
            "core/a/two.py": "",
            "core/b.py": "from pixi.core.a.two import z",
        },
        "a circle of modules: core.a -> core.a.one -> core.b -> core.a",
    ),
    "beside": (
        {"models/a.py": "import pixi.store.b", "store/b.py": ""},
        "models.a:1: models imports store.b of its own floor 2",
    ),
    "foreign core": ({"core/a.py": "import aiohttp"}, "core.a:1: the core does not import aiohttp"),
    "core with a clock": ({"core/a.py": "import time"}, "core.a:1: the core does not import time"),
    "core with a calendar": (
        {"core/a.py": "import datetime\nx = datetime.datetime.now()"},
        "core.a:2: the core is pure: no now",
    ),
    "core with a calendar by another name": (
        {"core/a.py": "from datetime import date as day\nx = day.today()"},
        "core.a:2: the core is pure: no today",
    ),
    "core with a library that opens": (
        {"core/a.py": "import sqlite3"},
        "core.a:1: the core does not import sqlite3",
    ),
    "core with a back door": (
        {"core/a.py": "from importlib import import_module"},
        "core.a:1: the core does not import importlib",
    ),
    "core that waits": ({"core/a.py": "async def f(): ..."}, "core.a:1: the core is pure: no await"),
    "core that opens": ({"core/a.py": "def f():\n    open('x')"}, "core.a:2: the core is pure: no open"),
    "bad name": (
        {"engine/utils.py": ""},
        "engine.utils: 'utils' says nothing; name it after what it is for",
    ),
    "new room": (
        {"attic/a.py": ""},
        "attic: no floor is known for this room; give it one in test_architecture.py",
    ),
    "broad except": (
        {"models/a.py": "try: ...\nexcept (ValueError, Exception): ..."},
        "models.a:2: a broad except; name the errors that can come",
    ),
    "bare except": (
        {"models/a.py": "try: ...\nexcept: ..."},
        "models.a:2: a broad except; name the errors that can come",
    ),
    "broad suppress": (
        {"models/a.py": "import contextlib\nwith contextlib.suppress(Exception): ..."},
        "models.a:2: a broad except; name the errors that can come",
    ),
    "relative import": (
        {"models/a.py": "from .b import c", "models/b.py": ""},
        "models.a:1: a relative import; write the whole name",
    ),
    "name borne twice": (
        {
            "models/a.py": "class Reply: ...\nclass _Own: ...",
            "store/b.py": "class _Own: ...\nclass Reply: ...",
        },
        "store.b:2: a class is called Reply, as the one of models.a:1; name it otherwise",
    ),
    "argv": ({"app.py": "import sys\nx = sys.argv"}, "app:2: only the command line reads argv"),
    "argv by name": ({"app.py": "from sys import argv"}, "app:1: only the command line reads argv"),
}


def build(folder: Path, files: Mapping[str, str]) -> Path:
    package = folder / "pixi"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


@pytest.mark.parametrize("case", BAD_HOUSES)
def test_a_bad_house_is_told_what_is_wrong_and_nothing_else(case: str, tmp_path: Path) -> None:
    files, fault = BAD_HOUSES[case]
    assert faults(build(tmp_path, files)) == [fault]


def test_a_good_house_has_no_fault(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from pixi.core.a import A",
        "core/__init__.py": "",
        "core/a.py": "import datetime\nimport rapidfuzz\nA = datetime.datetime",
        "models/a.py": "from pixi.core import a\nfrom pixi.core.a import A\ntry: ...\nexcept ValueError: ...",
        "cli/__init__.py": "import sys\nx = sys.argv\nimport pixi.app",
        "app.py": "import pixi.models.a\ntry: ...\nexcept BaseException:\n    undo()\n    raise",
    }
    assert faults(build(tmp_path, files)) == []


def test_only_the_allowed_number_of_broad_excepts_is_passed_over(tmp_path: Path) -> None:
    text = "try: ...\nexcept Exception: ...\ntry: ...\nexcept Exception: ..."
    package = build(tmp_path, {"engine/task.py": text})
    assert faults(package, broad_excepts={"engine.task": 1}) == [
        "engine.task:4: a broad except; name the errors that can come"
    ]
