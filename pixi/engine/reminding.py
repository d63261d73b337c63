"""Reminders of a persona: facts of those whom it answers, and passages of documents."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct

from pixi.core.errors import PixiError, StoreError
from pixi.core.llm import AssistantLine, Line, estimate_text
from pixi.core.memory import Memory, may_be_told
from pixi.core.message import Author, Message, Venue
from pixi.core.stamps import Citation, Reminder
from pixi.engine.context import PersonaSession
from pixi.toolbox.context import SECONDS as NOTICE_SECONDS
from pixi.toolbox.context import Notice
from pixi.toolbox.foreign import foreign, within

T = TypeVar("T")

_log = logging.getLogger("pixi.engine")

RECALL = "recall"
"""The tool that a persona must have to be reminded."""

_MOST_FACTS = 3
_MOST_CHARACTERS = 400  # of all facts together
_MOST_PEOPLE = 8
_MOST_NOTICED = 3  # messages
_MOST_CITED = 3  # passages of documents; a small model gets lost in more than one
_CITED_TOKENS = 150  # for each, by estimate
_LEAST_SCORE = 0.5  # one telling word, even if it is mistyped or a few facts share it


async def reminders_for(
    session: PersonaSession, messages: Sequence[Message], venue: Venue, history: Sequence[Line]
) -> tuple[Reminder, ...]:
    """Find facts that bear on messages that are to be answered, of what their authors told.

    It is found without the model, off the loop. Nothing where the persona cannot recall, the model is
    small, or the store fails: then the answer goes without.

    Args:
        venue: where it would be heard.
        history: what the model is shown anyway; what stands there is left out.
    """
    if session.role.model.traits.small or RECALL not in session.capabilities.tools:
        return ()
    asked: dict[str, list[Message]] = {}
    for message in reversed(messages):
        if message.addressed:
            asked.setdefault(message.author.id, []).append(message)
    present = {message.author.id for message in messages}
    store, persona = session.shared.store, session.role.persona.name
    try:
        known: dict[str, list[Memory]] = {}
        for person in list(asked)[:_MOST_PEOPLE]:
            told = await store.memories(person, persona)
            known[person] = [m for m in told if may_be_told(m, venue, messages[0].conversation, present)]
        if not any(known.values()):
            return ()
        chosen = await asyncio.to_thread(_chosen, known, asked, history)
        if chosen:
            await store.count_uses([memory.id for memory in chosen])
    except StoreError as error:
        _log.warning("nothing is remembered in conversation %s: %s", messages[0].conversation, error)
        return ()
    return _by_person(chosen, {person: theirs[0].author for person, theirs in asked.items()})


async def citations_for(session: PersonaSession, messages: Sequence[Message]) -> tuple[Citation, ...]:
    """Find passages on messages that are to be answered, for a model that calls no tools.

    Of the latest message that brings anything; nothing where no document surely does. No model is asked.
    """
    look_up, traits = session.shared.look_up, session.role.model.traits
    if look_up is None or traits.tools or not session.role.persona.databases:
        return ()
    most, left = (1, _CITED_TOKENS) if traits.small else (_MOST_CITED, _MOST_CITED * _CITED_TOKENS)
    for message in reversed(messages):
        if message.addressed and (found := await look_up(session.role.persona, message.text)):
            chosen: list[Citation] = []
            for citation in found[:most]:
                left -= estimate_text(citation.source + citation.text)
                if left < 0:
                    break
                chosen.append(citation)
            return tuple(chosen)
    return ()


class Noticed(Struct, frozen=True):
    """An addon's notice about a message."""

    notice: Notice
    message: Message
    facts: tuple[str, ...]

    @property
    def reminder(self) -> Reminder:
        """The notice as a reminder."""
        return Reminder(self.message.author, self.facts, self.notice.source)


