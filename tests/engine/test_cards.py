"""Cards: shown once, in order, within the limits, and told to the model in words."""

import io

import pytest
from msgspec.structs import replace
from PIL import Image as Pillow

from pixi.core.errors import ChannelError
from pixi.core.events import Failed, Sent, Shown, TalkChanged, ToolAnswered
from pixi.core.llm import AssistantLine, ToolCall, ToolLine
from pixi.core.message import Card, Field, Image, card_on_record
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.begun import begun
from tests.engine.scene import Scene, scene

CAKE = Card("Pancakes", "Flat.", (Field("Flour", "200 g"),), link="https://example.org/cake")
CHEF = Persona("Pixi", "x", tools=("bake", "paint", "serve"))
SHOWN = "(The people here were shown this card; do not repeat it.)\n"


def png() -> Image:
    file = io.BytesIO()
    Pillow.new("RGB", (4, 4), "pink").save(file, "PNG")
    return Image("image/png", file.getvalue())


def kitchen(addon: Addon) -> None:
    @addon.tool
    async def bake(context: Context, count: int = 1) -> object:
        """bake"""
        return ["Baked:", *[replace(CAKE, title=f"Cake {n}") for n in range(count)]] if count > 1 else CAKE

    @addon.tool
    async def paint(context: Context) -> object:
        """paint"""
        return ["Look", png(), {"colour": "pink"}]

    @addon.tool
    async def serve(context: Context) -> None:
        """serve"""
        await context.card(CAKE)
        await context.card(Card("  "))

    @addon.command
    async def menu(context: Context, title: str) -> None:
        """the menu"""
        await context.card(Card(title, picture=Image("image/png", b"no picture")))


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall("1", name, arguments)


def told(here: Scene) -> list[ToolLine]:
    return [line for line in here.history() if isinstance(line, ToolLine)]


async def test_a_card_is_shown_after_what_was_said_before_and_told_in_words(store: SqliteStore) -> None:
    model = ScriptedModel(["[SEND: here]", call("bake")], "[SEND: tasty]", "x")
    async with scene(model, persona=CHEF, addons=[kitchen], store=store) as here:
        await here.talk("hungry")
        assert here.channel.cards == [CAKE]
        assert told(here)[0].text == SHOWN + CAKE.plain
        shown = [event for event in here.channel.events if isinstance(event, Sent | Shown)]
        assert shown == [Sent("here"), Shown(CAKE), Sent("tasty")]
        acts = (await store.turns(here.channel.conversation, 1))[-1].effects
        assert [(act.kind, act.payload, act.outcome) for act in acts] == [
            ("send", "here", "done"),
            ("card", card_on_record(CAKE), "done"),
            ("send", "tasty", "done"),
        ]
        assert len(set(here.channel.nonces)) == 3
        assert all(len(nonce) <= 25 for nonce in here.channel.nonces)


async def test_tools_and_commands_show_cards_themselves() -> None:
    model = ScriptedModel([call("serve"), "[MENU: Today]"], "[SEND: ok]", "x")
    async with scene(model, persona=CHEF, addons=[kitchen]) as here:
        await here.talk("hungry")
        assert sorted(card.title for card in here.channel.cards) == ["Pancakes", "Today"]
        assert all(card.picture is None for card in here.channel.cards)  # what is no picture is left out
        assert told(here)[0].text == "Done."
        await here.talk("more")
        assert here.replies()[0] == "[MENU: Today]"


async def test_cards_count_as_messages() -> None:
    model = ScriptedModel([call("bake", '{"count": 5}')], "[SEND: never]")
    async with scene(model, persona=CHEF, addons=[kitchen], limits=Limits(messages=3)) as here:
        await here.talk("hungry")
        assert [card.title for card in here.channel.cards] == ["Cake 0", "Cake 1", "Cake 2"]
        assert here.channel.ended[0].finish == "limit"
        (answered,) = (event for event in here.channel.events if isinstance(event, ToolAnswered))
        assert answered.result == "No more can be shown in this turn."
        assert here.channel.sent == []


