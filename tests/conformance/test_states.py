"""The reader's table of states is the way that the replies of the conformance table take through it."""

from itertools import pairwise

from pixi.core.language import CommandStream
from pixi.core.language.states import ARGUMENT, FOLLOWS, OPENING, PROSE, State
from tests.conformance.replies import load_cases


class Watched(CommandStream):
    """A stream that notes each state that it goes through."""

    @property
    def _state(self) -> State:
        return self.way[-1]

    @_state.setter
    def _state(self, state: State) -> None:
        self.__dict__.setdefault("way", []).append(state)

    way: list[State]


def test_each_state_is_followed_by_those_that_the_table_names_and_no_others() -> None:
    seen: set[tuple[State, State]] = set()
    for case in load_cases():
        for pieces in ([case.reply], case.reply):
            stream = Watched(case.names, people=case.people)
            for piece in pieces:
                stream.feed(piece)
            stream.close()
            seen.update(pairwise(stream.way))
    seen.remove((PROSE, ARGUMENT))  # a usual opening is passed in one step
    assert {(PROSE, OPENING), (OPENING, ARGUMENT)} <= seen
    assert {(a, b) for a, b in seen if a is not b} == {(a, b) for a, next_ in FOLLOWS.items() for b in next_}
