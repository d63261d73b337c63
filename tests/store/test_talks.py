"""Talks over HTTP, keys of the server, and which turn answers a message."""

import dataclasses
import json

import pytest
from msgspec.structs import replace

from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.store.kept import MOST_ENDED, AnsweredMessage, ApiKey, KeyedRequest, Talk
from pixi.store.opening import open_store
from pixi.store.statements.http import DAYS_OF_A_REQUEST
from pixi.store.store import Store
from tests.begun import begun
from tests.store.kinds import everywhere

MO, ANN = "web:shop:mo", "web:shop:ann"
TALK = Talk("http:aa:pixi", MO, "pixi", "one", 10.0, 20.0)
OTHER = Talk("http:bb:pixi", MO, "pixi", "two", 11.0, 30.0)
WITH_ANN = Talk("http:cc:rex", MO, "rex", "one", 12.0, 25.0)
HERS = Talk("http:dd:pixi", ANN, "pixi", "one", 13.0, 40.0)
KEY = ApiKey("shop", "d1", ("chat", "chat:on-behalf"), ("pixi", "rex"), created=1.0)
WIDGET = ApiKey("widget", "d2", (), ("pixi",), ("https://example.org",), 2.0, signs="5a")


async def keep_all(store: Store) -> None:
    for talk in (TALK, OTHER, WITH_ANN, HERS):
        await store.keep_talk(talk)


@everywhere
async def test_the_latest_talks_of_a_person_come_first(store: Store) -> None:
    await keep_all(store)
    assert await store.talks(MO, "", 9) == (OTHER, WITH_ANN, TALK)
    assert await store.talks(MO, "pixi", 9) == (OTHER, TALK)
    assert await store.talks(MO, "", 1) == (OTHER,)
    assert await store.talks(MO, "", -1) == await store.talks("nobody", "", 9) == ()


@everywhere
async def test_a_name_leads_to_the_talk_of_that_person_alone(store: Store) -> None:
    await keep_all(store)
    assert await store.talk(MO, "one") == WITH_ANN, "the latest of that name"
    assert await store.talk(MO, "one", "pixi") == TALK
    assert await store.talk(ANN, "one") == HERS
    assert await store.talk(ANN, "two") is None
    assert await store.talk(ANN, "' OR 1 --") is None


async def test_a_talk_is_kept_once_and_never_grows_younger(store: Store) -> None:
    await store.keep_talk(TALK)
    await store.keep_talk(replace(TALK, person=ANN, name="mine now", began=50.0, last=60.0))
    await store.keep_talk(replace(TALK, last=5.0))
    assert await store.talks(MO, "", 9) == (replace(TALK, last=60.0),)
    assert await store.talks(ANN, "", 9) == ()


@everywhere
async def test_talks_are_exported_and_forgotten_with_their_person(store: Store) -> None:
    await keep_all(store)
    (known,) = await store.people(MO)
    assert known.id == MO
    told = await store.export(MO)
    assert [each["address"] for each in told["talks"]] == [TALK.address, OTHER.address, WITH_ANN.address]
    assert told["talks"][0] == {
        "address": TALK.address,
        "persona": "pixi",
        "name": "one",
        "began": "1970-01-01T00:00:10+00:00",
        "last": "1970-01-01T00:00:20+00:00",
    }
    assert ANN not in json.dumps(told)
    await store.forget(MO)
    assert await store.talks(MO, "", 9) == ()
    assert await store.people(MO) == ()
    assert await store.talks(ANN, "", 9) == (HERS,)


async def test_a_talk_outlives_a_reset_and_goes_when_it_is_old(store: Store) -> None:
    await keep_all(store)
    await store.reset(TALK.address)
    assert await store.talk(MO, "one", "pixi") == TALK
    assert not await store.forget_old(25.0)
    assert await store.talks(MO, "", 9) == (OTHER, WITH_ANN)


async def test_many_old_talks_go_in_portions(store: Store) -> None:
    for number in range(201):
        await store.keep_talk(replace(TALK, address=f"http:{number}:pixi"))
    assert await store.forget_old(25.0)
    assert len(await store.talks(MO, "", 999)) == 1
    assert not await store.forget_old(25.0)
    assert await store.talks(MO, "", 999) == ()


