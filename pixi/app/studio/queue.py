"""What waits for somebody's yes: drafts of the companion, and questions that personas ask people.

A question is the asked person's to answer, and nobody else's: it is shown here, and answered where it was
asked. Drafts are decided by the companion's own routes, where that addon is there.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from pixi.app.studio.privacy import hidden_among
from pixi.app.studio.rows import AuthorRow, author_row, readable
from pixi.core.routes import AddonRoute, Caller

if TYPE_CHECKING:
    from pixi.app.household import Household

_QUEUE = "/api/studio/queue"
_DRAFTS = "/api/spots/drafts"


class DraftDecision(Struct, forbid_unknown_fields=True):
    """What is told to whoever submitted a draft."""

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
    person: AuthorRow | None
    tool: str
    does: str
    arguments: str
    expires: float
    hidden: bool


class QueueShown(Struct):
    """What waits. `drafts`: the companion is there, and tells of its drafts at `/api/studio/queue/drafts`."""

    questions: list[QuestionRow]
    drafts: bool


def routes(house: "Household") -> Sequence[AddonRoute]:
    """Return the routes of the screen, those of the companion's drafts among them."""
    of_drafts = [_of_operators(route) for route in house.routes if route.path.startswith(_DRAFTS)]

    async def queue(caller: Caller, asked: None) -> QueueShown:
        open_ones = house.engine.asked
        hidden = await hidden_among(house, {each.conversation for each in open_ones})
        rows = [
            QuestionRow(
                each.question.nonce,
                readable(each.conversation),
                readable(each.persona),
                None if each.conversation in hidden else author_row(each.person),
                each.question.tool,
                readable(each.question.does),
                "" if each.conversation in hidden else readable(each.question.arguments),
                each.expires,
                hidden=each.conversation in hidden,
            )
            for each in open_ones
        ]
        return QueueShown(rows, bool(of_drafts))

    return (AddonRoute("GET", _QUEUE, queue, "List what waits", "operate", None, QueueShown), *of_drafts)


def _of_operators(route: AddonRoute) -> AddonRoute:
    """A route of the companion as one of the studio, where operators decide and name nobody else."""
    path, decides = _QUEUE + route.path.removeprefix("/api/spots"), route.request
    if route.method == "GET" or decides is None:
        return replace(route, path=path, scope="operate")

    async def answer(caller: Caller, asked: DraftDecision) -> Any:
        decided = route.answer(caller, decides(reason=asked.reason))
        return await decided if isinstance(decided, Awaitable) else None

    return replace(route, path=path, scope="operate", request=DraftDecision, answer=answer)
