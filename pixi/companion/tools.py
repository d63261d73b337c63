"""The companion's tools: find spots and tricks, make lists, submit spots, share them as cards."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import to_builtins
from pydantic import Field

from pixi.companion.cards import spot_card, spot_draft_confirmation, spots_list, trick_card, tricklist_card
from pixi.companion.data import (
    KINDS,
    MOST_TRICKS,
    CompanionData,
    CompanionError,
    Kind,
    NewDraft,
    NewTricklist,
    Spot,
    SpotSearch,
    Tricklist,
    TrickMatch,
    Uncertain,
)
from pixi.companion.maps import MapLink, resolve_map_link
from pixi.core.errors import OutcomeUnknown, ToolError
from pixi.core.spending import Rate
from pixi.fetching.web import Web
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context

SOURCE = "companion"
"""The source of the tools: a persona that names it has all of them."""

DRAFTS = "companion_drafts"
"""The source of the tools by which operators decide: a persona that names it has them."""

HOUR = 3_600.0

WRITES = ("create_tricklist", "create_spot_draft")
"""The tools that write, by whose names the record counts."""

_TYPE = f"one of {', '.join(KINDS)}"
_MOST_NEAREST = 3
_LISTED = 20  # drafts
_OF_SPOT = ("_id", "name", "type", "city", "state", "country", "rating", "description")


@dataclass(frozen=True, slots=True)
class Companion:
    """Parts that the tools work with.

    Attributes:
        data: where everything is kept.
        web: follows short links to maps.
        deep_links: scheme of the links into the host app, e.g. `trickbook`; "": there are none.
        writes_per_hour: how much may be written for one person, over all tools.
    """

    data: CompanionData
    web: Web
    deep_links: str = ""
    writes_per_hour: int = 5

    def setup(self, addon: Addon) -> None:
        """Register the tools."""
        self._register_searches(addon)
        self._register_writes(addon)
        self._register_sharing(addon)

    def _register_searches(self, addon: Addon) -> None:
        @addon.tool(source=SOURCE)
        async def search_spots(
            context: Context,
            *,
            query: Annotated[str, Field(description="name, city or other words; may be empty")] = "",
            type: Annotated[Kind | None, Field(description=_TYPE)] = None,  # noqa: A002 - its name for models
            latitude: Annotated[float | None, Field(description="of the middle, in degrees")] = None,
            longitude: Annotated[float | None, Field(description="of the middle, in degrees")] = None,
            withinKm: Annotated[float, Field(description="how far from the middle")] = 50.0,
            limit: Annotated[int, Field(ge=1, le=20)] = 5,
        ) -> dict[str, Any]:
            """Search spots by name, place or type, or round coordinates, and show them as a card.

            Use it when somebody asks about spots, parks, or places to skate or ride.
            """
            with told():
                search = SpotSearch(query, type, latitude, longitude, withinKm, limit)
                spots = await self.data.search_spots(search)
            found: dict[str, Any] = {"spots": [_spot(spot) for spot in spots], "count": len(spots)}
            return found | {"card": spots_list(spots, self.deep_links)} if spots else found

        @addon.tool(source=SOURCE)
        async def get_user_tricklists(
            context: Context, listName: Annotated[str, Field(description="a list of this name alone")] = ""
        ) -> dict[str, Any]:
            """Get the lists of tricks of the person who asks, with what they have landed."""
            with told():
                lists = await self.data.tricklists(context.message.author.id, listName)
            return {"tricklists": [_tricklist(each) for each in lists], "count": len(lists)}

        @addon.tool(source=SOURCE)
        async def search_trickipedia(
            context: Context,
            query: Annotated[str, Field(description="name of a trick, or a word of it")],
            category: Annotated[str, Field(description="skateboard, snowboard or bmx")] = "",
        ) -> dict[str, Any]:
            """Search tricks: how they go, how hard they are, or which there are."""
            with told():
                tricks = await self.data.search_tricks(query, category)
            return {"tricks": [to_builtins(trick) for trick in tricks], "count": len(tricks)}

    def _register_writes(self, addon: Addon) -> None:
        writes = Rate(self.writes_per_hour, HOUR)

        @addon.tool(source=SOURCE, writes=True, writes_per_person=writes)
        async def create_tricklist(
            context: Context,
            name: Annotated[str, Field(description="of the list")],
            tricks: Annotated[list[str], Field(description=f"names of tricks, {MOST_TRICKS} at most")],
            category: Annotated[str, Field(description="skateboard, snowboard or bmx")] = "skateboard",
        ) -> dict[str, Any]:
            """Make a list of tricks for the person who asks, from the names of tricks."""
            with told():
                if len(tricks) > MOST_TRICKS:
                    raise CompanionError(f"There are {len(tricks)} tricks: {MOST_TRICKS} is the most.")
                matches = await self._matched(tricks, category)
                matched = {match.trick.id: match for match in matches if match.trick is not None}
                unmatched = [match for match in matches if match.trick is None]
                if tricks and not matched:
                    raise CompanionError(f"None of these tricks is known. {_nearest(unmatched)}")
                new = NewTricklist(name, category, tuple(matched), context.persona.name)
                key = _key(context, "create_tricklist", name, tricks, category)
                made = await self.data.create_tricklist(context.message.author.id, new, key)
            counts = {"matchedTricks": len(matched), "requestedTricks": len(tricks)}
            card = tricklist_card(made, self.deep_links)
            result = _shortly(made) | counts | {"card": card}
            return result | {"unmatched": _nearest(unmatched)} if unmatched else result

        @addon.tool(source=SOURCE, writes=True, writes_per_person=writes)
        async def create_spot_draft(
            context: Context,
            *,
            name: Annotated[str, Field(description="of the spot")],
            type: Annotated[Kind, Field(description=_TYPE)],  # noqa: A002 - its name for models
            mapsUrl: Annotated[
                str, Field(description="a link of Google Maps, Apple Maps or OpenStreetMap")
            ] = "",
            latitude: Annotated[float | None, Field(description="where there is no link")] = None,
            longitude: Annotated[float | None, Field(description="where there is no link")] = None,
            city: str = "",
            state: str = "",
            country: str = "",
            description: str = "",
        ) -> dict[str, Any]:
            """Submit a new spot, which people look at before it is there for everybody.

            Use it when somebody shares a link to a map, or describes a spot that they want to add.
            """
            with told():
                link = await resolve_map_link(mapsUrl, self.web) if mapsUrl.strip() else MapLink("")
                if latitude is None and longitude is None:
                    latitude, longitude = link.latitude, link.longitude
                new = NewDraft(
                    name=name,
                    kind=type,
                    city=city,
                    state=state,
                    country=country,
                    latitude=latitude,
                    longitude=longitude,
                    maps_url=link.url,
                    description=description,
                    submitted_via=context.persona.name,
                )
                given = (name, type, mapsUrl, latitude, longitude, city, state, country, description)
                key = _key(context, "create_spot_draft", *given)
                draft = await self.data.create_draft(context.message.author.id, new, key)
            card = spot_draft_confirmation(draft)
            return {"_id": draft.id, "name": draft.name, "status": draft.status, "card": card}

    def _register_sharing(self, addon: Addon) -> None:
        @addon.tool(source=SOURCE)
        async def share_content(
            context: Context,
            type: Literal["spot", "tricklist", "trick"],  # noqa: A002 - its name for models
            id: Annotated[str, Field(description="the _id of it")],  # noqa: A002 - its name for models
        ) -> dict[str, Any]:
            """Show a spot, a trick, or a list of the person who asks as a card."""
            with told():
                card = None
                match type:
                    case "spot":
                        if spot := await self.data.spot(id):
                            card = spot_card(spot, self.deep_links)
                    case "trick":
                        if trick := await self.data.trick(id):
                            card = trick_card(trick, self.deep_links)
                    case "tricklist":
                        if tricklist := await self.data.tricklist(context.message.author.id, id):
                            card = tricklist_card(tricklist, self.deep_links)
                if card is None:
                    where = " among theirs" if type == "tricklist" else ""
                    raise CompanionError(
                        f"There is no {type} of this id{where}: search for it, and take the _id from there."
                    )
            return {"found": True, "card": card}

    async def _matched(self, names: Sequence[str], category: str) -> list[TrickMatch]:
        """Return the tricks that are meant, in their order: of the category, else of any."""
        found = list(await self.data.match_tricks(names, category))
        missing = [match.asked for match in found if match.trick is None]
        if category and missing:
            others = {match.asked: match for match in await self.data.match_tricks(missing)}
            found = [others.get(match.asked, match) if match.trick is None else match for match in found]
        return found


def register_deciding(addon: Addon, data: CompanionData) -> None:
    """Register the tools by which operators decide.

    A model only proposes: what is decided is shown to the operator who asks, with its arguments, and done
    once they press yes. Nobody else may use the tools, whatever they write.
    """

    @addon.tool(source=DRAFTS, allow="operators")
    async def list_spot_drafts(context: Context) -> dict[str, Any]:
        """List the spots that people submitted and that wait for a decision."""
        with told():
            found = await data.drafts(limit=_LISTED + 1)
        drafts = found[:_LISTED]
        shown = ("_id", "name", "type", "city", "state", "mapsUrl", "description", "submittedBy")
        listed = [{key: each[key] for key in shown} for each in map(to_builtins, drafts)]
        return {"drafts": listed, "count": len(drafts), "more": len(found) > _LISTED}

    @addon.tool(source=DRAFTS, allow="operators", writes=True, approval=True)
    async def decide_spot_draft(
        context: Context,
        id: Annotated[str, Field(description="the _id of the draft")],  # noqa: A002 - its name for models
        name: Annotated[str, Field(description="of the spot, as the list has it")],
        approve: Annotated[bool, Field(description="true: it becomes a spot; false: it is rejected")],
        reason: Annotated[str, Field(description="of a rejection, told to whoever submitted it")] = "",
    ) -> dict[str, Any]:
        """Approve or reject a submitted spot, when an operator says so."""
        with told():
            draft = await data.draft(id)
            if draft is None or draft.name != name:
                raise CompanionError(
                    "The _id and the name are not those of one draft: list the drafts first."
                )
            by = context.message.author.id
            decided = await (data.approve(id, by) if approve else data.reject(id, by, reason))
        return {"_id": id, "status": decided.status, "card": spot_draft_confirmation(decided)}


@contextmanager
def told() -> Iterator[None]:
    """Tell the model of what cannot be done, in the words of the error."""
    try:
        yield
    except Uncertain as error:
        raise OutcomeUnknown(str(error)) from error
    except CompanionError as error:
        raise ToolError(str(error)) from error


def _key(context: Context, tool: str, *given: object) -> str:
    """Return a key: the same for a call that is carried out again, also after a restart, and for no other."""
    message = context.message
    asked = json.dumps([message.conversation, message.id, tool, *given], default=str)
    return hashlib.sha256(asked.encode()).hexdigest()[:40]


def _nearest(unmatched: Sequence[TrickMatch]) -> str:
    """Return which names are no tricks, and what they may have meant."""
    told = []
    for match in unmatched:
        near = ", ".join(match.nearest[:_MOST_NEAREST])
        told.append(f"{match.asked[:60]!r} is not known{f' (nearest: {near})' if near else ''}.")
    return " ".join(told)


def _spot(spot: Spot) -> dict[str, Any]:
    shown = to_builtins(spot)
    far = {} if spot.distance_km is None else {"distanceKm": spot.distance_km}
    return {key: shown[key] for key in _OF_SPOT} | far


def _tricklist(tricklist: Tricklist) -> dict[str, Any]:
    shown = to_builtins(tricklist)
    return _shortly(tricklist) | {key: shown[key] for key in ("category", "tricks", "createdBy")}


def _shortly(tricklist: Tricklist) -> dict[str, Any]:
    return {"_id": tricklist.id, "name": tricklist.name, "trickCount": len(tricklist.tricks)}
