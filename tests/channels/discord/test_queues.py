import asyncio
from functools import partial

from pixi.channels.discord.incoming.dispatch import ChannelQueues


class Diary:
    """Jobs that write down when they began and ended, and go on when they are let."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.broken: list[BaseException] = []
        self.lanes = ChannelQueues(self.broken.append)
        self.doors: dict[str, asyncio.Event] = {}

    async def note(self, name: str) -> None:
        self.lines.append(name)

    async def wait(self, name: str) -> None:
        self.lines.append(f"{name}…")
        await self.doors.setdefault(name, asyncio.Event()).wait()
        self.lines.append(name)


async def settle() -> None:
    """Let everything run that can run now."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_lane_keeps_its_order_and_others_do_not_wait() -> None:
    diary = Diary()
    diary.lanes.put(1, partial(diary.wait, "a"))
    diary.lanes.put(1, partial(diary.note, "b"))
    diary.lanes.put(2, partial(diary.note, "c"))
    await settle()

    assert diary.lines == ["a…", "c"]
    diary.doors["a"].set()
    await settle()
    assert diary.lines == ["a…", "c", "a", "b"]


async def test_a_lane_goes_away_when_it_is_idle() -> None:
    diary = Diary()
    diary.lanes.put(1, partial(diary.note, "a"))
    await settle()

    assert len(asyncio.all_tasks()) == 1


async def test_a_lane_lives_on_when_a_job_breaks() -> None:
    diary = Diary()

    async def broken() -> None:
        raise KeyError("oh")

    diary.lanes.put(1, broken)
    diary.lanes.put(1, partial(diary.note, "b"))
    await settle()

    assert diary.lines == ["b"]
    assert [type(error) for error in diary.broken] == [KeyError]


async def test_lanes_of_a_group_stand_still_until_they_are_released() -> None:
    diary = Diary()
    diary.lanes.hold(3)
    diary.lanes.put(1, partial(diary.note, "live"), group=3)
    diary.lanes.put(2, partial(diary.note, "elsewhere"), group=4)
    await settle()
    diary.lanes.put(1, partial(diary.note, "missed"), group=-1, first=True)
    await settle()

    assert diary.lines == ["elsewhere"]
    diary.lanes.release(3)
    await settle()
    assert diary.lines == ["elsewhere", "missed", "live"]


async def test_closing_lets_end_what_was_begun_and_drops_the_rest() -> None:
    diary = Diary()
    diary.lanes.put(1, partial(diary.wait, "a"))
    diary.lanes.put(1, partial(diary.note, "never"))
    diary.lanes.hold(5)
    diary.lanes.put(2, partial(diary.note, "never"), group=5)
    await settle()
    asyncio.get_running_loop().call_soon(diary.doors["a"].set)
    await diary.lanes.close(5.0)
    diary.lanes.put(3, partial(diary.note, "never"))
    await settle()

    assert diary.lines == ["a…", "a"]


async def test_closing_does_not_wait_for_ever() -> None:
    diary = Diary()
    diary.lanes.put(1, partial(diary.wait, "a"))
    await settle()
    await diary.lanes.close(0.01)

    assert diary.lines == ["a…"]
    assert not diary.lanes._tasks
    assert diary.broken == []
