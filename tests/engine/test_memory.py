"""What a conversation costs in which nothing happens."""

import gc
import tracemalloc

from pixi.core.message import Message
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import scene

MANY = 8
TURNS = 3


async def test_an_idle_conversation_costs_little_even_where_its_history_is_kept() -> None:
    model = ScriptedModel(*["[REACT: 🥞]\n[SEND: hello there, my friend]"] * (MANY * TURNS + 1))
    async with scene(model, keep=MANY + 1) as here:
        ears = RecordingChannel()

        async def talk(number: int, turn: int) -> None:
            written = ears.message("how are you today?")
            said = Message(f"{number}-{turn}", f"test:{number}", written.author, "hello", written.sent_at)
            await here.engine.receive(said, ears)
            await here.engine.settled()
            for kept in (model.requests, ears.posts, ears.nonces, ears.events, ears.reactions):
                kept.clear()

        await talk(0, -1)
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(MANY):
                for turn in range(TURNS):
                    await talk(number, turn)
            gc.collect()
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert used / MANY < 20_000
        assert used / MANY > 100  # they are there
