"""The retrieval agent: a cheap model reads whole entries, and names the sentences that answer a question."""

import asyncio
import hashlib
import json
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pixi.core.errors import Reporter, silent
from pixi.core.spending import Count
from pixi.core.untrusted import clipped, display_line
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval.findings import (
    NOT_IN_WHAT_WAS_READ,
    NOT_THERE,
    Answer,
    Answers,
    Fact,
    Findings,
    quoted_from,
)
from pixi.knowledge.retrieval.passages import Passages, narrowed, sentences_of
from pixi.knowledge.retrieval.reader import NO_TEXT, EntryReader, answer_unread, instruction
from pixi.models.model import Model
from pixi.text.terms import normalise

__all__ = ["Fact", "Findings", "Reader", "RetrievalAgent"]

_log = logging.getLogger("pixi.knowledge")

_LONGEST_QUESTION = 2_000
NO_QUESTION = "nothing was asked"
_VERSION = 4  # goes up when the same reply would be taken otherwise


class RetrievalAgent:
    """Answers questions from entries, with quotations.

    The helper is shown the sentences of documents, numbered, and answers with numbers. Whatever it answers,
    only sentences of the entries come back, as they stand there: the worst that a document can do is to be
    called relevant.

    Args:
        model: the helper; None, or a small one: the best passages themselves are brought back, at once.
        cache: a file in which answers are kept; None: nowhere.
        seconds: for one question. What is not read by then is answered with its best passages.
        at_once: requests to the helper side by side, for one question, unless it reads slowly.

    Attributes:
        model: may be changed at any time; questions that are being answered go on with the one before.
        seconds: the same.
        trouble: why the helper could not read for the last question that it was asked, for the operator; ""
            where it could.
    """

    def __init__(
        self, model: Model | None, *, cache: Path | None = None, seconds: float = math.inf, at_once: int = 4
    ) -> None:
        self.model = model
        self._answers = None if cache is None else Answers(cache)
        self.seconds = seconds
        self.trouble = ""
        self._at_once = at_once

    async def query(
        self,
        question: str,
        entries: Sequence[Entry],
        count: Count | None = None,
        *,
        seconds: float | None = None,
        progress: Reporter = silent,
    ) -> Findings:
        """Return what the entries say to a question.

        Args:
            question: whole.
            entries: in any order; they are read by their ids, so that a server which has read them for
                another question reads them no more.
            count: told what the helper used, if it was asked.
            seconds: until the answer is to be here; None: `self.seconds`; infinite: as long as the helper
                goes on.
            progress: told how far it is, in a line for people.

        A helper that fails, hangs or talks nonsense is no error: then the best passages come back, and
        `Findings.note` says so.
        """
        seconds = self.seconds if seconds is None else seconds
        question = clipped(" ".join(question.split()), _LONGEST_QUESTION)
        if not question or not entries:
            return Findings((), note=NO_TEXT if question else NO_QUESTION)
        entries = sorted(entries, key=lambda entry: (entry.id, entry.digest))
        entries, cut = await asyncio.to_thread(narrowed, question, entries)
        model = self.model
        if model is None or model.traits.small:
            answer = await asyncio.to_thread(
                lambda: answer_unread(Passages(question, entries, sentences_of(entries)))
            )
        else:
            reader = EntryReader(
                model,
                question,
                entries,
                at_once=self._at_once,
                seconds=seconds,
                count=count,
                progress=progress,
            )
            answer = await self._answer(_key(model, question, entries), entries, reader)
        said = NOT_IN_WHAT_WAS_READ if cut and answer.note == NOT_THERE else answer.note
        note = "; ".join(filter(None, (said, cut)))
        return Findings(tuple(quoted_from(entries, found) for found in answer.found), answer.dropped, note)

    async def close(self) -> None:
        """Close the cache. Calling it twice does no harm."""
        if self._answers is not None:
            await asyncio.to_thread(self._answers.close)

    async def _answer(self, key: str, entries: Sequence[Entry], reader: EntryReader) -> Answer:
        if self._answers is not None:
            known = await asyncio.to_thread(self._answers.get, key, entries)
            if known is not None:
                return known
        answer, whole = await reader.answer()
        if reader.trouble and reader.trouble != self.trouble:
            _log.warning("the model that reads documents did not: %s", display_line(reader.trouble))
        self.trouble = reader.trouble
        if whole and self._answers is not None:
            await asyncio.to_thread(self._answers.put, key, answer)
        return answer


def _key(model: Model, question: str, entries: Sequence[Entry]) -> str:
    """Return the key of an answer: the same for the same content, wherever its files are."""
    asked = [
        _VERSION,
        instruction(),
        model.name,
        " ".join(normalise(question).split()),
        [entry.digest for entry in entries],
    ]
    return hashlib.blake2b(json.dumps(asked).encode(), digest_size=24).hexdigest()


Reader = Callable[[], Awaitable[RetrievalAgent]]
"""Opens the agent, or returns the one that is open."""
