"""Tools of a whole bot on Discord: cards, a person's yes, the rights of who asks, and what is told of it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pixi.app.service import BotService
from pixi.testing.discord import FakeMessage, Permission, User
from tests.end_to_end.bot import PERSONA, Scene, Script, scene
from tests.servers.scripted_openai import Reply, call, finish, stream, usage

TOOLS = '''
from pathlib import Path

from pixi.core.message import Card, Field

HERE = Path(__file__).parent


def setup(addon):
    @addon.tool
    async def recipe(context, name: str) -> Card:
        """Look a recipe up."""
        fields = (Field("Time", "20 minutes"), Field("@everyone", "[free](https://evil.example)"))
        return Card(name, "Thin and hot.", fields, "https://example.org/lemon.png", "https://example.org/lemon")

    @addon.tool(writes=True, approval=True)
    async def send_email(context, to: str, text: str) -> str:
        """Send an email."""
        with (HERE / "outbox").open("a") as file:
            file.write(f"{to}: {text}\\n")
        return "It is sent."

    @addon.tool(allow="managers")
    async def clean(context) -> str:
        """Clean the channel up."""
        (HERE / "cleaned").touch()
        return "It is clean."

    @addon.tool
    async def query_pancakes_database(context, query: str) -> dict:
        """Have recipes read."""
        source = {"id": 3, "title": "Lemon sugar", "section": "Toppings", "line": 12}
        fact = {"fact": "Lemon and sugar.", "source": source}
        return {"database": "pancakes", "relevant": [fact], "dropped": 0}
'''

BAKER = PERSONA.replace("pace: off", "pace: off\ntools: [recipe, send_email, clean, query_pancakes_database]")
EMAIL = {"to": "ana@example.org", "text": "pancakes at noon"}


def calls(tool: str, /, **arguments: Any) -> Reply:
    """A reply that calls a tool."""
    return stream(
        call(tool, json.dumps(arguments), index=0, call_id="call_1"), finish("tool_calls"), usage(10, 5)
    )


@asynccontextmanager
async def kitchen(folder: Path, *scripts: Script) -> AsyncGenerator[tuple[Scene, BotService], None]:
    """A bot with these tools."""
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    async with (
        scene(folder, *scripts, personas={"pixi": BAKER}) as here,
        here.bot(addons=[str(folder / "tools.py")]) as service,
    ):
        yield here, service


async def question(here: Scene) -> FakeMessage:
    """The message with buttons, once it is there."""
    await here.discord.wait_for(lambda: any(each.buttons for each in here.room.messages))
    return next(each for each in here.room.messages if each.buttons)


async def presses(here: Scene, who: User, message: FakeMessage, said: str) -> None:
    name = next(name for name in message.buttons.values() if f":{said}:" in name)
    begun = await here.discord.press(who, message, name)
    await begun.responded()


def answer_of_tool(here: Scene) -> str:
    """What the model was told last of a tool."""
    return str(next(line["content"] for line in reversed(here.prompt()) if line["role"] == "tool"))


async def test_a_card_of_a_tool_is_a_box_and_the_model_is_told_what_is_on_it(tmp_path: Path) -> None:
    async with kitchen(tmp_path, calls("recipe", name="Lemon sugar"), "[SEND: there]") as (here, _):
        await here.ask("how?")
        await here.said("", "there")
        (box,) = here.posted("").embeds
        assert (box["title"], box["url"]) == ("Lemon sugar", "https://example.org/lemon")
        assert box["image"]["url"] == "https://example.org/lemon.png"
        assert [(each["name"], each["value"]) for each in box["fields"]] == [
            ("Time", "20 minutes"),
            ("@everyone", r"\[free\](https://evil.example)"),
        ]
        assert here.posted("").pinged == frozenset()
        assert "Thin and hot." in answer_of_tool(here)


async def test_what_a_person_allows_is_done_once(tmp_path: Path) -> None:
    async with kitchen(tmp_path, calls("send_email", **EMAIL), "[SEND: sent]") as (here, _):
        await here.ask("invite Ana")
        asked = await question(here)
        assert here.mo.id in asked.pinged
        assert "**send\\_email**: Send an email." in asked.content
        assert 'to: "ana@example.org"' in asked.content
        assert not (tmp_path / "outbox").exists()
        ana = here.discord.person("Ana")
        await presses(here, ana, asked, "yes")
        assert asked.buttons
        assert not (tmp_path / "outbox").exists()
        await presses(here, here.mo, asked, "yes")
        await here.discord.wait_for(lambda: "sent" in here.posts())
        assert (tmp_path / "outbox").read_text() == "ana@example.org: pancakes at noon\n"
        assert asked.buttons == {}


async def test_what_a_person_refuses_is_not_done(tmp_path: Path) -> None:
    async with kitchen(tmp_path, calls("send_email", **EMAIL), "[SEND: fine]") as (here, _):
        await here.ask("invite Ana")
        await presses(here, here.mo, await question(here), "no")
        await here.discord.wait_for(lambda: "fine" in here.posts())
        assert not (tmp_path / "outbox").exists()
        assert "said no" in answer_of_tool(here)


async def test_a_reply_that_is_stopped_takes_its_question_back(tmp_path: Path) -> None:
    async with kitchen(tmp_path, calls("send_email", **EMAIL), "[SEND: sent]") as (here, service):
        await here.discord.wait_for(lambda: len(here.discord.commands) == 11)
        await here.ask("invite Ana")
        asked = await question(here)
        yes = next(iter(asked.buttons.values()))
        begun = await here.discord.slash(here.mo, here.room, "stop")
        assert await begun.answered() == "Stopped."
        await here.discord.wait_for(lambda: not asked.buttons)
        late = await here.discord.press(here.mo, asked, yes)
        await late.responded()
        assert late.content == "That question is no longer open."
        await service.engine.settled()
        assert not (tmp_path / "outbox").exists()


async def test_a_button_of_before_a_restart_allows_nothing(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    addons = [str(tmp_path / "tools.py")]
    scripts: tuple[Script, ...] = (calls("send_email", **EMAIL), "[SEND: hello again]")
    async with scene(tmp_path, *scripts, personas={"pixi": BAKER}) as here:
        async with here.bot(addons=addons):
            await here.ask("invite Ana")
            asked = await question(here)
            yes = next(iter(asked.buttons.values()))
        async with here.bot(addons=addons):
            late = await here.discord.press(here.mo, asked, yes)
            await late.responded()
            assert late.content == "That question is no longer open."
        assert not (tmp_path / "outbox").exists()


async def test_a_tool_for_managers_goes_by_who_asks_at_that_moment(tmp_path: Path) -> None:
    both: tuple[Script, ...] = (
        calls("clean"),
        "[SEND: no]",
        calls("clean"),
        "[SEND: done]",
        calls("clean"),
        "[SEND: over]",
    )
    async with kitchen(tmp_path, *both) as (here, _):
        role = here.guild.role("helpers", Permission.MANAGE_GUILD)
        boss = here.discord.person("Boss")
        here.guild.join(boss, roles=[role])
        await here.ask("clean up")
        await here.said("no")
        assert "Only managers" in answer_of_tool(here)
        assert not (tmp_path / "cleaned").exists()
        await here.ask("clean up", by=boss)
        await here.said("no", "done")
        assert (tmp_path / "cleaned").exists()
        here.guild.change_role(role, Permission(0))
        await here.discord.idle()
        await here.ask("clean up", by=boss)
        await here.said("no", "done", "over")
        assert "Only managers" in answer_of_tool(here)


async def test_the_documents_behind_a_reply_are_told(tmp_path: Path) -> None:
    scripts: tuple[Script, ...] = (calls("query_pancakes_database", query="toppings?"), "[SEND: lemon]")
    async with kitchen(tmp_path, *scripts) as (here, service):
        await here.discord.wait_for(lambda: len(here.discord.commands) == 11)
        await here.ask("toppings?")
        await here.said("lemon")
        await here.answered(service, 2)
        begun = await here.discord.slash(here.mo, here.room, "why", locale="de")
        await begun.answered()
        assert begun.original is not None
        (box,) = begun.original.embeds
        shown = {each["name"]: each["value"] for each in box["fields"]}
        assert shown["Quellen"] == "- pancakes: Lemon sugar › Toppings, Zeile 12"
