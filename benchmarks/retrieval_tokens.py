"""Main-model tokens for twenty questions over long entries: `python -m benchmarks retrieval_tokens`.

The pages of `docs/` are opened as a database, each question is searched, and the three best entries are put
to it: once read by the retrieval agent, once as they are, in the prompt of the main model. The helper stands
behind a real socket but is no model: it names the sentences that share most words with the question. So the
figure says what goes through the main model, and not how well a helper reads. Tokens are Pixi's own estimate.
"""

import asyncio
import json
import re
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ROOT
from benchmarks.report import Figure
from pixi.core.llm import ToolLine, estimate
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval import RetrievalAgent
from pixi.models.model import Traits
from pixi.models.server_model import ServerModel
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream

ENTRIES = 3
FACTS = 4  # sentences that the stand-in names of each part

QUESTIONS = (
    ("What takes a persona's name and picture for each message on Discord?", "webhook"),
    ("How many turns may bots and personas take until a person speaks again?", "bot_turns"),
    (
        "Which intent must be switched on so that the bot is shown what people write?",
        "Message Content Intent",
    ),
    ("Which slash command forgets everything that I ever said?", "/forget me"),
    ("How old may a message be that came while the bot was away and is still answered?", "catch_up_minutes"),
    ("How many text files of a message are read?", "text_files"),
    ("What is the largest size of a picture file in megabytes?", "picture_megabytes"),
    ("Who may use the command /reset?", "manage messages"),
    ("What does pace say in the front matter of a persona?", "brisk"),
    ("Which section of a persona is for small models?", "In short"),
    ("What does a persona say when its model fails?", "when_broken"),
    ("Where are personas looked for first?", "own folder"),
    ("What does pixi-persona personas --check exit with?", "exits with 1"),
    ("Which files need the docs extra?", "PDF"),
    ("How long may it take to read a file before it is set aside?", "60 seconds"),
    ("Where is the index of a database kept?", "cache"),
    ("How do I describe a database to the model?", "_about.md"),
    ("What is on record of each writing call of a tool?", "who asked"),
    ("What shows the person what is to be done, and with which arguments?", "Approval"),
    ("How do I show a card from a tool?", "card"),
)
"""Each with words that an answer of the documents holds."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question cost.

    Attributes:
        whole: tokens of the entries in the main model's prompt.
        found: tokens of what the agent brought back in their place.
        helper: tokens that the helper was sent.
        kept: whether the words of the answer, if the entries hold them, came back; None: they do not.
    """

    whole: int
    found: int
    helper: int
    kept: bool | None


def naming(seen: Seen) -> Reply:
    """Stand in for a helper: name the sentences that share most words with the question."""
    told = seen.json()["messages"][-1]["content"]
    lines, _, question = told.rpartition("\n\nQuestion: ")
    numbered = re.findall(r"^\[(\d+)\] (.*)$", lines, re.MULTILINE)
    held = [set(_words(text)) for _, text in numbered]
    rarity = {word: 1 / (1 + sum(word in words for words in held)) for word in _words(question)}
    scores = [sum(rarity.get(word, 0.0) for word in words) for words in held]
    ranked = sorted(range(len(numbered)), key=lambda i: -scores[i])[:FACTS]
    named = [int(numbered[i][0]) for i in ranked if scores[i]]
    return stream(json.dumps({"answerable": bool(named), "sentences": named}), finish())


def _words(text: str) -> list[str]:
    return [word[:6] for word in re.findall(r"\w{4,}", text.lower())]


def in_prompt(entries: Sequence[Entry]) -> str:
    """Entries as a tool would give them whole."""
    told = [
        {
            "id": entry.id,
            "title": entry.title,
            "sections": [{"heading": s.heading, "line": s.line, "text": s.text} for s in entry.sections],
        }
        for entry in entries
    ]
    return json.dumps(told, ensure_ascii=False)


def tokens(result: str) -> int:
    """Of a tool's result in the prompt."""
    return estimate(ToolLine("1", "query_docs_database", result))


async def measure(folder: Path, questions: Sequence[tuple[str, str]]) -> list[Asked]:
    """Ask every question."""
    asked: list[Asked] = []
    with tempfile.TemporaryDirectory() as cache:
        async with (
            ScriptedOpenAI(choose=naming) as server,
            await DirectoryDatabase.open(folder, cache=Path(cache)) as database,
        ):
            model = ServerModel("stand-in", base_url=server.base_url, traits=Traits(context_tokens=16_000))
            agent = RetrievalAgent(model)
            await database.ready()
            for question, words in questions:
                hits = (await database.search(question, ENTRIES)).hits
                entries = await database.read([hit.source.entry for hit in hits])
                before = len(server.requests)
                findings = (await agent.query(question, entries)).to_json()
                sent = server.requests[before:]
                whole, found = in_prompt(entries), json.dumps(findings, ensure_ascii=False)
                kept = words.lower() in found.lower() if words.lower() in whole.lower() else None
                asked.append(Asked(tokens(whole), tokens(found), sum(map(_sent, sent)), kept))
            await agent.close()
            await model.close()
    return asked


def _sent(seen: Seen) -> int:
    return sum(tokens(message["content"]) for message in seen.json()["messages"])


def run(quick: bool) -> list[Figure]:
    """The figure, for the table."""
    asked = asyncio.run(measure(ROOT / "docs", QUESTIONS[:3] if quick else QUESTIONS))
    whole, found = sum(each.whole for each in asked), sum(each.found for each in asked)
    there = [each.kept for each in asked if each.kept is not None]
    return [
        Figure(
            name=f"Main-model tokens for {len(asked)} questions over long entries",
            goal="as few as can be",
            ours=f"{found:,} with the retrieval agent",
            peers={"the entries in the prompt": f"{whole:,}"},
            ratios={
                "in the prompt / agent": f"{whole / found:.1f}",
                "median of the questions": f"{statistics.median(a.whole / a.found for a in asked):.1f}",
            },
            note=(
                f"the helper is a stand-in that names sentences, behind a real socket, and was sent "
                f"{sum(each.helper for each in asked):,} tokens; the words of the answer came back for "
                f"{sum(there)} of the {len(there)} questions whose entries hold them; tokens are estimated"
            ),
        )
    ]
