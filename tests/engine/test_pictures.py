"""Pictures and stickers as acts: recorded, counted, found after a crash; known only where they can be."""

import io

import pytest
from PIL import Image as Pillow

from pixi.core.errors import ConfigError
from pixi.core.events import Failed, Performed, Pictured
from pixi.core.llm import AssistantLine, SystemLine
from pixi.core.message import Abilities, Image, Picture, picture_on_record
from pixi.core.persona import Example, Persona
from pixi.core.spending import Limits
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.begun import begun
from tests.engine.scene import PIXI, Scene, scene

LINK = "https://klipy.com/gifs/cat-1"


def gallery(addon: Addon) -> None:
    @addon.command
    async def gif(context: Context, words: str) -> None:
        """a moving picture"""
        await context.picture(Picture(f"a picture of {words}", LINK, "KLIPY"))

    @addon.command
    async def own(context: Context) -> None:
        """a picture of its own"""
        await context.picture(Picture("mine", file=Image("image/gif", b"GIF89a")))
        await context.picture(Picture("neither link nor file"))

    @addon.command(needs="stickers")
    async def sticker(context: Context, name: str) -> None:
        """a sticker of this server, by its name"""
        await context.sticker(name)

    @addon.tool
    async def paint(context: Context) -> None:
        """paint"""
        await context.picture(Picture("canary-1234567", LINK))


def server(*stickers: str) -> RecordingChannel:
    return RecordingChannel("test:server", abilities=Abilities(stickers=stickers))


async def acts(store: SqliteStore, here: Scene) -> list[tuple[str, str, str | None]]:
    effects = (await store.turns(here.channel.conversation, 1))[-1].effects
    return [(act.kind, act.payload, act.outcome) for act in effects]


async def test_a_picture_is_an_act_of_its_own_in_its_order(store: SqliteStore) -> None:
    model = ScriptedModel("[SEND: look]\n[GIF: excited cat]\n[OWN]\n[SEND: nice]", "x")
    async with scene(model, addons=[gallery], store=store) as here:
        await here.talk("hi")
        assert [picture.words for picture in here.channel.pictures] == ["a picture of excited cat", "mine"]
        shown = [event for event in here.channel.events if isinstance(event, Pictured | Performed)]
        assert [type(event).__name__ for event in shown] == ["Pictured", "Performed"] * 2
        assert shown[1] == Performed("gif", "excited cat")
        assert await acts(store, here) == [
            ("send", "look", "done"),
            ("picture", f"{LINK}  KLIPY\ta picture of excited cat\n[GIF: excited cat]", "done"),
            ("picture", "\tmine\n[OWN]", "done"),
            ("send", "nice", "done"),
        ]
        assert len(set(here.channel.nonces)) == 4
        await here.talk("more")
        assert here.replies()[0] == "[SEND: look]\n[GIF: excited cat]\n[OWN]\n[SEND: nice]"


async def test_pictures_and_stickers_count_as_messages() -> None:
    model = ScriptedModel("[SEND: a][GIF: b][STICKER: hug][GIF: c][SEND: d]")
    async with scene(model, addons=[gallery], channel=server("hug"), limits=Limits(messages=3)) as here:
        await here.talk("hi")
        assert (here.channel.sent, len(here.channel.pictures), here.channel.stickers) == (["a"], 1, ["hug"])
        assert here.channel.ended[0].finish == "limit"


@pytest.mark.parametrize("kind", ["picture", "sticker"])
async def test_what_is_refused_is_told_and_no_history(kind: str) -> None:
    channel = server("hug")
    channel.refuse.add(kind)
    refused = {"picture": "[GIF: cat]", "sticker": "[STICKER: hug]"}[kind]
    async with scene(ScriptedModel(f"{refused}\n[SEND: ok]", "x"), addons=[gallery], channel=channel) as here:
        await here.talk("hi", "more")
        assert Failed(f"The channel refused to {kind}.") in channel.events
        assert here.replies() == ["[SEND: ok]"]


