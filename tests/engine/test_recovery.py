"""What a crash left open is looked for where it can only be."""

from pathlib import Path

import pytest

from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import scene


class AskedChannel(RecordingChannel):
    """Remembers after which message it was asked to look."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_after: list[tuple[str, str]] = []

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        self.looked_after.append((text, after))
        return await super().sent_before(text, nonce=nonce, after=after)


@pytest.mark.parametrize(("posted", "after"), [(None, "m1"), ("sent:1", "sent:1")])
async def test_a_message_is_looked_for_after_the_one_that_was_posted_before_it(
    tmp_path: Path, posted: str | None, after: str
) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    channel = AskedChannel()
    first = channel.message("well?", id="m1")
    await store.receive(first)
    turn = await store.begin_turn(first.conversation, 0, "Pixi", (first.id,))
    if posted:
        await store.intend(turn, 1, "send", "ok")
        await store.settle(turn, 1, "done", posted)
        await store.intend(turn, 2, "react", "🎂")
        await store.settle(turn, 2, "done")
    await store.intend(turn, 3, "send", "ok")
    async with scene(ScriptedModel("[SEND: hi]"), store=store) as here:
        await here.engine.receive(channel.message("hello?"), channel)
        await here.engine.settled()
    assert channel.looked_after == [("ok", after)]
    await store.close()
