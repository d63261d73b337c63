"""What people and models are told when there is no more to be used."""

from dataclasses import dataclass

from pixi.core.spending import Kind, Scope, next_month

_WHOSE = {"person": "one person", "channel": "one channel", "guild": "one server"}
_BY_WHOM = {"person": "you have", "channel": "this channel has", "guild": "this server has"}
_WHAT = {"messages": "messages that are answered", "tokens": "tokens", "writes": "changes"}


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    """Something is used up.

    Attributes:
        scope: whose; None: everybody's, which is the month's dollars.
        kind: what; None: dollars.
        limit: how much there was.
    """

    scope: Scope | None
    kind: Kind | None
    limit: float


def told_to_people(over: QuotaExceeded, day: int) -> str:
    """The notice, where the persona has no words of its own."""
    if over.scope is None or over.kind is None:
        return (
            "That is all for this month: what may be spent is used up. "
            f"It begins anew on {next_month(day).isoformat()} at 00:00 UTC."
        )
    return (
        f"That is all for today: {_BY_WHOM[over.scope]} used up what {_WHOSE[over.scope]} has in a day "
        f"({over.limit:,} {_WHAT[over.kind]}). It begins anew at 00:00 UTC."
    )


def told_to_model(over: QuotaExceeded, tool: str) -> str:
    """Why a tool that changes something is not carried out."""
    if over.scope is None:
        return f"{tool} was not carried out: what may be spent this month is used up. Tell them so."
    return (
        f"{tool} was not carried out: {_WHOSE[over.scope]} may have {over.limit:,} changes made in a day, "
        "and these were made. There are more from 00:00 UTC on. Tell them so, and go on without it."
    )