async def test_where_a_card_cannot_be_shown_the_model_has_its_words() -> None:
    channel = RecordingChannel()
    channel.refuse.add("card")
    async with scene(
        ScriptedModel([call("bake")], "[SEND: ok]"), persona=CHEF, addons=[kitchen], channel=channel
    ) as here:
        await here.talk("hungry")
        assert told(here)[0].text.startswith("(This was to be shown as a card, which is not possible here")
        assert told(here)[0].text.endswith(CAKE.plain)
        assert not [event for event in here.channel.events if isinstance(event, Failed)]


async def test_a_secret_on_a_card_is_masked_for_people_and_model() -> None:
    def setup(addon: Addon) -> None:
        @addon.tool
        async def leak(context: Context) -> Card:
            """leak"""
            await context.send("key: canary-1234567")
            data = {"canary-1234567": [{"key": "a canary-1234567"}], "n": 1}
            return Card("canary-1234567", fields=(Field("key", "canary-1234567"),), type="keys", data=data)

    model = ScriptedModel([call("leak")], "[SEND: ok]")
    persona = Persona("Pixi", "x", tools=("leak",))
    async with scene(model, persona=persona, addons=[setup]) as here:
        here.engine.tools.mask.learn(["canary-1234567"])
        await here.talk("go")
        data = {"***": [{"key": "a ***"}], "n": 1}
        assert here.channel.cards == [Card("***", fields=(Field("key", "***"),), type="keys", data=data)]
        assert "canary" not in repr((here.channel.events, here.channel.posts, here.history()))


@pytest.mark.parametrize("vision", [True, False])
async def test_pictures_reach_models_that_see_and_are_words_for_others(
    vision: bool, store: SqliteStore
) -> None:
    model = ScriptedModel([call("paint")], "[SEND: ok]", "[SEND: x]", traits=Traits(vision=vision))
    async with scene(model, persona=CHEF, addons=[kitchen], store=store) as here:
        await here.talk("paint", "more")
        (line,) = told(here)
        if vision:
            assert len(line.images) == 1
            assert line.text == 'Look\n{"colour": "pink"}'
        else:
            assert line.images == ()
            assert line.text == 'Look\n(a picture that you cannot see)\n{"colour": "pink"}'
        kept = [saved for saved in (await store.load(here.channel.conversation)).lines if saved == line]
        assert len(kept) == 1


async def half_shown(store: SqliteStore, *, done: bool) -> RecordingChannel:
    channel = RecordingChannel()
    said = channel.message("hungry")
    await store.receive(said)
    turn = await begun(store, said.conversation, 0, "Pixi", (said.id,))
    await store.intend(turn, 1, "send", "here")
    await store.settle(turn, 1, "done", "sent:1")
    await store.intend(turn, 2, "card", CAKE.plain)
    if done:
        await store.settle(turn, 2, "done", "card:1")
    await store.mark_turn(turn, "written")
    return channel


@pytest.mark.parametrize("done", [True, False])
async def test_after_a_crash_no_card_is_posted_again(done: bool, store: SqliteStore) -> None:
    channel = await half_shown(store, done=done)

    async with scene(ScriptedModel(), persona=CHEF, addons=[kitchen], store=store, channel=channel) as here:
        await here.resume()
        assert channel.cards == []
        turn = (await store.turns(channel.conversation, 1))[-1]
        assert channel.events == [TalkChanged(turn.id)]
        acts = turn.effects
        assert [act.outcome for act in acts] == ["done", "done" if done else "unknown"]
        told = "I showed them a card: Pancakes"
        if not done:
            told = "A card: Pancakes may or may not have been seen."
        line = AssistantLine(f"[SEND: here]\n[NOTE: {told}]")
        assert (await store.load(channel.conversation)).lines[1:] == (line,)


async def test_a_card_that_is_refused_to_a_command_is_told_and_no_history() -> None:
    class Plain(RecordingChannel):
        async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
            raise ChannelError("Nothing can be drawn here.")

    model = ScriptedModel("[MENU: Today]\n[SEND: ok]", "x")
    async with scene(model, persona=CHEF, addons=[kitchen], channel=Plain()) as here:
        await here.talk("hungry", "more")
        assert Failed("Nothing can be drawn here.") in here.channel.events
        assert here.replies() == ["[SEND: ok]"]
