"""What an act is about, and in how many parts it is done."""

from typing import Any

from pixi.core.errors import ChannelError
from pixi.core.events import Failed, Sent
from pixi.core.spending import Limits
from pixi.store.kept import Effect
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.context import Context
from tests.engine.gate import Gate
from tests.engine.scene import Scene, scene


async def effects(store: SqliteStore, here: Scene) -> tuple[Effect, ...]:
    return (await store.turns(here.channel.conversation, 1))[-1].effects


async def test_each_part_of_a_long_message_is_an_act_of_its_own_and_the_message_is_one(
    store: SqliteStore,
) -> None:
    channel = RecordingChannel(part_length=4)
    model = ScriptedModel("[SEND: abcdefghij]\n[SEND: klm]\n[SEND: over]", "[SEND: x]")
    async with scene(model, channel=channel, store=store, limits=Limits(messages=2)) as here:
        await here.talk("hello")
        assert channel.sent == ["abcd", "efgh", "ij", "klm"]
        assert [event for event in channel.events if isinstance(event, Sent)] == [
            Sent("abcdefghij"),
            Sent("klm"),
        ]
        acts = await effects(store, here)
        assert [(act.sequence, act.payload, act.outcome) for act in acts] == [
            (1, "abcd", "done"),
            (2, "efgh", "done"),
            (3, "ij", "done"),
            (4, "klm", "done"),
        ]
        assert [act.platform_id for act in acts] == [post.id for post in channel.posts]
        assert len({post.nonce for post in channel.posts}) == 4
        await here.talk("more")
        assert here.replies() == ["[SEND: abcdefghij]\n[SEND: klm]"]


async def test_a_message_in_hundreds_of_parts_is_cut_and_the_turn_closed() -> None:
    channel = RecordingChannel(part_length=1)
    async with scene(ScriptedModel("[SEND: " + "x" * 300 + "]\n[SEND: y]"), channel=channel) as here:
        await here.talk("hello")
        assert channel.sent == ["x"] * 10
        assert channel.events[0] == Sent("x" * 10)
        assert channel.ended[0].finish == "limit"


async def test_a_message_that_cannot_be_shown_is_told_and_not_history() -> None:
    class Picky(RecordingChannel):
        def parts(self, text: str) -> list[str]:
            return [] if text == "invisible" else [text]

    async with scene(ScriptedModel("[SEND: invisible]\n[SEND: hi]", "x"), channel=Picky()) as here:
        await here.talk("hello", "more")
        assert here.kinds()[:2] == ["Failed", "Sent"]
        assert here.replies() == ["[SEND: hi]"]


async def test_every_post_tells_which_message_it_answers() -> None:
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]")) as here:
        message = await here.say("hello")
        await here.engine.settled()
        assert [(post.answers, post.reply_to) for post in here.channel.posts] == [(message.id, None)] * 2


def aims(here: Scene) -> None:
    """Commands that act on earlier messages, whatever the language has for it."""

    @here.engine.command
    async def answer(context: Context, number: str) -> None:
        """reply to a message"""
        await context.send(f"to {number}", to=int(number))

    @here.engine.command
    async def mark(context: Context, number: str) -> None:
        """react to a message"""
        await context.react("🥞", to=int(number))


async def test_an_earlier_message_is_found_by_its_number_in_memory_and_in_the_store(
    store: SqliteStore,
) -> None:
    model = ScriptedModel("[SEND: hi]", "[ANSWER: 1]\n[MARK: 1]\n[ANSWER: 2]\n[MARK: 2]")
    async with scene(model, channel=RecordingChannel(part_length=3), store=store) as here:
        aims(here)
        first = await here.say("one")
        await here.engine.settled()
        second = await here.say("two")
        await here.engine.settled()
        assert [(post.text, post.reply_to) for post in here.channel.posts[1:]] == [
            ("to ", first.id),
            ("1", None),
            ("to ", second.id),
            ("2", None),
        ]
        assert here.channel.reactions == [(first.id, "🥞"), (second.id, "🥞")]
        acts = await effects(store, here)
        assert [act.target for act in acts] == [1, 0, 1, 2, 0, 2]


async def test_an_unknown_number_is_no_reason_to_say_nothing_but_to_react_to_nothing() -> None:
    async with scene(ScriptedModel("[ANSWER: 77]\n[MARK: 77]\n[MARK: 78]", "x")) as here:
        aims(here)
        await here.talk("one", "two")
        assert [(post.text, post.reply_to) for post in here.channel.posts[:1]] == [("to 77", None)]
        assert here.channel.reactions == []
        failed = [event.text for event in here.channel.events if isinstance(event, Failed)]
        assert failed == ["There is no message #77 to react to."]
        assert here.replies() == ["[ANSWER: 77]"]


async def test_a_number_is_asked_of_the_store_once(store: SqliteStore) -> None:
    asked = Gate(store, "message_id")
    asked.open.set()
    async with scene(ScriptedModel("a", "[MARK: 1]\n[MARK: 1]\n[MARK: 2]"), store=store) as here:
        aims(here)
        await here.talk("one", "two")
        assert len(here.channel.reactions) == 3
        assert asked.calls == 1


async def test_a_commands_target_reaches_its_function_if_it_wants_to_know() -> None:
    told: list[tuple[str, int]] = []
    async with scene(ScriptedModel("[POINT #7: here]\n[WAVE #7: there]\n[POINT: where]")) as here:

        @here.engine.command
        async def point(context: Context, where: str, *, to: int = 0) -> None:
            """point at a message"""
            told.append((where, to))

        @here.engine.command
        async def wave(context: Context, how: str) -> None:
            """wave"""
            told.append((how, -1))

        await here.talk("hello")
        assert told == [("here", 7), ("there", -1), ("where", 0)]


async def test_a_persona_reacts_and_replies_to_earlier_messages() -> None:
    async with scene(ScriptedModel("[SEND: hi]", "[REACT #1: 🥞]\n[REPLY #1: yes]\n[SEND: no]", "x")) as here:
        first = await here.say("pancakes?")
        await here.engine.settled()
        await here.talk("hello?", "more")
        assert here.channel.reactions == [(first.id, "🥞")]
        posts = [(post.text, post.reply_to) for post in here.channel.posts]
        assert posts[:3] == [("hi", None), ("yes", first.id), ("no", None)]
        assert here.replies()[-1] == "[REACT #1: 🥞]\n[SEND #1: yes]\n[SEND: no]"


async def test_messages_are_numbered_and_a_known_one_is_ignored(store: SqliteStore) -> None:
    async with scene(ScriptedModel("a", "b"), store=store) as here:
        first = await here.say("one")
        await here.engine.settled()
        await here.engine.receive(first, here.channel)
        await here.say("two", addressed=False)
        await here.talk("three")
        assert len(here.model.requests) == 2
        assert await store.message_id(first.conversation, 3) is not None
        assert await store.message_id(first.conversation, 4) is None


async def test_a_refused_part_ends_the_message_and_what_was_seen_of_it_is_history() -> None:
    class Full(RecordingChannel):
        async def send(self, text: str, **how: Any) -> str | None:
            if len(self.posts) == 1:
                raise ChannelError("That is too much for this channel.")
            return await super().send(text, **how)

    async with scene(ScriptedModel("[SEND: abcdef]", "x"), channel=Full(part_length=2)) as here:
        await here.talk("hello")
        assert here.channel.sent == ["ab"]
        assert here.kinds() == ["Failed", "TurnEnded"]
        await here.talk("more")
        assert here.replies() == ["[SEND: abcdef]"]
