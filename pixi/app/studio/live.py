"""What happens right now: one stream of events for all screens, and the talks that are or were active."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from pixi.app.studio.privacy import is_private, may_read, private_among
from pixi.core.routes import AddonRoute, Caller

if TYPE_CHECKING:
    from pixi.app.household import Household

_BARE = {
    "turn_start": ("model", "began"),
    "answered": ("model", "finish", "failed", "usage"),
    "state": ("state",),
    "turn_end": ("finish", "model", "steps", "usage", "cost", "seconds", "first_visible", "limits"),
}
"""What is told of a turn whose words are hidden: these events, and of each no more than this."""


class EventsQuery(Struct):
    """Which events.

    Attributes:
        conversation: only the turns of this one, from the last ones that are kept on.
        persona: only what is of this one's talks, by name.
        kinds: with commas between them; "": all.
    """

    conversation: Annotated[str, Meta(max_length=300)] = ""
    persona: Annotated[str, Meta(max_length=200)] = ""
    kinds: Annotated[str, Meta(max_length=200)] = ""


class LiveRow(Struct):
    """A talk in which something happened since the program started.

    Attributes:
        model: that was asked last.
        active: a reply is being written.
        private: it is in private.
        hidden: its words are not shown.
        turns: that began since the program started; `turn` is the number of the last.
        finish: how that ended; "": it is under way.
        began, last: seconds since the epoch: of the last turn, and of what happened last.
    """

    conversation: str
    persona: str
    model: str
    active: bool
    private: bool
    hidden: bool
    turns: int
    turn: int
    finish: str
    began: float
    last: float


class LiveTalks(Struct):
    """Such talks, the latest first."""

    talks: list[LiveRow]


def routes(house: "Household") -> Sequence[AddonRoute]:
    """Return the ways in to the screen; from now on the hub of the house looks on at the engine's turns."""
    house.engine.settings.observer = house.hub.observe

    async def live(caller: Caller, _: None) -> LiveTalks:
        private = await private_among(house.store, [talk.conversation for talk in house.hub.talks])
        hides = not house.settings.studio.private
        return LiveTalks(
            [
                LiveRow(
                    **talk.form(),
                    private=talk.conversation in private,
                    hidden=hides and talk.conversation in private,
                )
                for talk in house.hub.talks
            ]
        )

    def events(caller: Caller, asked: EventsQuery) -> AsyncGenerator[Mapping[str, Any], None]:
        return _events(house, caller, asked)

    return [
        AddonRoute(
            "GET",
            "/api/studio/live",
            live,
            "List the talks in which something happens",
            scope="operate",
            response=LiveTalks,
        ),
        AddonRoute(
            "GET",
            "/api/studio/events",
            events,
            "Follow what happens",
            scope="operate",
            request=EventsQuery,
            streams=True,
        ),
    ]


async def _events(
    house: "Household", caller: Caller, asked: EventsQuery
) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield what happens; words of a talk in private only where it alone was asked for, and may be read."""
    kinds = [kind for each in asked.kinds.split(",") if (kind := each.strip())]
    readable: dict[str, bool] = {}
    if asked.conversation:
        readable[asked.conversation] = await may_read(house, caller, asked.conversation, "live")
    following = house.hub.follow(kinds, conversation=asked.conversation, persona=asked.persona)
    async with aclosing(following) as forms:
        async for form in forms:
            if form["kind"] != "turn":
                yield form
                continue
            address = form["conversation"]
            begins = form.get("event") == "turn_start"  # of a first message more is on record by then
            if address not in readable or (begins and not readable[address]):
                readable[address] = not await is_private(house.store, address)
            if readable[address]:
                yield form
            elif bare := _without_words(form):
                yield bare


def _without_words(form: Mapping[str, Any]) -> dict[str, Any] | None:
    if form["event"] not in _BARE:
        return None
    names = ("kind", "event", "conversation", "persona", "turn", "at", "step", *_BARE[form["event"]])
    return {name: form[name] for name in names} | {"hidden": True}
