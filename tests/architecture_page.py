"""Writes the parts of docs/architecture.md that are made from the code: `python -m tests.architecture_page`.

They are the floors of the house, the files of the engine, the way of a message, how a reply is read, and the
life of a turn: its pictures and its tables, from `pixi.core.life.NEXT`. Each stands between two comments, and
a test compares it.
"""

import ast
import asyncio
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path

from benchmarks import hops
from pixi.core.language.states import FOLLOWS
from pixi.core.life import ENDING, FATES, LIVE, NEXT, Life, LifeEvent, LifeState, Reason
from tests.pages import ROOT
from tests.test_architecture import FLOORS, arrows_of, read_house

PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = ROOT / "pixi"

NOBODY_SAW = (LifeState.UNSEEN, LifeState.LOOKED_UP, LifeState.READY)
SOMEBODY_SAW = (LifeState.SEEN, LifeState.ASKING, LifeState.FINISHING)
_BLIND = LifeState.HOLDING

Edges = dict[tuple[str, str], list[str]]
"""Arrows of a picture: from, to, and the words at each."""


def edited(page: str, parts: Mapping[str, str]) -> str:
    """Put parts into a page, each between its two comments."""
    for name, text in parts.items():
        begin, end = f"<!-- made: {name} -->\n", f"<!-- end: {name} -->"
        before, found, rest = page.partition(begin)
        _, also_found, after = rest.partition(end)
        if not (found and also_found):
            raise ValueError(f"The page has no place for {name!r}.")
        page = f"{before}{begin}\n{text.strip()}\n\n{end}{after}"
    return page


def drawn() -> dict[str, str]:
    """Make the parts that are drawn without running anything."""
    made = {"floors": floors(), "engine": engine(), "reader": reader()}
    return made | {"pictures": pictures(), "tables": tables()}


def walked() -> dict[str, str]:
    """Make the parts for which a whole bot is run."""
    return {"way": way(asyncio.run(hops.measure()))}


# The house.


def floors() -> str:
    """List the rooms of the package by floor, each with its purpose."""
    rooms = sorted(FLOORS.items(), key=lambda room: (-room[1], room[0]))
    files = ((floor, room, PACKAGE / room / "__init__.py") for room, floor in rooms)
    rows = [(str(floor), f"`{room}/`", _purpose(file)) for floor, room, file in files if file.exists()]
    return table(("floor", "folder", "what it is"), rows)


def engine() -> str:
    """List the files of the engine by their own floors, each with its purpose."""
    house = read_house(PACKAGE)
    files = {name: module for name, module in house.items() if name.startswith("engine.")}
    below = {
        name: {target for target, _ in arrows_of(module, house, PACKAGE.name) if target in files}
        for name, module in files.items()
    }

    @cache
    def floor(name: str) -> int:
        return 1 + max(map(floor, below[name]), default=0)

    rows = [
        (str(floor(name)), f"`{name.removeprefix('engine.')}.py`", _purpose(_path(name)))
        for name in sorted(files, key=lambda name: (-floor(name), name))
    ]
    return table(("floor", "file", "what it is"), rows)