async def test_a_sticker_that_nobody_has_is_told_and_no_history() -> None:
    async with scene(
        ScriptedModel("[STICKER: moo]\n[SEND: ok]", "x"), addons=[gallery], channel=server("hug")
    ) as here:
        await here.talk("hi", "more")
        assert Failed("There is no sticker 'moo'.") in here.channel.events
        assert here.replies() == ["[SEND: ok]"]


async def test_a_tool_s_picture_is_masked_and_in_order() -> None:
    from pixi.core.llm import ToolCall

    persona = Persona("Pixi", "x", tools=("paint",))
    model = ScriptedModel(["[SEND: wait]", ToolCall("1", "paint", "{}")], "[SEND: ok]")
    async with scene(model, persona=persona, addons=[gallery]) as here:
        here.engine.tools.mask.learn(["canary-1234567"])
        await here.talk("go")
        assert here.channel.pictures == [Picture("***", LINK)]


# After a crash.


async def broken_off(
    store: SqliteStore, channel: RecordingChannel, kind: str, payload: str, *, done: bool
) -> None:
    said = channel.message("hi")
    await store.receive(said)
    turn = await begun(store, said.conversation, 0, "Pixi", (said.id,))
    await store.intend(turn, 1, "send", "look")
    await store.settle(turn, 1, "done", "sent:1")
    await store.intend(turn, 2, kind, payload)
    if done:
        await store.settle(turn, 2, "done", "picture:1")
    await store.mark_turn(turn, "written")


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    ("kind", "payload", "shown", "history"),
    [
        ("picture", picture_on_record(Picture("x", LINK), "[GIF: excited cat]"), 1, "[GIF: excited cat]"),
        ("picture", picture_on_record(Picture("x"), "[GIF: excited cat]"), 0, "[GIF: excited cat]"),
        (
            "picture",
            picture_on_record(Picture("x", LINK), "a cat"),
            1,
            "[NOTE: I showed them a picture: a cat]",
        ),
        ("sticker", "hug", 1, "[STICKER: hug]"),
    ],
)
async def test_what_was_under_way_is_finished_under_its_nonce_or_laid_down(
    kind: str, payload: str, shown: int, history: str, *, done: bool, store: SqliteStore
) -> None:
    channel = server("hug")
    await broken_off(store, channel, kind, payload, done=done)

    async with scene(ScriptedModel(), addons=[gallery], store=store, channel=channel) as here:
        await here.resume()
        posted = len(channel.pictures) + len(channel.stickers)
        assert posted == (0 if done else shown)
        assert all(picture.words == "x" for picture in channel.pictures)
        outcomes = [act[2] for act in await acts(store, here)]
        known = done or bool(shown)
        assert outcomes == ["done", "done" if known else "unknown"]
        told = history if known else f"[NOTE: {history} may or may not have been seen.]"
        line = AssistantLine(f"[SEND: look]\n{told}")
        assert (await store.load(channel.conversation)).lines[1:] == (line,)


async def test_what_was_posted_before_the_crash_is_not_posted_again(store: SqliteStore) -> None:
    channel = server("hug")
    await broken_off(
        store, channel, "picture", picture_on_record(Picture("x", LINK), "[GIF: cat]"), done=False
    )

    class Posted(RecordingChannel):
        async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
            assert (text, after) == (LINK, "sent:1")
            return "found"

    there = Posted("test:server")

    async with scene(ScriptedModel(), addons=[gallery], store=store, channel=channel) as here:
        await here.resume(there)
        assert there.pictures == []
        assert [act[2] for act in await acts(store, here)] == ["done", "done"]


# Where it can be.


def prompt(model: ScriptedModel, request: int = -1) -> str:
    line = model.requests[request].lines[0]
    assert isinstance(line, SystemLine)
    return line.text


def grammar(model: ScriptedModel) -> str:
    return model.requests[-1].grammar or ""


