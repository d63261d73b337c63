"""Deciding about drafts in a chat: for operators, each time with a yes by a button."""

from typing import Annotated, Any

from pydantic import Field

from pixi.companion.cards import spot_draft_confirmation
from pixi.companion.data import CompanionData, CompanionError
from pixi.companion.tools import told
from pixi.companion.wire import to_plain
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context

SOURCE = "companion_drafts"
"""The source of the tools: a persona that names it has them."""

_LISTED = 20


def register_deciding(addon: Addon, data: CompanionData) -> None:
    """Register the tools by which operators decide.

    A model only proposes: what is decided is shown to the operator who asks, with its arguments, and done
    once they press yes. Nobody else may use the tools, whatever they write.
    """

    @addon.tool(source=SOURCE, allow="operators")
    async def list_spot_drafts(context: Context) -> dict[str, Any]:
        """List the spots that people submitted and that wait for a decision."""
        with told():
            found = await data.drafts(limit=_LISTED + 1)
        drafts = found[:_LISTED]
        shown = ("_id", "name", "type", "city", "state", "mapsUrl", "description", "submittedBy")
        plain = [to_plain(draft) for draft in drafts]
        return {
            "drafts": [{key: each[key] for key in shown} for each in plain],
            "count": len(drafts),
            "more": len(found) > _LISTED,
        }

    @addon.tool(source=SOURCE, allow="operators", writes=True, approval=True)
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
