"""No assertion stands on a clock: a slow machine must not turn a test red.

What is to be fast is measured in `benchmarks/`. What is bounded is asserted by counting steps, bytes or
calls, or with a clock that the test holds (the fixture `clock` of `tests/held_clock.py`). What waits, waits
with `tests/waiting.py`.

The check reads each test file as a syntax tree. A *reading* is a call of a clock, a name that was bound to
an expression with a reading in it, or a call of a function of the same file that returns one. Faults are an
`assert` with a reading in it, and a short limit (`asyncio.timeout(5)`) that is not expected to run out.
"""

import ast
import asyncio
import time
from collections.abc import Iterator
from functools import cache
from math import inf
from pathlib import Path

import pytest

from pixi.store.sqlite import SqliteStore
from tests.held_clock import HeldClock
from tests.waiting import until

TESTS = Path(__file__).resolve().parent

CLOCKS = {
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.process_time",
    "time.process_time_ns",
    "time.thread_time",
    "time.thread_time_ns",
    "time.time",
    "time.time_ns",
    "monotonic",
    "perf_counter",
    "process_time",
    "thread_time",
    "loop.time",
    "asyncio.get_running_loop().time",
    "datetime.now",
    "datetime.utcnow",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "timeit.timeit",
    "timeit.repeat",
}
HELD_CLOCKS = {
    "time.monotonic",
    "monotonic",
    "loop.time",
    "asyncio.get_running_loop().time",
    "asyncio.get_event_loop().time",
}
"""Those that stand where a test holds its clock."""
PASS_ON = {"abs", "all", "any", "float", "int", "max", "min", "round", "sorted", "sum", "mean", "median"}
"""Functions of numbers, and of truths about them: what comes out is a reading if one goes in."""

LIMITS = {"asyncio.timeout": 0, "asyncio.wait_for": 1}
"""Functions that raise TimeoutError, and which argument of theirs is the limit in seconds."""
SHORT = 30.0

