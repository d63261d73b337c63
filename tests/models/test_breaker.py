"""The circuit breaker as a machine of three states, by a clock that a test turns."""

import re
from contextlib import ExitStack

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pixi.core.errors import ModelError
from pixi.models.breaker import Breaker, BreakerPolicy, Breakers, Permit

BROKEN = ModelError("127.0.0.1:1 failed (500).")
PATIENCE = BreakerPolicy(failures=3, pause=5.0, cap=30.0)


class Clock:
    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("127.0.0.1:1", clock, PATIENCE)


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        with breaker.asking() as asking:
            asking.failed(BROKEN)


def refusal(breaker: Breaker) -> ModelError:
    with pytest.raises(ModelError) as caught, breaker.asking():
        pass
    assert not caught.value.permanent
    assert "\n" not in str(caught.value)
    return caught.value


def test_some_failures_in_a_row_open_it(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now += 20
    fail(breaker, 2)
    clock.now += 2.5
    error = refusal(breaker)
    assert str(error) == (
        "127.0.0.1:1 has not answered for 22 s; it is asked again in 3 s. "
        "Last time: 127.0.0.1:1 failed (500)."
    )
    assert error.retry_after == 2.5


def test_an_answer_between_begins_the_count_anew(breaker: Breaker) -> None:
    for _ in range(3):
        fail(breaker, 2)
        with breaker.asking() as asking:
            asking.answered()
    assert not breaker.is_open


def test_after_the_pause_one_probe_goes_through(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 5
    with breaker.asking() as probe:
        assert not probe.may_be_tried_again
        assert "it is being asked again just now. Last time: " in str(refusal(breaker))
        probe.answered()
        with breaker.asking() as another:
            assert another.may_be_tried_again
    assert not breaker.is_open


def test_pauses_grow_up_to_a_cap_and_an_answer_ends_that(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 3)
    pauses = []
    for _ in range(5):
        pause = refusal(breaker).retry_after
        assert pause is not None
        pauses.append(pause)
        clock.now += pause
        fail(breaker)
    assert pauses == [5, 10, 20, 30, 30]
    clock.now += 30
    with breaker.asking() as probe:
        probe.answered()
    fail(breaker, 3)
    assert refusal(breaker).retry_after == 5


def test_a_probe_that_nobody_waited_for_leaves_its_place_to_another(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 5
    with breaker.asking():
        pass
    with breaker.asking() as probe:
        probe.answered()
    assert not breaker.is_open


def test_who_asked_before_it_opened_changes_nothing_by_failing_too(breaker: Breaker, clock: Clock) -> None:
    with breaker.asking() as early:
        fail(breaker, 3)
        assert not early.may_be_tried_again
        clock.now += 4
        early.failed(BROKEN)
        assert refusal(breaker).retry_after == 1


def test_who_asked_before_it_opened_closes_it_by_being_answered(breaker: Breaker) -> None:
    with breaker.asking() as early:
        fail(breaker, 3)
        early.answered()
    fail(breaker)
    assert not breaker.is_open


def test_what_is_told_first_of_a_request_holds(breaker: Breaker) -> None:
    for _ in range(3):
        with breaker.asking() as asking:
            asking.answered()
            asking.failed(BROKEN)
    assert not breaker.is_open
    for _ in range(3):
        with breaker.asking() as asking:
            asking.failed(BROKEN)
            asking.answered()
    assert breaker.is_open


def test_a_probe_that_was_overtaken_speaks_for_nobody(breaker: Breaker, clock: Clock) -> None:
    with ExitStack() as early, ExitStack() as late:
        first = early.enter_context(breaker.asking())
        fail(breaker, 3)
        clock.now += 5
        overtaken = late.enter_context(breaker.asking())
        first.answered()
        fail(breaker, 3)
        overtaken.failed(BROKEN)
        assert refusal(breaker).retry_after == 5


def test_a_server_that_asks_to_wait_is_left_alone_by_who_wants_that_model(
    breaker: Breaker, clock: Clock
) -> None:
    breaker.leave_alone("large", 12)
    clock.now += 2
    assert breaker.seconds_to_wait("large") == 10
    assert breaker.seconds_to_wait("small") == 0
    assert not breaker.is_open
    clock.now += 10
    assert breaker.seconds_to_wait("large") == 0
    breaker.leave_alone("large", 1e9)
    assert breaker.seconds_to_wait("large") == 600


def test_a_server_that_fails_another_process_is_spared_at_the_first_failure_here(clock: Clock) -> None:
    here, there = (Breakers(clock, PATIENCE) for _ in range(2))
    there.opened = here.suspect
    for breakers in (here, there):
        with breakers.of("one:1").asking() as asking:
            asking.answered()
    fail(there.of("one:1"), times=3)
    fail(there.of("two:2"), times=3)  # which nobody asked here
    assert here.open == {"one:1": False}
    fail(here.of("one:1"))
    assert here.open == {"one:1": True}
    fail(here.of("two:2"))
    assert not here.of("two:2").is_open


def test_what_another_process_said_is_over_with_an_answer(breaker: Breaker) -> None:
    breaker.suspect()
    with breaker.asking() as asking:
        asking.answered()
    fail(breaker)
    assert not breaker.is_open


def test_a_word_of_another_process_is_passed_on_by_nobody_and_soon_forgotten(clock: Clock) -> None:
    told = list[str]()
    breakers = Breakers(clock, PATIENCE)
    breakers.opened = told.append
    breaker = breakers.of("one:1")
    breakers.suspect("one:1")
    clock.now += PATIENCE.cap - 1
    fail(breaker)
    with pytest.raises(ModelError, match="one:1 has not answered for 0 s"), breaker.asking():
        pass
    clock.now += PATIENCE.pause
    with breaker.asking() as asking:
        asking.answered()
    breakers.suspect("one:1")
    clock.now += PATIENCE.cap
    fail(breaker)
    assert (breaker.is_open, told) == (False, [])
    fail(breaker, times=2)
    assert (breaker.is_open, told) == (True, ["one:1"]), "it failed here as often as it takes"


def test_one_breaker_for_each_server(clock: Clock) -> None:
    breakers = Breakers(clock, PATIENCE)
    assert breakers.of("a:1") is breakers.of("a:1")
    fail(breakers.of("a:1"), 3)
    assert breakers.of("a:1").is_open
    assert not breakers.of("a:2").is_open


class Machine(RuleBasedStateMachine):
    """Any number of requests that overlap in any way, and what must hold whatever they come to."""

    @initialize(failures=st.integers(1, 4), cap=st.sampled_from([5.0, 17.0, 60.0]))
    def begin(self, failures: int, cap: float) -> None:
        self.clock = Clock(0.0)
        self.patience = BreakerPolicy(failures=failures, pause=5.0, cap=cap)
        self.breaker = Breaker("server:1", self.clock, self.patience)
        self.under_way: list[tuple[Permit, ExitStack]] = []
        self.probe: Permit | None = None
        self.in_a_row = 0
        self.opens_at = 0.0  # when the present pause ends
        self.pause = 0.0  # 0: closed

    @rule(seconds=st.sampled_from([0.0, 0.1, 4.9, 5.0, 12.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def ask(self) -> None:
        with ExitStack() as stack:
            asking = self.let_through(stack)
            if asking is None:
                assert self.pause > 0
                assert self.probe is not None or self.clock.now < self.opens_at
                return
            assert self.pause == 0 or (self.probe is None and self.clock.now >= self.opens_at)
            if self.pause:
                self.probe = asking
            self.under_way.append((asking, stack.pop_all()))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def is_answered(self, data: st.DataObject) -> None:
        asking, stack = self.take(data)
        with stack:
            asking.answered()
        self.in_a_row, self.pause, self.probe = 0, 0.0, None

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def fails(self, data: st.DataObject) -> None:
        asking, stack = self.take(data)
        with stack:
            asking.failed(BROKEN)
        if asking is self.probe:
            self.open(min(self.pause * 2, self.patience.cap))
        elif self.pause == 0:
            self.in_a_row += 1
            if self.in_a_row >= self.patience.failures:
                self.open(self.patience.pause)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def is_left(self, data: st.DataObject) -> None:
        asking, stack = self.take(data)
        with stack:
            pass
        if asking is self.probe:
            self.probe = None

    @invariant()
    def it_is_open_when_it_must_be(self) -> None:
        assert self.breaker.is_open == (self.pause > 0)
        assert self.opens_at <= self.clock.now + self.patience.cap + 1e-6  # sums of floats

    def let_through(self, stack: ExitStack) -> Permit | None:
        try:
            return stack.enter_context(self.breaker.asking())
        except ModelError as error:
            told = str(error)
        assert re.match(r"server:1 has not answered for \d+ s; it is (being )?asked again ", told)
        return None

    def take(self, data: st.DataObject) -> tuple[Permit, ExitStack]:
        return self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))

    def open(self, pause: float) -> None:
        self.pause, self.opens_at, self.probe = pause, self.clock.now + pause, None


TestMachine = pytest.mark.nightly(Machine.TestCase)