async def test_a_command_is_in_the_prompt_only_where_it_can_be_served() -> None:
    model = ScriptedModel("[SEND: a]", "[STICKER: hug]", "[STICKER: hug]\n[SEND: b]")
    async with scene(model, addons=[gallery], channel=server("hug", "wave")) as here:
        terminal = RecordingChannel("test:terminal")
        await here.engine.receive(terminal.message("hi"), terminal)
        await here.engine.settled()
        assert "STICKER" not in prompt(model)
        assert '"[STICKER: "' not in grammar(model)
        await here.talk("hi")
        assert "- [STICKER: name] a sticker of this server, by its name: hug, wave\n" in prompt(model) + "\n"
        assert '"[STICKER: " ("hug" | "wave") "]"' in grammar(model)
        assert here.channel.stickers == ["hug"]
        await here.engine.receive(terminal.message("and here?"), terminal)
        await here.engine.settled()
        assert (terminal.stickers, terminal.sent) == ([], ["a", "b"])  # dropped as any unknown command


async def test_the_prefix_stays_the_same_to_the_byte_as_long_as_the_place_does() -> None:
    model = ScriptedModel(*["[SEND: yes]"] * 5)
    channel, other = server("hug"), RecordingChannel("test:terminal")
    async with scene(model, addons=[gallery], channel=channel) as here:
        await here.talk("1")
        await here.engine.receive(other.message("2"), other)
        await here.engine.settled()
        await here.talk("3")
        first, _, third = model.requests[:3]
        assert third.lines[: len(first.lines)] == first.lines
        channel.abilities = Abilities(stickers=("hug", "wave"))  # somebody made another
        await here.talk("4")
        assert "hug, wave" in prompt(model)
        assert AssistantLine("[SEND: yes]") in model.requests[-1].lines


async def test_a_small_model_is_told_the_form_and_can_write_nothing_else() -> None:
    model = ScriptedModel("[STICKER: hug]\n[SEND: hi]", traits=Traits(small=True))
    async with scene(model, addons=[gallery], channel=server("hug")) as here:
        await here.talk("hi")
        assert "[STICKER: name]" in prompt(model)
        assert '("hug")' in grammar(model)
        assert here.channel.stickers == ["hug"]


async def test_a_persona_may_name_commands_that_no_setting_brings_here() -> None:
    shared = Persona("Pixi", "x", commands=("send", "gif", "sticker"))
    model = ScriptedModel("[SEND: hi]")
    async with scene(model, persona=shared) as here:
        await here.talk("hi")
        assert here.channel.sent == ["hi"]
        assert "GIF" not in prompt(model)
        here.engine.check(shared)
        with pytest.raises(ConfigError, match="no command 'gift'"):
            here.engine.check(Persona("Pixi", "x", commands=("send", "gift")))


SHOWING = Persona(
    "Pixi",
    "x",
    examples=(
        Example("hello!", "[SEND: hi {{user}}]\n[GIF: waving cat]\n  [sticker: hug]\n[REACT: 🥞]"),
        Example("a cat?", "[GIF: a cat]"),
    ),
)


async def test_what_is_not_served_stands_in_no_example_either() -> None:
    model = ScriptedModel("[SEND: a]")
    async with scene(model, persona=SHOWING) as here:
        await here.talk("hi")
        assert "> hello!\n[SEND: hi Mo]\n[REACT: 🥞]" in prompt(model)
        assert "cat" not in prompt(model)
    model = ScriptedModel("[SEND: a]")
    async with scene(model, persona=SHOWING, addons=[gallery], channel=server("hug")) as here:
        await here.talk("hi")
        assert "[SEND: hi Mo]\n[GIF: waving cat]\n  [sticker: hug]\n[REACT: 🥞]" in prompt(model)
        assert "> a cat?\n[GIF: a cat]" in prompt(model)


async def test_a_persona_that_names_its_commands_goes_without_others() -> None:
    quiet = Persona("Pixi", "x", commands=("send",))
    model = ScriptedModel("[GIF: cat]\n[SEND: hi]")
    async with scene(model, persona=quiet, addons=[gallery], channel=server("hug")) as here:
        await here.talk("hi")
        assert "GIF" not in prompt(model)
        assert here.channel.pictures == []


def test_a_picture_as_one_line() -> None:
    file = io.BytesIO()
    Pillow.new("RGB", (2, 2)).save(file, "PNG")
    assert Picture("a cat", LINK, "KLIPY").plain == f"a cat · Powered by KLIPY · {LINK}"
    assert Picture("a cat", file=Image("image/png", file.getvalue())).plain == "a cat"
    assert PIXI.commands is None
