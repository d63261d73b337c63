"""One attempt at a turn: all that it takes to write it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation
from pixi.core.deltas import Repeats
from pixi.core.grammar import quoting_grammar
from pixi.core.lines import UserLine
from pixi.core.message import Message
from pixi.core.repeats import last_messages, wants_repeat
from pixi.core.stamps import Citation, Reminder
from pixi.core.turn import Turn
from pixi.engine.acts import Acts
from pixi.engine.context import PersonaSession
from pixi.engine.heard import Heard
from pixi.engine.reply import Reply
from pixi.engine.tool_guards import ToolRunConfig
from pixi.engine.usage import TurnUsage


@dataclass(frozen=True, slots=True)
class Attempt:
    """A turn on record, and what writes it. `guess` are the tokens of its first request, estimated."""

    id: int
    answered: Message
    guess: int
    turn: Turn
    acts: Acts
    reply: Reply


def attempt_at(
    number: int,
    session: PersonaSession,
    window: Conversation,
    channel: Channel,
    heard: Heard,
    *,
    reminders: Sequence[Reminder | Citation] = (),
    refusal: str = "",
) -> Attempt:
    """Make ready to write the turn of this number, which answers what was heard; or tells a refusal."""
    answered = heard.answered
    limits, role = session.shared.settings.limits, session.role
    usage = TurnUsage(
        session.shared.ledger,
        turn=number,
        model=role.model,
        message=answered,
        answers=Counter(message.author.id for message in heard.messages if message.addressed),
        channel=channel,
        search_price=session.shared.settings.search_price,
    )
    acts = Acts(
        turn=number,
        message=answered,
        persona=role.persona,
        channel=channel,
        store=session.shared.store,
        limits=limits,
        usage=usage,
        pace=session.pace,
        ids=_numbered(heard),
        askers=list({m.author.id: m.author for m in heard.messages if m.addressed}.values()),
    )
    said = session.stamp(heard.messages, reminders, tokens=window.longest)
    window.make_room(said)  # before the history is taken: it may be cut
    not_again = _not_to_be_repeated(session, window, heard, reminders)
    turn = _turn(
        session,
        window,
        heard,
        said,
        repeats="few" if not_again else "free",
        key=f"{number:x}",
        grammar=_grammar(session, reminders),
    )
    sorry, tired = role.persona.when_broken, role.persona.when_tired
    reply = Reply(
        turn=turn,
        model=role.model,
        acts=acts,
        commands=session.shared.commands,
        run_config=_run_config(number, session),
        limits=limits,
        spare_tokens=window.spare_tokens,
        when_broken=sorry[number % len(sorry)] if sorry else "",
        when_tired=tired[number % len(tired)] if tired else "",
        refusal=refusal,
        not_again=not_again,
    )
    return Attempt(number, answered, window.guess(said), turn, acts, reply)


def _run_config(number: int, session: PersonaSession) -> ToolRunConfig:
    shared = session.shared
    return ToolRunConfig(
        turn=number,
        tools=session.capabilities.tools,
        rates=shared.toolbox.rates,
        mask=shared.toolbox.mask,
        store=shared.store,
        vision=session.role.model.traits.vision,
        approval_seconds=shared.settings.approval_seconds,
    )


def _not_to_be_repeated(
    session: PersonaSession, window: Conversation, heard: Heard, reminders: Sequence[Reminder | Citation]
) -> list[str]:
    """List the messages that the reply may not begin with: the last ones, unless people want them again.

    Of a model at a server none: it seldom repeats itself, and to ask it anew costs money. Nor beside a
    citation: whoever asks twice is told the same fact twice.
    """
    if not session.role.model.traits.runs_here or any(isinstance(one, Citation) for one in reminders):
        return []
    said = last_messages(window.lines, session.capabilities.names)
    asked = (message.text for message in heard.messages if message.addressed)
    return [] if any(wants_repeat(text, said) for text in asked) else said


def _numbered(heard: Heard) -> dict[int, str]:
    """The messages that a persona is most likely to name."""
    quoted = {each.number: each.id for message in heard.messages for each in message.quoted if each.number}
    return quoted | {message.number: message.id for message in heard.messages if message.number}


def _grammar(session: PersonaSession, reminders: Sequence[Reminder | Citation]) -> str:
    """What the reply is held to: a small model that is shown what documents say, to their words."""
    capabilities = session.capabilities
    citations = [one for one in reminders if isinstance(one, Citation)]
    if not (citations and session.role.model.traits.small):
        return capabilities.grammar
    return quoting_grammar(capabilities.help, citations) or capabilities.grammar


def _turn(
    session: PersonaSession,
    window: Conversation,
    heard: Heard,
    said: UserLine,
    *,
    repeats: Repeats,
    key: str,
    grammar: str,
) -> Turn:
    settings = session.shared.settings
    return Turn(
        prefix=session.prefix(heard.answered),
        history=window.lines,
        said=said,
        names=session.capabilities.names,
        people=[message.author.name for message in heard.messages],
        tools=session.offered(heard.messages, window.lines),
        search=session.capabilities.searches,
        limits=settings.limits,
        prose=settings.prose,
        grammar=grammar,
        repeats=repeats,
        key=key,
    )