async def notices_for(session: PersonaSession, messages: Sequence[Message]) -> tuple[Noticed, ...]:
    """Return addons' notices about messages that are to be answered; see `pixi.toolbox.context`."""
    sources = {tool.source for tool in session.capabilities.tools.values()}
    notices = [each for each in session.shared.toolbox.notices if each.source in sources]
    if not notices or session.role.model.traits.small:
        return ()
    asked = [message for message in messages if message.addressed and not message.again][-_MOST_NOTICED:]
    pairs = [(notice, message) for message in asked for notice in notices]
    found = await asyncio.gather(*(_looked(notice, message) for notice, message in pairs))
    told: set[tuple[str, str, str]] = set()
    noticed: list[Noticed] = []
    for (notice, message), lines in zip(pairs, found, strict=True):
        about = (notice.source, message.author.id)
        facts = tuple(line for line in lines if (*about, line) not in told)
        told.update((*about, line) for line in facts)
        if facts:
            noticed.append(Noticed(notice, message, facts))
    return tuple(noticed)


async def notices_answered(noticed: Sequence[Noticed]) -> None:
    """Tell addons that the messages they noticed something about were answered."""
    for each in noticed:
        if each.notice.answered is not None:
            what = f"that what {each.notice.source} notices was told"
            await _bounded(what, each.message, partial(each.notice.answered, each.message, each.facts), None)


async def _looked(notice: Notice, message: Message) -> tuple[str, ...]:
    async def look() -> tuple[str, ...]:
        return tuple(str(line) for line in await notice.look(message))[:_MOST_FACTS]

    return await _bounded(f"what {notice.source} notices", message, look, ())


async def _bounded(what: str, message: Message, ask: Callable[[], Awaitable[T]], otherwise: T) -> T:
    """Return an addon's answer; `otherwise` where it takes too long or fails."""

    async def asked() -> T:
        with foreign(what):
            return await ask()

    try:
        return await within(NOTICE_SECONDS, asked(), what)
    except TimeoutError:
        _log.warning("%s of message %s was left out: it took too long", what, message.id)
    except PixiError as error:
        _log.warning("%s of message %s was left out: %s", what, message.id, error)
    return otherwise


def _by_person(chosen: Sequence[Memory], authors: Mapping[str, Author]) -> tuple[Reminder, ...]:
    facts: dict[str, list[str]] = {}
    for memory in chosen:
        facts.setdefault(memory.person, []).append(memory.text)
    return tuple(Reminder(authors[person], tuple(texts)) for person, texts in facts.items())


def _chosen(
    known: Mapping[str, Sequence[Memory]], asked: Mapping[str, Sequence[Message]], history: Sequence[Line]
) -> list[Memory]:
    """Return the facts that fit what their own person says, best first, within the limits."""
    from pixi.text.relevance import most_relevant

    found: list[tuple[float, Memory]] = []
    for person, memories in known.items():
        if memories:
            said = "\n".join(message.text for message in asked[person])
            relevant = most_relevant(said, [memory.text for memory in memories])
            found += [(one.score, memories[one.place]) for one in relevant if one.score >= _LEAST_SCORE]
    found.sort(key=lambda one: one[0], reverse=True)
    chosen: list[Memory] = []
    left = _MOST_CHARACTERS
    for _, memory in found:
        if len(chosen) == _MOST_FACTS:
            break
        if len(memory.text) > left or any(memory.text == other.text for other in chosen):
            continue
        if not _stands_in(memory.text, history, asked[memory.person]):
            chosen.append(memory)
            left -= len(memory.text)
    return chosen


def _stands_in(fact: str, history: Sequence[Line], messages: Sequence[Message]) -> bool:
    """Return True if the model reads the fact anyway: in somebody's words, a result, or its own call."""
    escaped = json.dumps(fact)[1:-1]
    for line in history:
        if fact in line.text:
            return True
        if isinstance(line, AssistantLine) and any(
            fact in call.arguments or escaped in call.arguments for call in line.calls
        ):
            return True
    return any(fact in message.text for message in messages)