def _path(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py")


def _purpose(file: Path) -> str:
    """Read the first line of what a file says of itself."""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


# The way of a message.


def way(ways: Mapping[str, hops.Way]) -> str:
    """Tell the way to each station, without what it shares with the way before."""
    rows, before = [], hops.Way()
    for station, files in ways.items():
        common = hops.shared(before, files)
        new = " → ".join(f"`{file.removesuffix('.py')}`" for file in files[max(common - 1, 0) :])
        rows.append((station, str(len(files) - 1), new))
        before = files
    there, words, back = hops.hops(dict(ways))
    told = f"From Discord to the act: **{there} hops**, {words} of them from the model's words on. "
    told += f"From there until the turn is closed: **{back} hops**."
    return f"{told}\n\n{table(('station', 'hops', 'the way, from where it leaves the one before'), rows)}"


# How a reply is read.


def reader() -> str:
    """Tell the theory of the reader, its doubts, and its states with what follows them."""
    meanings = _meanings("State", "core.language.states")
    rows = [
        (
            f"`{state.name}`",
            meanings[state.name],
            "; ".join(f"`{s.name}`: {why}" for s, why in follows.items()),
        )
        for state, follows in FOLLOWS.items()
    ]
    states = table(("state", "where it is", "what follows"), rows)
    return "\n\n".join([_theory("core.language.states"), _theory("core.language.argument"), states])


def _theory(module: str) -> str:
    """Read what a module says of itself below its first line, a paragraph a line; tables as they are."""
    text = ast.get_docstring(ast.parse(_path(module).read_text(encoding="utf-8"))) or ""
    paragraphs = text.split("\n\n")[1:]
    return "\n\n".join(each if each.startswith("|") else " ".join(each.split()) for each in paragraphs)


# The life of a turn.


def pictures() -> str:
    """Draw how a reply is made, and how it ends before its time."""
    return f"{_picture(_made())}\n\n{_picture(_cut_short(), names=_GROUPS)}"


def everywhere() -> dict[LifeEvent, LifeState]:
    """Give the events that mean the same in every turn that was begun and is not over, with what follows."""
    found = {}
    for event in LifeEvent:
        follows = {NEXT.get((state, event)) for state in (LIVE | ENDING) - {LifeState.WAITING}}
        if len(follows) == 1 and (state := follows.pop()) is not None:
            found[event] = state
    return found


def _made() -> Edges:
    """Collect the arrows of a turn that nobody cuts short."""
    edges: Edges = {("[*]", LifeState.WAITING.name): []}
    for state in _in_order(LIVE):
        for event in LifeEvent:
            follows = NEXT.get((state, event), state)
            told = event not in everywhere() or state is LifeState.WAITING
            if told and follows is not state and follows in LIVE | {LifeState.DONE}:
                edges.setdefault((state.name, follows.name), []).append(_word(event))
    return edges


_GROUPS = {
    "NobodySaw": f"Nobody has seen anything ({', '.join(state.name for state in NOBODY_SAW)})",
    "SomebodySaw": f"Something was seen ({', '.join(state.name for state in SOMEBODY_SAW)})",
}


def _cut_short() -> Edges:
    """Collect the arrows of a turn that is cut short, from groups of states."""
    edges: Edges = {}
    groups = (("NobodySaw", NOBODY_SAW), ("SomebodySaw", SOMEBODY_SAW), (_BLIND.name, (_BLIND,)))
    for name, states in groups:
        for ending in _in_order(ENDING):
            by_members: dict[tuple[LifeState, ...], list[str]] = {}
            for event in LifeEvent:
                members = tuple(state for state in states if NEXT.get((state, event)) is ending)
                if members:
                    by_members.setdefault(members, []).append(_word(event))
            by_size = sorted(by_members.items(), key=lambda each: -len(each[0]))
            if words := [", ".join(found) + _only(members, states) for members, found in by_size]:
                edges[name, ending.name] = [" / ".join(words)]
    for ending, reason in reasons().items():
        if ending in ENDING:
            edges[ending.name, LifeState.DONE.name] = [_word(reason)]
    return edges


def _only(members: tuple[LifeState, ...], states: tuple[LifeState, ...]) -> str:
    """Say from which states of a group an arrow goes, where that is not all of them."""
    missing = [state.name for state in states if state not in members]
    if not missing:
        return ""
    return f" (only {members[0].name})" if len(members) == 1 else f" (not {', '.join(missing)})"


def _picture(edges: Edges, names: Mapping[str, str] | None = None) -> str:
    lines = ["stateDiagram-v2", "    direction LR"]
    lines += [f'    state "{text}" as {name}' for name, text in (names or {}).items()]
    for (begin, end), words in edges.items():
        lines.append(f"    {begin} --> {end}" + (f" : {', '.join(words)}" if words else ""))
    return "\n".join(["```mermaid", *lines, "```"])


def reasons() -> dict[LifeState, Reason]:
    """Give how a turn ended in which all was performed, by the state that it was in."""
    found = {}
    for state in LifeState:
        if NEXT.get((state, LifeEvent.PERFORMED)) is LifeState.DONE:
            life = Life()
            life.state = state
            life.on(LifeEvent.PERFORMED)
            assert life.reason is not None
            found[state] = life.reason
    return found


def tables() -> str:
    """Tell the whole table: live states, endings, events, and what becomes of the messages."""
    meanings = {kind: _meanings(kind, "core.life") for kind in ("LifeState", "LifeEvent", "Fate")}
    same = everywhere()
    always = " · ".join(f"{_word(event)} → `{state.name}`" for event, state in same.items())
    live = _in_order(LIVE)
    events = [event for event in LifeEvent if event not in same]
    cells = [
        (_word(event), *(_cell(state, event) for state in live))
        for event in events
        if any(NEXT.get((state, event)) is not state for state in live if (state, event) in NEXT)
    ]
    ending = [
        (f"`{state.name}`", meanings["LifeState"][state.name], _changes(state, same), _fate(state, meanings))
        for state in _in_order(ENDING)
    ]
    return "\n\n".join(
        [
            f"In any state of a turn that was begun: {always}. For the rest, while the reply is made:",
            table(("event", *(f"`{state.name}`" for state in live)), cells),
            "An empty field cannot happen there; a dot is ignored on purpose. The states are:",
            table(("state", "what it is"), [(f"`{s.name}`", meanings["LifeState"][s.name]) for s in live]),
            "A turn that ends before its time is in one of these until all is performed that still will be:",
            table(("state", "what it is", "goes over to", "ends as; its messages"), ending),
            "And these are the events:",
            table(("event", "what it is"), [(_word(e), meanings["LifeEvent"][e.name]) for e in LifeEvent]),
        ]
    )


def _cell(state: LifeState, event: LifeEvent) -> str:
    follows = NEXT.get((state, event))
    return "" if follows is None else "·" if follows is state else f"`{follows.name}`"


def _changes(state: LifeState, same: Mapping[LifeEvent, LifeState]) -> str:
    """Say what leads from an ending to another state than `DONE`."""
    changes: dict[LifeState, list[str]] = {}
    for event in LifeEvent:
        follows = NEXT.get((state, event), state)
        if follows not in (state, LifeState.DONE) and event not in same:
            changes.setdefault(follows, []).append(_word(event))
    return "; ".join(f"{', '.join(words)} → `{follows.name}`" for follows, words in changes.items())


def _fate(state: LifeState, meanings: Mapping[str, Mapping[str, str]]) -> str:
    reason = reasons()[state]
    return f"{_word(reason)}: {_lower(meanings['Fate'][FATES[reason].name])}"


def _meanings(kind: str, module: str) -> dict[str, str]:
    """Read what the members of an enumeration mean: the words below each."""
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
    found = {}
    for member, words in pairwise(body):
        match member, words:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _in_order(states: Iterable[LifeState]) -> list[LifeState]:
    return sorted(states, key=lambda state: state.value)


def _word(member: Enum) -> str:
    return member.name.lower().replace("_", " ")


def _lower(sentence: str) -> str:
    return re.sub(r"^[A-Z](?=[a-z])", lambda match: match[0].lower(), sentence).rstrip(".")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in (titles, ["---"] * len(titles), *rows))


if __name__ == "__main__":
    PAGE.write_text(edited(PAGE.read_text(encoding="utf-8"), drawn() | walked()), encoding="utf-8")
