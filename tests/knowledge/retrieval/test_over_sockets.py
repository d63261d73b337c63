"""The retrieval agent with a helper at the far end of a socket, and whatever a helper may name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.knowledge.retrieval.reader import NEAREST
from pixi.models.faults import Retries
from pixi.models.server_model import ServerModel
from pixi.testing import ScriptedModel
from tests.knowledge.retrieval.scene import BRIDGE_ENTRY, LARGE, TEA_ENTRY, entry, reply, texts
from tests.servers.scripted_openai import (
    Close,
    Hang,
    Reply,
    ScriptedOpenAI,
    Seen,
    error,
    finish,
    page,
    stream,
)
from tests.waiting import LIMIT, within

WHO = "Who built the Khaju bridge?"
BUILT = "It was built by Shah Abbas II around 1650, on the foundations of an older bridge."


@asynccontextmanager
async def helper(server: ScriptedOpenAI) -> AsyncIterator[RetrievalAgent]:
    model = ServerModel(
        "helper-8b",
        base_url=server.base_url,
        traits=LARGE,
        retries=Retries(base=0.001),
    )
    agent = RetrievalAgent(model, seconds=LIMIT)
    try:
        yield agent
    finally:
        await agent.close()
        await model.close()


async def test_a_schema_goes_along_and_a_server_without_is_asked_in_words() -> None:
    def takes_none(seen: Seen) -> Reply:
        if "response_format" in seen.json():
            return error(400, "response_format is not supported by this model")
        return stream(f"```json\n{reply(2)}\n```", finish())

    async with ScriptedOpenAI(choose=takes_none) as server, helper(server) as agent:
        for question in (WHO, "Who was the builder of the bridge?"):
            assert texts((await agent.query(question, [BRIDGE_ENTRY, TEA_ENTRY])).relevant) == [BUILT]
        asked = [seen.json() for seen in server.requests]
    assert ["response_format" in body for body in asked] == [True, False, False]
    schema = asked[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == ["answerable", "sentences"]  # the flag first
    assert "[1] The Khaju Bridge stands in Isfahan." in asked[0]["messages"][1]["content"]


FAILING = {
    "a refused key": error(401, "no"),
    "a web page": page(),
    "a reply that is cut off": stream(reply(2)[:30], Close()),
}


@pytest.mark.parametrize("answer", FAILING.values(), ids=FAILING)
async def test_a_server_that_fails_leaves_the_best_passages(answer: Reply) -> None:
    async with ScriptedOpenAI(answer) as server, helper(server) as agent:
        findings = await agent.query(WHO, [BRIDGE_ENTRY, TEA_ENTRY])
    assert BUILT in findings.relevant[0].text
    assert findings.note == NEAREST


async def test_who_gives_up_waiting_closes_the_connection() -> None:
    async with ScriptedOpenAI(stream('{"ans', Hang())) as server, helper(server) as agent:
        task = asyncio.create_task(agent.query(WHO, [BRIDGE_ENTRY]))
        async with within("the question"):
            await server.asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with within("the end of the connection"):
            await server.requests[0].gone.wait()


WORDS = [
    "The bridge",
    "has 3 arches.",
    "It was",
    "not",
    "built in 1650.",
    "桥有三个拱。",
    "这座桥",
    "پل ساخته شد.",
    "\n\n",
    "\n",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ENTRIES = st.lists(
    st.builds(
        lambda number, title, parts: entry(number, title or "x", *(Section(t, "h", 5) for t in parts)),
        st.integers(1, 9),
        st.text("ab 桥", max_size=5),
        st.lists(TEXTS, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


@given(
    ENTRIES,
    st.lists(st.one_of(TEXTS, st.text(max_size=20), st.integers(-2, 40)), max_size=6),
    st.booleans(),
)
def test_whatever_comes_back_stands_where_it_says(
    entries: list[Entry], named: list[str | int], helped: bool
) -> None:
    async def ask() -> None:
        model = ScriptedModel(reply(*named), traits=LARGE) if helped else None
        findings = await RetrievalAgent(model).query("How many arches has the bridge? 桥有几个拱", entries)
        for fact in findings.relevant:
            places = [
                section
                for each in entries
                if each.id == fact.source.entry
                for section in each.sections
                if fact.text in section.text
            ]
            lines = {s.line + s.text[:at].count("\n") for s in places for at in _starts(s.text, fact.text)}
            assert fact.text.strip()
            assert fact.source.line in lines

    asyncio.run(ask())


def _starts(text: str, piece: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(piece, at)]