REQUEST = KeyedRequest("k1", "digest", "m1")
_HIS = Author(MO, "mo")


async def say_by_request(store: Store, request: KeyedRequest = REQUEST, talk: Talk = TALK) -> None:
    there = await store.keep_talk(talk, request)
    assert there is not None
    if there.digest == request.digest:
        await store.receive(Message(there.message, talk.address, _HIS, "hi", there.sent_at))


@everywhere
async def test_a_request_leads_to_its_message_also_where_that_was_set_aside(store: Store) -> None:
    await say_by_request(store)
    there = replace(REQUEST, name="one", address=TALK.address, sent_at=TALK.last)
    assert await store.request("k1") == there
    assert await store.request("k2") is None
    turn = await begun(store, TALK.address, 0, "pixi", ("m1",))
    await store.end_turn(turn, (UserLine("hi"), AssistantLine("[SEND: oh]")), "stop", 1, Usage())
    beside = await store.rewind(TALK.address, turn)
    again, later = replace(REQUEST, key="k2"), replace(TALK, last=21.0)
    await say_by_request(store, again, later)  # the id is free again
    assert await store.request("k1") == replace(there, address=beside)
    assert await store.request("k2") == replace(there, key="k2", sent_at=21.0)


@everywhere
async def test_a_request_whose_message_never_came_comes_anew_and_no_other_takes_its_key(store: Store) -> None:
    await store.keep_talk(TALK, REQUEST)
    claimed = replace(REQUEST, name="one", sent_at=TALK.last)
    assert await store.request("k1") == claimed
    await say_by_request(store, replace(REQUEST, digest="another", message="m9"), replace(OTHER, last=50.0))
    assert await store.request("k1") == claimed
    assert await store.talk(MO, "two") is None
    await say_by_request(store, REQUEST, replace(OTHER, last=90.0))
    assert await store.request("k1") == replace(claimed, name="two", address=OTHER.address, sent_at=90.0)


@everywhere
async def test_a_request_that_two_servers_take_keeps_its_first_time(store: Store) -> None:
    later, again = replace(TALK, last=21.0), replace(REQUEST, message="m2")
    claims = [await store.keep_talk(TALK, REQUEST), await store.keep_talk(later, again)]
    assert claims == [replace(REQUEST, name="one", sent_at=TALK.last)] * 2
    await say_by_request(store)
    there = replace(REQUEST, name="one", address=TALK.address, sent_at=TALK.last)
    assert await store.request("k1") == there
    assert await store.keep_talk(later, again) == there


@everywhere
async def test_requests_are_exported_and_go_with_their_person(store: Store) -> None:
    await say_by_request(store)
    assert (await store.export(MO))["requests"] == [
        {"address": TALK.address, "message": "m1", "time": "1970-01-01T00:00:20+00:00"}
    ]
    await store.forget(MO)
    assert await store.request("k1") is None


@everywhere
async def test_requests_go_with_the_words_of_their_talk_and_when_they_are_old(store: Store) -> None:
    await say_by_request(store)
    await store.reset(TALK.address)
    assert await store.request("k1") is None
    await say_by_request(store, replace(REQUEST, message="m2"))
    assert not await store.forget_old(25.0)
    await store.keep_talk(TALK)
    assert await store.request("k1") is None


async def test_a_request_is_known_for_some_days(store: Store) -> None:
    await say_by_request(store)
    for days in (1, DAYS_OF_A_REQUEST - 1, DAYS_OF_A_REQUEST + 1):
        assert await store.request("k1") is not None
        await store.keep_talk(
            replace(OTHER, last=20.0 + days * 86_400), replace(REQUEST, key=f"after {days}")
        )
    assert await store.request("k1") is None


@everywhere
async def test_a_key_is_found_by_its_digest_until_it_is_revoked(store: Store) -> None:
    assert await store.add_key(KEY)
    assert await store.add_key(WIDGET)
    assert (await store.key_of("d1"), await store.key_of("d2")) == (KEY, WIDGET)
    assert (KEY.is_publishable, WIDGET.is_publishable) == (False, True)
    assert await store.key_of("d3") is None
    assert await store.revoke_key("shop", 9.0)
    assert await store.key_of("d1") is None
    assert not await store.revoke_key("shop", 10.0)
    assert not await store.revoke_key("nobody", 10.0)
    assert await store.keys() == (dataclasses.replace(KEY, revoked=9.0), WIDGET)