_NAMES = [*CLOCKS, *LIMITS]
_WORDS = {"from time import", *_NAMES, *(f"{name.rpartition('.')[2]}(" for name in _NAMES)}
_STATEMENTS = (
    *(ast.Assert, ast.Return, ast.Call),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr),
)
"""What a scope is looked through for."""


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each assertion on a clock and of each short limit."""
    if not any(word in source for word in _WORDS):
        return
    tree = ast.parse(source)
    held = {id(child) for node in _all(tree) if _holds_clock(node) for child in ast.walk(node)}
    functions = [node for node in _all(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    every = _clocks(tree, functions, CLOCKS | set(_loops(tree)))
    running = _clocks(tree, functions, CLOCKS - HELD_CLOCKS)
    seen: set[tuple[int, str]] = set()
    for scope in [tree, *functions]:
        clocks = running if id(scope) in held else every
        bound = _bound(scope, clocks)
        for node in _within(scope):
            if isinstance(node, ast.Assert) and _reads(node.test, clocks, bound):
                seen.add((node.lineno, f"an assertion on a clock: {ast.unparse(node.test)}"))
    expected = held | set(_expected_to_run_out(tree))
    for node in _all(tree):
        if isinstance(node, ast.Call) and id(node) not in expected and (limit := _limit(node)) < SHORT:
            seen.add((node.lineno, f"a limit of {limit:g} s: wait with tests.waiting"))
    _within.cache_clear()
    _all.cache_clear()
    yield from sorted(seen)


def _clocks(
    tree: ast.AST, functions: list[ast.FunctionDef | ast.AsyncFunctionDef], clocks: set[str]
) -> set[str]:
    """Return these clocks, their other names in the file, and its functions that return what they read."""
    clocks = set(clocks)
    while True:
        known = len(clocks)
        for node in _all(tree):
            match node:
                case ast.Assign(targets=targets, value=ast.Name() | ast.Attribute() as value):
                    if ast.unparse(value) in clocks:
                        clocks |= {ast.unparse(target) for target in targets}
                case ast.ImportFrom(module=str(module), names=names):
                    clocks |= {n.asname or n.name for n in names if f"{module}.{n.name}" in clocks}
        for function in functions:
            if _returns_reading(function, clocks):
                clocks |= {function.name, f"self.{function.name}"}
        if len(clocks) == known:
            return clocks


def _holds_clock(node: ast.AST) -> bool:
    """Return True for a test that has `HELD_CLOCKS` held, by the fixture of `tests/held_clock.py`."""
    match node:
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            return any(
                a.annotation is not None and ast.unparse(a.annotation) == "HeldClock" for a in arguments.args
            )
        case _:
            return False


def _loops(tree: ast.AST) -> Iterator[str]:
    """Yield the clock of each name that is bound to an event loop, whatever it is called."""
    for node in _all(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in (
            "asyncio.get_running_loop()",
            "asyncio.get_event_loop()",
        ):
            yield from (f"{ast.unparse(target)}.time" for target in node.targets)


@cache
def _within(scope: ast.AST) -> list[ast.AST]:
    """The statements of a function with what is defined in it; of a module, those outside its functions."""
    found: list[ast.AST] = [scope]
    for node in found:  # grows while it is read
        if not isinstance(scope, ast.Module) or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.extend(ast.iter_child_nodes(node))
    return [node for node in found if isinstance(node, _STATEMENTS)]


@cache
def _all(tree: ast.AST) -> list[ast.AST]:
    """Every node."""
    return list(ast.walk(tree))


def _returns_reading(function: ast.FunctionDef | ast.AsyncFunctionDef, clocks: set[str]) -> bool:
    bound = _bound(function, clocks)
    return any(
        isinstance(node, ast.Return) and node.value is not None and _reads(node.value, clocks, bound)
        for node in _within(function)
    )


def _bound(scope: ast.AST, clocks: set[str]) -> set[str]:
    """Names and attributes that hold a reading somewhere in the scope."""
    bound: set[str] = set()
    while True:
        known = len(bound)
        for node in _within(scope):
            match node:
                case ast.Assign(targets=targets, value=value):
                    pairs = [pair for target in targets for pair in _pairs(target, value)]
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    pairs = [(target, value)]
                case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                    pairs = [(target, value)]
                case ast.Call(func=ast.Attribute(attr="append", value=target), args=[value]):
                    pairs = [(target, value)]
                case _:
                    continue
            bound |= {ast.unparse(target) for target, value in pairs if _reads(value, clocks, bound)}
        if len(bound) == known:
            return bound


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    elif isinstance(target, ast.Tuple):
        yield from ((one, value) for one in target.elts)
    else:
        yield target, value


def _reads(value: ast.AST, clocks: set[str], bound: set[str]) -> bool:
    """Return True if the value of the expression is a reading, or is computed from one."""
    match value:
        case ast.Name() | ast.Attribute():
            return ast.unparse(value) in bound
        case ast.Call(func=function, args=arguments):
            name = ast.unparse(function)
            return (
                name in clocks
                or (isinstance(function, ast.Attribute) and _reads(function.value, clocks, bound))
                or (
                    name.rpartition(".")[2] in PASS_ON
                    and any(_reads(one, clocks, bound) for one in arguments)
                )
            )
        case ast.Lambda():
            return False
        case _:
            return any(_reads(child, clocks, bound) for child in ast.iter_child_nodes(value))


def _limit(call: ast.Call) -> float:
    """Seconds after which the call raises TimeoutError; infinity where no number says so."""
    place = LIMITS.get(ast.unparse(call.func))
    if place is None:
        return inf
    given = call.args[place : place + 1] + [k.value for k in call.keywords if k.arg == "timeout"]
    match given:
        case [ast.Constant(value=int() | float() as seconds)]:
            return float(seconds)
        case _:
            return inf


def _expected_to_run_out(tree: ast.AST) -> Iterator[int]:
    """The calls within `pytest.raises(TimeoutError)`, `suppress(TimeoutError)` or a `try` that catches it."""
    for node in _all(tree):
        match node:
            case ast.With(items=items) | ast.AsyncWith(items=items):
                awaited = any(
                    isinstance(item.context_expr, ast.Call)
                    and ast.unparse(item.context_expr.func).rpartition(".")[2] in ("raises", "suppress")
                    and "TimeoutError" in ast.unparse(item.context_expr)
                    for item in items
                )
            case ast.Try(handlers=handlers):
                awaited = any(h.type is not None and "TimeoutError" in ast.unparse(h.type) for h in handlers)
            case _:
                continue
        if awaited:
            yield from (id(child) for child in ast.walk(node))


def test_no_assertion_stands_on_a_clock() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}: {fault}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, fault in faults(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(["", *found, "", f"{len(found)} in all"])


BAD = {
    "a loop by another name": "clock = asyncio.get_running_loop()\nassert clock.time() < 5",
    "read at once": "assert time.monotonic() < end",
    "the difference": "began = time.perf_counter()\nassert time.perf_counter() - began < 1",
    "by another name": "began = time.process_time()\ntook = time.process_time() - began\nassert took < 1",
    "the longest": "longest = max(0.0, loop.time())\nassert longest < 1",
    "collected": "at = []\nat.append(time.time())\nassert at[1] - at[0] > 1",
    "from a function": "def spent():\n    return time.thread_time()\nassert spent() < 1",
    "from a function of a function": (
        "def spent():\n    return time.thread_time()\n"
        "def twice():\n    return 2 * spent()\n"
        "assert twice() < 1"
    ),
    "unpacked": "a, b = time.time(), 1\nassert a > 3",
    "of each": "assert all(abs(message.sent_at - time.time()) < 60 for message in received)",
    "of a date": "assert abs(told.timestamp() - datetime.now(UTC).timestamp()) < 60",
    "a clock by another name": "t = time.perf_counter\nb = t()\nassert t() - b < 1",
    "an imported clock by another name": "from time import perf_counter as now\nassert now() < 1",
    "a clock that nobody holds": "def f(clock: HeldClock):\n    assert time.perf_counter() < 1",
    "a short limit": "async def f():\n    async with asyncio.timeout(5):\n        await g()",
    "a short wait": "async def f():\n    await asyncio.wait_for(g(), timeout=2)",
}

GOOD = {
    "a clock that is held": (
        "async def f(clock: HeldClock):\n    assert time.monotonic() == 5\n    await asyncio.wait_for(g(), 2)"
    ),
    "a clock of the test's own": "clock = Clock()\nassert clock.time() == 5",
    "waiting": "end = time.monotonic() + 60\nwhile time.monotonic() < end:\n    pass\nassert arrived",
    "given on": "message = Message(sent_at=time.time())\nassert message.text",
    "the other of two": "a, b = time.time(), 1\nassert b == 1",
    "a limit that runs out": (
        "async def f():\n    with pytest.raises(TimeoutError):\n        await asyncio.wait_for(g(), 0.1)"
    ),
    "a long limit": "async def f():\n    async with asyncio.timeout(60):\n        await g()",
}


@pytest.mark.parametrize("source", BAD.values(), ids=BAD)
def test_a_clock_is_found(source: str) -> None:
    assert len(list(faults(source))) == 1


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD)
def test_what_is_no_assertion_on_a_clock_passes(source: str) -> None:
    assert list(faults(source)) == []


async def test_a_clock_that_is_held_moves_to_the_next_timer_alone(clock: HeldClock) -> None:
    began = clock.time()
    assert time.monotonic() == asyncio.get_running_loop().time() == began
    late = asyncio.create_task(asyncio.sleep(3600))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(late), 20)
    assert clock.time() == began + 20
    await late
    assert clock.time() == began + 3600


async def test_a_clock_that_is_held_stands_while_a_thread_works(clock: HeldClock) -> None:
    began = clock.time()
    async with asyncio.timeout(0.001):
        await asyncio.to_thread(time.sleep, 0.02)
        store = await SqliteStore.open(":memory:")
        await store.load("nowhere")
        await store.close()
    assert clock.time() == began
    with pytest.raises(AssertionError, match="did not come within 60 s: never"):
        await until(lambda: False, "never")
    assert clock.time() >= began + 60
