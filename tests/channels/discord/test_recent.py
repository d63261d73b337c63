from pixi.channels.discord.incoming.recent import RecentMessage, RecentMessages
from pixi.core.message import Author

ROOM = 7


def message(number: int, text: str = "", *, persona: str = "", ours: bool = False) -> RecentMessage:
    return RecentMessage(number, Author("5", "Mo"), text or f"text {number}", persona=persona, ours=ours)


def recent(overhear: int = 3) -> RecentMessages:
    return RecentMessages(lambda: overhear)


def ids(messages: list[RecentMessage]) -> list[int]:
    return [each.id for each in messages]


def test_a_message_is_new_once() -> None:
    heard = recent()

    assert [heard.is_new(1), heard.is_new(1)] == [True, False]
    heard.unsee(1)
    assert heard.is_new(1)


def test_ids_are_remembered_within_limits() -> None:
    heard = recent()
    for number in range(30_000):
        assert heard.is_new(number)

    assert not heard.is_new(29_999)
    assert heard.is_new(0)


def test_the_last_messages_before_one_are_told_and_each_once() -> None:
    heard = recent()
    for number in range(1, 7):
        heard.add(ROOM, message(number))

    assert ids(heard.untold(ROOM, "pixi", 6)) == [3, 4, 5]
    heard.tell(ROOM, "pixi", 6)
    assert heard.untold(ROOM, "pixi", 7) == []
    heard.add(ROOM, message(7))
    assert ids(heard.untold(ROOM, "pixi", 8)) == [7]
    assert ids(heard.untold(ROOM, "edda", 8)) == [5, 6, 7]


def test_fewer_messages_than_may_be_told_are_all_told() -> None:
    heard = recent(overhear=20)
    for number in range(1, 16):
        heard.add(ROOM, message(number))

    assert ids(heard.untold(ROOM, "pixi", 99)) == list(range(1, 16))


def test_nothing_is_told_where_nothing_is_to_be_overheard() -> None:
    heard = recent(overhear=0)
    heard.add(ROOM, message(1))

    assert heard.untold(ROOM, "pixi", 9) == []


def test_a_persona_is_not_told_what_it_said_itself() -> None:
    heard = recent(9)
    heard.add(ROOM, message(1, persona="pixi"))
    heard.add(ROOM, message(2, persona="edda"))
    heard.add(ROOM, message(3, ours=True))
    heard.add(ROOM, message(4))

    assert ids(heard.untold(ROOM, "pixi", 9)) == [2, 4]
    assert ids(heard.untold(ROOM, "edda", 9)) == [1, 4]


def test_what_is_read_later_stands_in_its_place() -> None:
    heard = recent()
    for number in (5, 2, 3, 5):
        heard.add(ROOM, message(number))

    assert ids(heard.untold(ROOM, "pixi", 9)) == [2, 3, 5]


def test_edits_and_deletions_are_followed() -> None:
    heard = recent()
    heard.add(ROOM, message(1))
    heard.add(ROOM, message(2))
    heard.edit(ROOM, 1, "otherwise")
    heard.delete(ROOM, 2)
    heard.edit(ROOM, 3, "unknown")
    heard.delete(404, 1)

    assert [(each.id, each.text) for each in heard.untold(ROOM, "pixi", 9)] == [(1, "otherwise")]
    heard.leave(ROOM)
    assert heard.find(ROOM, 1) is None


def test_it_is_known_when_others_spoke_last() -> None:
    heard = recent()

    assert heard.latest_by_others(ROOM) == 0
    heard.add(ROOM, message(1))
    heard.add(ROOM, message(2, ours=True))
    heard.add(ROOM, message(3, persona="edda"))
    assert heard.latest_by_others(ROOM) == 1
    heard.somebody_spoke(ROOM, 4)
    assert heard.latest_by_others(ROOM) == 4


def test_the_past_of_a_channel_is_wanted_once() -> None:
    heard = recent()

    assert heard.wants_past(ROOM)
    assert not heard.wants_past(ROOM)
    assert heard.wants_past(8)


def test_it_is_known_what_a_persona_was_told() -> None:
    heard = recent()

    assert heard.is_stranger(ROOM, "pixi")
    assert not heard.was_told(ROOM, "pixi", 1)
    heard.tell(ROOM, "pixi", 5)
    heard.tell(ROOM, "pixi", 3)
    assert not heard.is_stranger(ROOM, "pixi")
    assert heard.was_told(ROOM, "pixi", 5)
    assert heard.is_stranger(ROOM, "edda")


def test_channels_are_remembered_within_limits() -> None:
    heard = recent()
    for channel in range(3_000):
        for number in range(40 if channel in (0, 2_999) else 1):
            heard.add(channel, message(number))

    assert heard.find(0, 39) is None
    assert heard.find(2_999, 39) is not None
    assert heard.find(2_999, 1) is None


def test_turns_of_bots_are_counted_by_channel_until_a_person_speaks() -> None:
    heard = recent()

    assert [heard.take_bot_turn(1, 2) for _ in range(4)] == [True, True, False, False]
    assert heard.take_bot_turn(2, 2)
    heard.person_spoke(1)
    assert heard.take_bot_turn(1, 2)
    assert not heard.take_bot_turn(3, 0)
