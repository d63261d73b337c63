"""Of somebody who was forgotten no byte is left: in the store and its log, in caches, in a prompt."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pixi.app.service import BotService
from pixi.testing.discord import FakeChannel, Permission, User
from tests.end_to_end.bot import PERSONA, Scene, scene
from tests.end_to_end.program import piped
from tests.servers.scripted_openai import Hang, Reply, Seen, Tell, call, content, finish, stream, usage
from tests.waiting import until, within

CANARY = "kanarienvogel"
TOOLS = "tools: [remember, recall, forget]\ndatabases: [islands]"
KNOWING = PERSONA.replace("pace: off", f"pace: off\n{TOOLS}")
FERRY = "# The ferry\n\nThe ferry leaves at 07:40 and at 16:15. In fog it waits for the bell.\n"
SEARCH = """
import json, sys
from contextlib import suppress
from pathlib import Path

word, found = sys.argv[2].encode(), {}
for file in Path(sys.argv[1]).rglob("*"):
    if file.is_file():
        with suppress(FileNotFoundError):  # an index is written anew in this moment
            found[file.name] = found.get(file.name, False) or word in file.read_bytes().lower()
print(json.dumps(found))
"""


def said(text: str) -> Reply:
    return stream(content(text), finish(), usage(100, 20))


def calls(tool: str, **arguments: object) -> Reply:
    called = call(tool, json.dumps(arguments), index=0, call_id="call_1")
    return stream(called, finish("tool_calls"), usage(100, 20))


@dataclass(slots=True)
class Parrot:
    """A model that repeats what it was told, and gives it on to tools."""

    hanging: asyncio.Event

    def __call__(self, seen: Seen) -> Reply:
        asked = seen.json()
        if "tools" not in asked:  # the agent has it read
            return said(json.dumps({"answerable": True, "sentences": ["In fog it waits for the bell."]}))
        last = asked["messages"][-1]
        told = last["content"] if isinstance(last["content"], str) else json.dumps(last["content"])
        if last["role"] == "tool":
            return said(f"[NOTE: hm, {CANARY}]\n[SEND: so it is]")
        if "keep in mind" in told:
            return calls("remember", fact=f"has a {CANARY}")
        if "look up" in told:
            return calls("query_islands_database", query=f"does a {CANARY} wait in fog?")
        if "search" in told:
            return calls("search_islands_database", keyword=f"{CANARY} ferry")
        if "take your time" in told:
            return stream(content(f"[SEND: your {CANARY}]\n[SEND: "), Tell(self.hanging), Hang())
        if "weather" in told:
            return said(f"[SEND: rain, bad for a {CANARY}]")
        if "pancakes" in told:
            return said("[SEND: with syrup]")
        return said(f"[SEND: a {CANARY}, I see]")


@dataclass(slots=True)
class Talk:
    """A bot that knows and remembers, and two people who talk to it."""

    here: Scene
    service: BotService
    ana: User
    parrot: Parrot
    folder: Path

    async def asks(self, text: str, *, by: User | None = None, room: FakeChannel | None = None) -> None:
        """Ask, and wait for the answer."""
        count = len(self.here.asked)
        await self.here.ask(text, by=by, room=room)
        await until(lambda: len(self.here.asked) > count)
        await self.service.engine.settled()

    async def everything(self, *, private: bool = True) -> None:
        """Mo says the word in every way that there is, and Ana and the persona repeat it."""
        here, mo = self.here, self.here.mo
        await self.asks("pancakes please", by=self.ana)
        await self.asks(f"my {CANARY} sings")
        first = here.room.messages[-2]
        await self.asks(f"look up whether a {CANARY} waits")
        await self.asks(f"search for {CANARY}")
        await here.room.say(mo, f"{CANARY}, overheard")
        edited = await here.room.say(mo, "hm")
        deleted = await here.room.say(mo, f"{CANARY}, and now it is gone")
        await edited.edit(f"{CANARY}, edited")
        await deleted.delete()
        await here.room.say(self.ana, f"{here.at} what?", reply_to=first)
        await until(lambda: "what?" in here.heard())
        await self.service.engine.settled()
        await self.asks("what weather is it?", by=self.ana)
        if private:
            await self.asks("keep in mind what I have")
            letters = here.discord.dm(mo)
            await letters.say(mo, f"psst, {CANARY}")
            await until(lambda: "psst" in here.heard())
            await self.service.engine.settled()
        assert await self.left(), "or this test could not fail"

    async def left(self) -> list[str]:
        """Where the word still stands: every byte under the data folder is looked at.

        By another process: who opens and closes a file of SQLite's gives up the locks that his process has.
        """
        looking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SEARCH, str(self.folder), CANARY), stdout=asyncio.subprocess.PIPE
        )
        found, _ = await looking.communicate()
        every = json.loads(found)
        assert {"pixi.db", "pixi.db-wal", "answers.db"} <= every.keys()
        return [name for name, holds in every.items() if holds]

    async def assert_nothing_is_left(self) -> None:
        assert await self.left() == []

    async def assert_others_are_remembered(self) -> None:
        """And that the talk goes on without it."""
        await self.asks("more pancakes?", by=self.ana)
        assert "pancakes please" in self.here.whole()
        assert "with syrup" in self.here.whole()
        assert CANARY not in self.here.whole().lower()
        assert self.here.posts()[-1] == "with syrup"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    islands = tmp_path / "databases" / "islands"
    islands.mkdir(parents=True)
    (islands / "ferry.md").write_text(FERRY, encoding="utf-8")
    return tmp_path / "cache"


@asynccontextmanager
async def talk(folder: Path) -> AsyncGenerator[Talk, None]:
    parrot = Parrot(asyncio.Event())
    async with scene(folder, parrot, personas={"pixi": KNOWING}) as here, here.bot() as service:
        await here.discord.wait_for(lambda: len(here.discord.commands) == 11)
        here.guild.join(here.mo, nick=f"Mo {CANARY}")
        yield Talk(here, service, here.discord.person("Ana"), parrot, folder)


async def forget_me(here: Scene) -> None:
    """Mo wants it, and says yes."""
    begun = await here.discord.slash(here.mo, here.room, "forget me")
    await begun.answered()
    asked = begun.original
    assert asked is not None
    await here.discord.press(here.mo, asked, asked.components[0]["components"][0]["custom_id"])
    await here.discord.wait_for(lambda: "You are forgotten." in asked.content)


async def forget_from_outside(talk: Talk) -> str:
    """The operator wants it, in another process; gives what that process said."""
    url = f"sqlite:///{talk.folder / 'pixi.db'}"
    home = talk.folder.parent
    async with piped(
        home, "forget", str(talk.here.mo.id), "--yes", environ={"PIXI_STORE__URL": url}
    ) as program:
        ended = await program.end()
    assert (ended.code, ended.err) == (0, "")
    return ended.out


@pytest.mark.usefixtures("cache")
async def test_nothing_is_left_of_who_wants_to_be_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "pixi"):
        async with talk(tmp_path) as here:
            await here.everything()
            await forget_me(here.here)
            await here.assert_nothing_is_left()
            await here.assert_others_are_remembered()
            await here.assert_nothing_is_left()
    assert CANARY not in caplog.text


@pytest.mark.usefixtures("cache")
async def test_nor_while_they_are_being_answered(tmp_path: Path) -> None:
    async with talk(tmp_path) as here:
        await here.everything()
        await here.here.ask(f"take your time, {CANARY}")
        async with within("the model hangs"):
            await here.parrot.hanging.wait()
        await forget_me(here.here)
        await here.assert_nothing_is_left()
        await here.assert_others_are_remembered()
        await here.assert_nothing_is_left()


@pytest.mark.usefixtures("cache")
async def test_nor_if_another_process_has_them_forgotten(tmp_path: Path) -> None:
    async with talk(tmp_path) as here:
        await here.everything()
        told = await forget_from_outside(here)
        assert "Forgotten. Changed: 2 conversations." in told
        await here.assert_nothing_is_left()
        await here.assert_others_are_remembered()
        await here.assert_nothing_is_left()


@pytest.mark.nightly
@pytest.mark.usefixtures("cache")
async def test_nor_if_another_process_does_so_while_they_are_being_answered(tmp_path: Path) -> None:
    async with talk(tmp_path) as here:
        await here.everything()
        await here.here.ask(f"take your time, {CANARY}")
        async with within("the model hangs"):
            await here.parrot.hanging.wait()
        await forget_from_outside(here)
        await until(lambda: here.service.engine.talking == 0)
        await here.assert_nothing_is_left()
        await here.assert_others_are_remembered()
        await here.assert_nothing_is_left()


@pytest.mark.usefixtures("cache")
async def test_nothing_is_left_of_a_talk_that_was_reset(tmp_path: Path) -> None:
    async with talk(tmp_path) as here:
        await here.everything(private=False)
        boss = here.here.discord.person("Boss", permissions=Permission.MANAGE_MESSAGES)
        begun = await here.here.discord.slash(boss, here.here.room, "reset")
        await begun.answered()
        await here.assert_nothing_is_left()
        await here.asks("more pancakes?", by=here.ana)
        assert "pancakes please" not in here.here.whole()
        assert CANARY not in here.here.whole()
        await here.assert_nothing_is_left()