@everywhere
async def test_a_name_is_in_use_once_and_free_again_when_its_key_was_revoked(store: Store) -> None:
    await store.add_key(KEY)
    again = dataclasses.replace(KEY, digest="d9", created=5.0)
    assert not await store.add_key(again)
    assert await store.key_of("d9") is None
    await store.revoke_key("shop", 4.0)
    assert await store.add_key(again)
    assert await store.key_of("d9") == again
    assert await store.keys() == (dataclasses.replace(KEY, revoked=4.0), again)


async def test_a_key_that_another_process_revokes_is_gone_at_once(store: Store, url: str) -> None:
    await store.add_key(KEY)
    assert await store.key_of("d1") == KEY
    other = await open_store(url)
    assert await other.revoke_key("shop", 9.0)
    await other.close()
    assert await store.key_of("d1") is None


ROOM = TALK.address


async def said(store: Store, name: str) -> None:
    await store.receive(Message(name, ROOM, Author(MO, "mo"), f"hi {name}", 1.0))


@everywhere
async def test_a_message_leads_to_the_turn_that_answers_it(store: Store) -> None:
    assert await store.answer_to(ROOM, "1") is None
    await said(store, "1")
    assert await store.answer_to(ROOM, "1") == AnsweredMessage("hi 1", None)
    assert await store.answer_to("http:ee:pixi", "1") is None
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "hello")
    under_way = await store.answer_to(ROOM, "1")
    assert under_way is not None
    assert under_way.turn is not None
    assert (under_way.turn.id, under_way.turn.finish) == (turn, None)
    await store.settle(turn, 0, "done", "9")
    lines = (UserLine("> hi 1"), AssistantLine("[SEND: hello]"))
    assert await store.end_turn(turn, lines, "stop", 1, Usage(3, 2, 1))
    ended = await store.answer_to(ROOM, "1")
    assert ended is not None
    assert ended.text == "hi 1"
    assert (ended.turn,) == await store.turns(ROOM, 9)


@everywhere
async def test_the_latest_turns_that_ended_are_told_for_each_talk(store: Store) -> None:
    turns = list[int]()
    for n in map(str, range(MOST_ENDED + 2)):
        await said(store, n)
        turns.append(await begun(store, ROOM, 0, "pixi", (n,)))
        if n != str(MOST_ENDED + 1):
            await store.end_turn(turns[-1], (UserLine("> hi"),), "stop", 1, Usage())
    ended = await store.ended_after({ROOM: 0, OTHER.address: 0})
    assert ended == {ROOM: tuple(reversed(turns[1:-1])), OTHER.address: ()}
    assert await store.ended_after({ROOM: turns[-3]}) == {ROOM: (turns[-2],)}


async def test_of_a_message_that_comes_due_again_the_later_turn_is_told(store: Store) -> None:
    await said(store, "1")
    first = await begun(store, ROOM, 0, "pixi", ("1",))
    assert await store.end_turn(first, (UserLine("> hi 1"),), "stop", 1, Usage(), again=("1",))
    assert await store.answer_to(ROOM, "1") == AnsweredMessage("hi 1", None), "it waits again"
    second = await begun(store, ROOM, 0, "pixi", ("1",))
    answered = await store.answer_to(ROOM, "1")
    assert answered is not None
    assert answered.turn is not None
    assert answered.turn.id == second


@pytest.mark.parametrize("how", ["forget", "reset"])
async def test_a_message_that_was_forgotten_is_still_known_to_have_come(store: Store, how: str) -> None:
    await said(store, "1")
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    lines = (UserLine("> hi 1"), AssistantLine("[SEND: hello]"))
    assert await store.end_turn(turn, lines, "stop", 1, Usage())
    await (store.forget(MO) if how == "forget" else store.reset(ROOM))
    answered = await store.answer_to(ROOM, "1")
    assert answered is not None
    assert answered.text is None
    assert answered.turn is not None
    assert (answered.turn.lines, answered.turn.effects) == ((), ())
