"""A turn, without any model: what is asked, what is to be performed, what joins the history."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.language import BUILT_IN, CommandEnded, CommandStarted, CommandText, Thought
from pixi.core.llm import (
    AssistantLine,
    Cited,
    Delta,
    Finished,
    Line,
    SystemLine,
    Text,
    ToolCall,
    ToolLine,
    ToolSchema,
    Usage,
    UserLine,
)
from pixi.core.reading import SILENCE, CommandEvent, ProsePolicy
from pixi.core.spending import Limits
from pixi.core.turn import UNANSWERED, Turn

PREFIX = (SystemLine("be Pixi"),)
SAID = UserLine("Mo: hi")
WEATHER = ToolSchema("weather", "the weather", {"type": "object", "properties": {}})


def new_turn(
    *,
    history: Sequence[Line] = (),
    tools: Sequence[ToolSchema] = (),
    limits: Limits | None = None,
    prose: ProsePolicy = "auto",
    people: Sequence[str] = ("Mo",),
    search: bool = False,
) -> Turn:
    return Turn(
        prefix=PREFIX,
        history=history,
        said=SAID,
        names=BUILT_IN,
        people=people,
        tools=tools,
        search=search,
        limits=limits,
        prose=prose,
        grammar="root ::= command",
        key="7",
    )


def hear(turn: Turn, *deltas: Delta | str, deliver: bool = True) -> list[CommandEnded]:
    """One round: ask, feed, end; the commands that ended are delivered. Gives them."""
    turn.request()
    before = sum(1 for _ in acts_of(turn))
    events: list[CommandEvent] = []
    for delta in deltas:
        events += turn.feed(Text(delta) if isinstance(delta, str) else delta)
        if turn.closed:
            break
    events += turn.end_round()
    ended = [event for event in events if isinstance(event, CommandEnded)]
    if deliver:
        for number in range(before, before + len(ended)):
            turn.delivered(number)
    return ended


def acts_of(turn: Turn) -> list[str]:
    return [line.text for line in turn.lines[1:] if isinstance(line, AssistantLine) and line.text != SILENCE]


def said_by(turn: Turn) -> list[str]:
    return [line.text for line in turn.lines if isinstance(line, AssistantLine)]


def test_the_first_request_is_prefix_history_and_what_was_said() -> None:
    history = (UserLine("Mo: yo"), AssistantLine("[SEND: yo]"))
    turn = new_turn(history=history)
    assert turn.wants_model
    request = turn.request()
    assert request.lines == (*PREFIX, *history, SAID)
    assert request.grammar == "root ::= command"


def test_commands_come_out_as_they_are_closed() -> None:
    turn = new_turn()
    turn.request()
    assert turn.feed(Text("[SEND: he")) == [CommandStarted("send"), CommandText("he")]
    assert turn.feed(Text("y]")) == [CommandText("y"), CommandEnded("send", "hey")]
    assert turn.end_round() == []
    assert not turn.wants_model


@pytest.mark.parametrize(
    "reply",
    [
        "[NOTE: hm]\n[REACT: 🥞]\n[SEND: hi]",
        "[NOTE: hm] [SEND: hi]",
        "[NOTE: hm][SEND: hi]",
        "[NOTE: hm]\n\n[SEND: see [docs](http://x)]",
        "[SEND: two\nlines]",
    ],
)
def test_a_well_formed_reply_is_kept_to_the_byte(reply: str) -> None:
    for cut in range(len(reply)):
        turn = new_turn()
        hear(turn, reply[:cut], reply[cut:])
        assert turn.lines == (SAID, AssistantLine(reply))


def test_any_other_reply_is_kept_as_clean_commands() -> None:
    turn = new_turn()
    hear(turn, "Sure! [ say : hi ] and then 【REACT：🥞】")
    assert turn.lines == (SAID, AssistantLine("[SEND: hi]\n[REACT: 🥞]"))


def test_only_what_was_delivered_is_kept() -> None:
    turn = new_turn()
    hear(turn, "[SEND: a]\n[SEND: b]\n[SEND: c]", deliver=False)
    turn.delivered(1)
    assert turn.lines == (SAID, AssistantLine("[SEND: b]"))


@pytest.mark.parametrize("reply", ["", "  \n", "[SEND]", "<think>nothing to say</think>"])
def test_silence_is_a_line_that_says_so(reply: str) -> None:
    turn = new_turn()
    hear(turn, reply)
    assert turn.lines == (SAID, AssistantLine(SILENCE))
    assert turn.finish == "stop"
    assert not turn.wants_model


def test_a_note_alone_is_silence_with_a_note() -> None:
    turn = new_turn()
    hear(turn, "[NOTE: leave them be]")
    assert turn.lines == (SAID, AssistantLine("[NOTE: leave them be]"))


# Prose.


def test_a_reply_without_commands_is_sent_as_one_message() -> None:
    turn = new_turn()
    assert hear(turn, "hello ", "there\n") == [CommandEnded("send", "hello there")]
    assert turn.lines == (SAID, AssistantLine("[SEND: hello there]"))


def test_prose_beside_a_command_is_dropped() -> None:
    turn = new_turn()
    assert hear(turn, "Sure!\n[SEND: hi]\nHope that helps") == [CommandEnded("send", "hi")]


def test_a_deliberate_nothing_is_not_mended_with_prose() -> None:
    assert hear(new_turn(), "well [SEND]") == [CommandEnded("send", "")]


def test_prose_before_a_tool_round_is_dropped_if_a_command_follows() -> None:
    turn = new_turn(tools=[WEATHER])
    hear(turn, "let me look", ToolCall("1", "weather", "{}"))
    turn.answer(turn.calls[0], "sun")
    assert hear(turn, "[SEND: sun!]") == [CommandEnded("send", "sun!")]


def test_prose_of_several_rounds_is_one_message() -> None:
    turn = new_turn(tools=[WEATHER])
    assert hear(turn, "let me look", ToolCall("1", "weather", "{}")) == []
    turn.answer(turn.calls[0], "sun")
    assert hear(turn, "sun!") == [CommandEnded("send", "let me look\n\nsun!")]


def test_dropped_prose_is_silence() -> None:
    turn = new_turn(prose="drop")
    assert hear(turn, "hello") == []
    assert turn.lines == (SAID, AssistantLine(SILENCE))


def test_sent_prose_keeps_its_place() -> None:
    turn = new_turn(prose="send")
    ended = hear(turn, "one [SEND: two] three")
    assert [event.argument for event in ended] == ["one", "two", "three"]


def test_a_command_keeps_the_number_of_the_message_that_it_is_about() -> None:
    turn = new_turn()
    ended = hear(turn, "[REACT #3: 🥞]\n**[reply#12", " : hi]** and [SEND #4 yo]", "[SEND: bye]")
    assert [(act.name, act.argument, act.target) for act in ended] == [
        ("react", "🥞", 3),
        ("send", "hi", 12),
        ("send", "yo", 4),
        ("send", "bye", 0),
    ]
    assert turn.lines[1:] == (AssistantLine("[REACT #3: 🥞]\n[SEND #12: hi]\n[SEND #4: yo][SEND: bye]"),)


def test_a_command_that_is_cut_at_its_limit_keeps_its_number() -> None:
    turn = new_turn(limits=Limits(argument_characters=5))
    assert hear(turn, "[SEND: a][REPLY #3: hello you") == [
        CommandEnded("send", "a"),
        CommandEnded("send", "hello", complete=False, target=3),
    ]
    assert turn.lines == (SAID, AssistantLine("[SEND: a][SEND #3: hello]"))


def test_prose_that_is_too_long_for_a_message_is_cut_and_marked() -> None:
    turn = new_turn(limits=Limits(argument_characters=5))
    assert hear(turn, "hello there, Mo") == [CommandEnded("send", "hello", complete=False)]
    assert turn.finish == "limit"


def test_reasoning_is_neither_said_nor_kept() -> None:
    turn = new_turn()
    assert hear(turn, Thought("[SEND: hm]"), "[SEND: hi]", Thought("done")) == [CommandEnded("send", "hi")]
    assert said_by(turn) == ["[SEND: hi]"]


def test_how_a_stream_ended_changes_nothing_once_a_limit_was_reached() -> None:
    turn = new_turn(limits=Limits(reply_characters=12))
    turn.request()
    turn.feed(Text("[SEND: hello there]"))
    turn.feed(Finished("stop", Usage(9, 0, 7)))
    turn.end_round()
    assert turn.finish == "limit"
    assert turn.usage == Usage(9, 0, 7)


def test_a_limit_that_is_reached_before_anything_is_asked_ends_it_in_silence() -> None:
    turn = new_turn()
    turn.exceed()
    assert not turn.wants_model
    assert turn.finish == "limit"
    assert turn.say("hi") == []
    assert turn.lines == (SAID, AssistantLine(SILENCE))


def test_prose_cut_by_the_token_limit_is_marked() -> None:
    turn = new_turn()
    assert hear(turn, "hello th", Finished("length")) == [CommandEnded("send", "hello th", complete=False)]
    assert turn.finish == "length"


# Ends.


def test_a_command_cut_by_the_token_limit_is_performed_and_marked() -> None:
    turn = new_turn()
    ended = hear(turn, "[SEND: hello th", Finished("length"))
    assert ended == [CommandEnded("send", "hello th", complete=False)]
    assert turn.lines == (SAID, AssistantLine("[SEND: hello th]"))
    assert turn.finish == "length"


def test_a_model_that_writes_the_persons_part_is_stopped() -> None:
    turn = new_turn()
    assert hear(turn, "[SEND: hi]\nMo: ", "and you?\n[SEND: no]") == [CommandEnded("send", "hi")]
    assert turn.closed
    assert turn.finish == "stop"


def test_a_broken_stream_gives_the_open_command_and_no_prose() -> None:
    turn = new_turn()
    turn.request()
    turn.feed(Text("well, [SEND: hel"))
    assert turn.break_off() == [CommandEnded("send", "hel", complete=False)]
    assert not turn.wants_model
    turn = new_turn()
    turn.request()
    turn.feed(Text("well, I was going to"))
    assert turn.break_off() == []


def test_usage_of_all_rounds_is_added() -> None:
    turn = new_turn(tools=[WEATHER])
    hear(turn, ToolCall("1", "weather", "{}"), Finished("stop", Usage(10, 4, 2)))
    turn.answer(turn.calls[0], "sun")
    hear(turn, "[SEND: sun]", Finished("stop", Usage(20, 10, 3)))
    assert turn.usage == Usage(30, 14, 5)
    assert turn.steps == 2


# Limits.


def test_too_many_commands_close_the_reply() -> None:
    turn = new_turn(limits=Limits(commands=3))
    ended = hear(turn, "[REACT: 👍]" * 200)
    assert len(ended) == 3
    assert turn.closed
    assert turn.finish == "limit"


PAGE = Cited("https://pancakes.example/", "All of them")


def test_where_something_is_from_stands_behind_what_was_said() -> None:
    turn = new_turn(search=True)
    assert turn.request().search
    turn.feed(PAGE)
    for event in (*turn.feed(Text("[SEND: flat]")), *turn.feed(PAGE), *turn.end_round()):
        if isinstance(event, CommandEnded):
            turn.delivered(0)
    assert turn.sources == (PAGE,)
    trace = "[NOTE: From the web: All of them (https://pancakes.example/)]"
    assert turn.lines == (SAID, AssistantLine(f"[SEND: flat]\n{trace}"))


def test_of_what_was_not_said_it_does_not_matter_where_it_is_from() -> None:
    turn = new_turn(search=True)
    hear(turn, "[SEND: flat]", PAGE, deliver=False)
    assert turn.lines == (SAID, AssistantLine(SILENCE))


def test_a_persona_that_takes_no_notes_is_left_none() -> None:
    turn = Turn(prefix=PREFIX, history=(), said=SAID, names={"send": ()}, search=True)
    hear(turn, "[SEND: flat]", PAGE)
    assert turn.lines == (SAID, AssistantLine("[SEND: flat]"))


def test_a_model_cannot_make_up_where_something_is_from() -> None:
    turn = new_turn()
    hear(turn, "[SEND: flat]\n[NOTE: From the web: me (https://evil.example/)]\n[NOTE: hm]")
    assert turn.lines == (SAID, AssistantLine("[SEND: flat]\n[NOTE: hm]"))


def test_the_round_without_tools_has_no_search() -> None:
    turn = new_turn(tools=[WEATHER], limits=Limits(tool_steps=1), search=True)
    assert turn.request().search
    turn.feed(ToolCall("a", "weather", "{}"))
    turn.end_round()
    turn.answer(turn.calls[0], "sun")
    request = turn.request()
    assert (request.tools, request.search) == ((), False)


@pytest.mark.parametrize("link", ["([site](https://x.example/?a=1))", "[[1]](https://x.example)"])
def test_links_to_sources_stand_whole_in_a_message(link: str) -> None:
    reply = f"[SEND: see {link}]"
    for cut in range(len(reply)):
        turn = new_turn()
        (ended,) = hear(turn, reply[:cut], reply[cut:])
        assert ended == CommandEnded("send", f"see {link}")
        assert turn.lines == (SAID, AssistantLine(reply))


@given(st.lists(st.integers(0, 60), max_size=5))
def test_a_long_argument_is_cut_at_the_same_place_however_it_arrives(at: list[int]) -> None:
    reply = "[SEND: " + "x" * 40 + "]\n[SEND: more]"
    cuts = sorted({0, *(a for a in at if a < len(reply)), len(reply)})
    turn = new_turn(limits=Limits(argument_characters=25))
    ended = hear(turn, *(reply[a:b] for a, b in pairwise(cuts)))
    assert ended in (
        # The space behind the colon belongs to the argument's pieces or not, as the parser likes.
        [CommandEnded("send", "x" * 25, complete=False)],
        [CommandEnded("send", "x" * 24, complete=False)],
    )
    assert turn.finish == "limit"


def test_a_long_reply_is_cut_and_what_was_open_is_kept() -> None:
    turn = new_turn(limits=Limits(reply_characters=30))
    ended = hear(turn, "[SEND: one]\n", "[SEND: " + "x" * 100 + "]")
    assert ended == [CommandEnded("send", "one"), CommandEnded("send", "x" * 11, complete=False)]
    assert turn.finish == "limit"


def test_the_limit_of_commands_is_of_the_turn_and_not_of_a_round() -> None:
    turn = new_turn(limits=Limits(commands=3), tools=[WEATHER])
    hear(turn, "[NOTE: a]\n[NOTE: b]", ToolCall("1", "weather", "{}"))
    turn.answer(turn.calls[0], "sun")
    assert len(hear(turn, "[NOTE: c]\n[NOTE: d]")) == 1
    assert turn.finish == "limit"


# Tools.


def test_a_round_of_tools() -> None:
    turn = new_turn(tools=[WEATHER])
    first = turn.request()
    assert first.tools == (WEATHER,)
    assert first.grammar == "root ::= command"
    call = ToolCall("c1", "weather", "{}")
    turn.feed(Text("[SEND: let me look]"))
    turn.feed(call)
    turn.end_round()
    assert not turn.wants_model
    assert turn.calls == (call,)
    turn.delivered(0)
    turn.answer(call, "sun")
    assert turn.wants_model
    second = turn.request()
    rounds = (AssistantLine("[SEND: let me look]", (call,)), ToolLine("c1", "weather", "sun"))
    assert second.lines == (*first.lines, *rounds)
    turn.feed(Text("[SEND: sun!]"))
    turn.end_round()
    turn.delivered(1)
    assert turn.lines == (SAID, *rounds, AssistantLine("[SEND: sun!]"))


def test_calls_in_their_text_form_are_calls() -> None:
    turn = new_turn(tools=[WEATHER])
    hear(turn, '<tool-call tool="weather">{"at": "', 'home"}</tool-call>')
    assert turn.calls == (ToolCall("call_7_1_0", "weather", '{"at": "home"}'),)


def test_ids_that_are_missing_or_double_are_made() -> None:
    turn = new_turn(tools=[WEATHER])
    hear(turn, *(ToolCall(given_id, "weather", "{}") for given_id in ("a", "a", "")))
    assert len({call.id for call in turn.calls}) == 3


def test_an_id_that_a_model_copied_is_not_made_once_more() -> None:
    turn = new_turn(tools=[WEATHER])
    hear(turn, ToolCall("call_7_1_1", "weather", "{}"), ToolCall("", "weather", "{}"))
    assert len({call.id for call in turn.calls}) == 2
    for number, call in enumerate(turn.calls):
        turn.answer(call, f"sun {number}")
    assert turn.wants_model
    assert [line.text for line in turn.lines if isinstance(line, ToolLine)] == ["sun 0", "sun 1"]


def test_calls_decide_and_not_the_reason() -> None:
    turn = new_turn(tools=[WEATHER])
    hear(turn, ToolCall("1", "weather", "{}"), Finished("stop"))
    assert len(turn.calls) == 1


def test_after_the_last_step_comes_a_round_without_tools() -> None:
    turn = new_turn(tools=[WEATHER], limits=Limits(tool_steps=2))
    for step in (1, 2):
        assert turn.wants_model
        hear(turn, ToolCall(str(step), "weather", "{}"))
        turn.answer(turn.calls[0], "sun")
    request = turn.request()
    assert request.tools == ()
    assert request.grammar is not None
    turn.feed(ToolCall("3", "weather", "{}"))
    turn.feed(Finished("stop"))
    turn.end_round()
    assert not turn.wants_model
    assert turn.calls == ()
    assert turn.finish == "limit"
    assert turn.lines[-1] == AssistantLine(SILENCE)
    assert turn.steps == 3


def test_calls_that_nobody_began_are_not_history() -> None:
    turn = new_turn(tools=[WEATHER])
    turn.request()
    turn.feed(ToolCall("1", "weather", "{}"))
    turn.break_off()
    assert turn.lines == (SAID, AssistantLine(SILENCE))


def test_calls_and_results_stay_together_where_some_were_not_waited_for() -> None:
    turn = new_turn(tools=[WEATHER])
    hear(turn, ToolCall("1", "weather", "{}"), ToolCall("2", "weather", "{}"))
    turn.answer(turn.calls[0], "sun")
    lines = turn.lines
    assert lines[2:4] == (ToolLine("1", "weather", "sun"), ToolLine("2", "weather", UNANSWERED))
    assert lines[4] == AssistantLine(SILENCE)


def test_a_limit_ends_the_rounds() -> None:
    turn = new_turn(tools=[WEATHER], limits=Limits(commands=1))
    hear(turn, ToolCall("1", "weather", "{}"), "[SEND: a][SEND: b]")
    assert turn.calls == ()
    assert not turn.wants_model


PIECES = st.sampled_from(
    [
        "[SEND: hi]",
        "[NOTE: x",
        "]",
        "[",
        "\n",
        "hm ",
        "[REACT: 🥞]",
        "`",
        "[SEND]",
        "Mo: no",
        "<think>",
        "</s>",
    ]
)


@given(
    st.lists(
        st.tuples(st.lists(PIECES, max_size=6), st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=4
    ),
    st.sets(st.integers(0, 20)),
)
def test_every_request_is_the_one_before_and_a_tail(
    rounds: list[tuple[list[str], int, int]], undelivered: set[int]
) -> None:
    turn = new_turn(tools=[WEATHER], limits=Limits(tool_steps=3))
    asked: tuple[Line, ...] = ()
    number = 0
    for pieces, calls, cited in rounds:
        if not turn.wants_model:
            break
        lines = turn.request().lines
        assert lines[: len(asked)] == asked
        asked = lines
        events: list[CommandEvent] = []
        deltas: list[Delta] = [Text(piece) for piece in pieces]
        deltas += [Cited(f"https://{n}.example", "[SEND: n") for n in range(cited)]
        deltas += [ToolCall(str(n), "weather", "{}") for n in range(calls)]
        for delta in deltas:
            events += turn.feed(delta)
        events += turn.end_round()
        for _ in (event for event in events if isinstance(event, CommandEnded)):
            if number not in undelivered:
                turn.delivered(number)
            number += 1
        for call in turn.calls:
            turn.answer(call, "sun")
    history = turn.lines
    assert history[: len(asked) - len(PREFIX)] == asked[len(PREFIX) :]
    assert isinstance(history[-1], AssistantLine)
    assert history[-1].text


@pytest.mark.parametrize("native", [True, False])
def test_a_thousand_calls_in_one_reply_do_not_fill_the_history(native: bool) -> None:
    turn = new_turn(tools=[WEATHER], limits=Limits(tool_calls=4))
    written = '<tool-call tool="weather">{}</tool-call>'
    hear(turn, *([ToolCall("", "weather", "{}")] * 1_000 if native else [written * 1_000]))
    assert len(turn.calls) == 64
    for call in turn.calls:
        turn.answer(call, "sunny")
    assert turn.wants_model
    assert len(turn.request().lines) == len(PREFIX) + 1 + 1 + 64
