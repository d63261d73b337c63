"""The screens of what happens now: the talks that go on, their events, and what waits for an answer."""

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from pixi.app.live_hub import LiveTalk
from pixi.app.service import BotService
from pixi.app.studio.rows import hidden_among, is_private, may_read, operator_route, private_among
from pixi.core.message import Author
from pixi.core.routes import AddonRoute, Caller

_BARE = {
    "turn_start": ("model", "began"),
    "answered": ("model", "finish", "failed", "usage"),
    "state": ("state",),
    "turn_end": ("finish", "model", "steps", "usage", "cost", "seconds", "first_visible", "limits"),
}
"""Events that are told of a turn whose words are hidden, and their fields."""


class EventsQuery(Struct):
    """A choice of events.

    Attributes:
        conversation: only the turns of this one, from the last ones that are kept on.
        persona: only what is of this one's talks, by name.
        kinds: with commas between them; "": all.
    """

    conversation: Annotated[str, Meta(max_length=300)] = ""
    persona: Annotated[str, Meta(max_length=200)] = ""
    kinds: Annotated[str, Meta(max_length=200)] = ""


class LiveRow(LiveTalk, kw_only=True):
    """A talk in which something happened since the program started.

    Attributes:
        private: it is in private.
        hidden: its words are not shown.
    """

    private: bool
    hidden: bool


class LiveTalks(Struct):
    """Talks, the latest first."""

    talks: list[LiveRow]


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the ways in to the screen; from now on the hub of the service looks on at the engine's turns."""
    service.engine.settings.observers.append(service.hub.observe)

    async def live(caller: Caller, asked: None) -> LiveTalks:
        private = await private_among(service.store, [talk.conversation for talk in service.hub.talks])
        hidden = frozenset() if service.settings.studio.private else private
        return LiveTalks(
            [
                LiveRow(
                    **asdict(talk), private=talk.conversation in private, hidden=talk.conversation in hidden
                )
                for talk in service.hub.talks
            ]
        )

    async def events(caller: Caller, asked: EventsQuery) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what happens; words of a private talk only where it alone was asked for, and may be read."""
        kinds = [kind for each in asked.kinds.split(",") if (kind := each.strip())]
        readable: dict[str, bool] = {}
        if asked.conversation:
            readable[asked.conversation] = await may_read(service, caller, asked.conversation, "live")
        following = service.hub.follow(kinds, conversation=asked.conversation, persona=asked.persona)
        async with aclosing(following) as forms:
            async for form in forms:
                if form["kind"] != "turn":
                    yield form
                    continue
                address = form["conversation"]
                begins = form.get("event") == "turn_start"  # of a first message more is on record by then
                if address not in readable or (begins and not readable[address]):
                    readable[address] = not await is_private(service.store, address)
                if readable[address]:
                    yield form
                elif bare := _without_words(form):
                    yield bare

    return [
        operator_route("GET", "/api/studio/live", live, "List the talks in which something happens"),
        operator_route("GET", "/api/studio/events", events, "Follow what happens"),
    ]


def _without_words(form: Mapping[str, Any]) -> dict[str, Any] | None:
    if form["event"] not in _BARE:
        return None
    names = ("kind", "event", "conversation", "persona", "turn", "at", "step", *_BARE[form["event"]])
    return {name: form[name] for name in names} | {"hidden": True}


_QUEUE = "/api/studio/queue"
_DRAFTS = "/api/spots/drafts"


# The queue: drafts of the companion, and questions that personas ask people.
#
# A question is the asked person's to answer, and nobody else's: it is shown here, and answered where it was
# asked. Drafts are decided by the companion's own routes, where that addon is there.


class DraftDecision(Struct, forbid_unknown_fields=True):
    """The operator's word to whoever submitted a draft."""

    reason: Annotated[str, Meta(max_length=2_000)] = ""


class QuestionRow(Struct):
    """A question that waits for the person's answer.

    Attributes:
        arguments: what the tool would be given, as lines; "" where that is hidden.
        expires: when an answer no longer counts.
        person: who is asked; None where that is hidden.
    """

    id: str
    conversation: str
    persona: str
    person: Author | None
    tool: str
    does: str
    arguments: str
    expires: float
    hidden: bool


class QueueShown(Struct):
    """The queue. `drafts`: the companion is there, and tells of its drafts at `/api/studio/queue/drafts`."""

    questions: list[QuestionRow]
    drafts: bool


def queue_routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes of the screen, those of the companion's drafts among them."""
    of_drafts = [_of_operators(route) for route in service.routes if route.path.startswith(_DRAFTS)]

    async def queue(caller: Caller, asked: None) -> QueueShown:
        open_ones = service.engine.asked
        hidden = await hidden_among(service, {each.conversation for each in open_ones})
        rows = [
            QuestionRow(
                each.question.nonce,
                each.conversation,
                each.persona,
                None if each.conversation in hidden else each.person,
                each.question.tool,
                each.question.does,
                "" if each.conversation in hidden else each.question.arguments,
                each.expires,
                hidden=each.conversation in hidden,
            )
            for each in open_ones
        ]
        return QueueShown(rows, bool(of_drafts))

    return (operator_route("GET", _QUEUE, queue, "List what waits"), *of_drafts)


def _of_operators(route: AddonRoute) -> AddonRoute:
    """Return a route of the companion as one of the studio, where operators decide and name nobody else."""
    path, decides = _QUEUE + route.path.removeprefix("/api/spots"), route.request
    if route.method == "GET" or decides is None:
        return replace(route, path=path, scope="operate")

    async def answer(caller: Caller, asked: DraftDecision) -> Any:
        decided = route.answer(caller, decides(reason=asked.reason))
        return await decided if isinstance(decided, Awaitable) else None

    return replace(route, path=path, scope="operate", request=DraftDecision, answer=answer)
