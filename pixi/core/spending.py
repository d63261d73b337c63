"""Limits and records of use, by day and for whom: values alone, without a clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.llm import Finished, Prices, Request, Usage, estimate_all, estimate_tools

TOOL_SECONDS = 20.0
"""Time limit of a tool or a command where nobody set one."""

_ANSWER_SHARE, _ANSWER_SECONDS = 1 / 3, 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one turn. Over one of them the stream is closed; what was performed stands.

    Attributes:
        commands: how many commands one reply may perform.
        messages: how many messages one reply may send.
        reactions: how many reactions one reply may put.
        argument_characters: how long the argument of a command may be.
        reply_characters: how long a reply may be, as the model writes it.
        tools: how many tools the model is offered; if a persona has more, those that the talk is about.
        tool_steps: in how many rounds the model may call tools; then one round follows without tools.
        tool_calls: how many calls one such round may make; further calls get an error.
        tool_seconds: how long a tool or a command may take; without it 20 seconds, but a tool that lets a
            model read documents may use the rest of the turn, except for a reserve to answer in.
        tool_result_bytes: how many bytes of a tool's result the model reads; the rest is cut.
        seconds: how long a turn may take.
        restarts: how often a reply begins anew because another message came before anything was said.
    """

    commands: Annotated[int, Meta(ge=1, le=1_000)] = 30
    messages: Annotated[int, Meta(ge=1, le=1_000)] = 10
    reactions: Annotated[int, Meta(ge=0, le=1_000)] = 5
    argument_characters: Annotated[int, Meta(ge=1, le=1_000_000)] = 4_000
    reply_characters: Annotated[int, Meta(ge=1, le=10_000_000)] = 40_000
    tools: Annotated[int, Meta(ge=1, le=1_000)] = 40
    tool_steps: Annotated[int, Meta(ge=0, le=1_000)] = 6
    tool_calls: Annotated[int, Meta(ge=1, le=1_000)] = 16
    tool_seconds: Annotated[float, Meta(ge=0.01, le=3_600)] | None = None
    tool_result_bytes: Annotated[int, Meta(ge=64, le=100_000_000)] = 32_768
    seconds: Annotated[float, Meta(ge=0.1, le=86_400)] = 180.0
    restarts: Annotated[int, Meta(ge=0, le=100)] = 3

    def seconds_for(self, own: float | None, left: float) -> float:
        """Return how many seconds a tool may take.

        Args:
            own: the tool's own limit; None: it has none, and is told how long it may take.
            left: seconds until the turn ends.
        """
        if own is not None:
            return min(own, self.tool_seconds or TOOL_SECONDS)
        # The model still has to read the result, and to answer.
        allowed = left - min(left * _ANSWER_SHARE, _ANSWER_SECONDS)
        return allowed if self.tool_seconds is None else min(self.tool_seconds, allowed)


RateKey = tuple[str, ...]
"""Key of a count of uses, e.g. `("draw", "person", "discord:7")`."""


class Rate(Struct, frozen=True):
    """At most `times` uses within any stretch of `seconds`.

    Raises:
        ConfigError: one of them is not above 0.
    """

    times: int
    seconds: float

    def __post_init__(self) -> None:
        if self.times < 1 or not 0 < self.seconds < float("inf"):
            raise ConfigError(f"Rate({self.times}, {self.seconds}): write e.g. Rate(3, 60) for 3 a minute.")


DAY_SECONDS = 86_400
CHARACTERS_PER_TOKEN = 3
"""Estimate for a reply that nobody counted."""

SEARCH = "web search"
"""Beginning of the names of the ways to search the web; each is recorded under its own."""

_FIRST_DAY = date(1970, 1, 1).toordinal()

Count = Callable[[str, Usage, Prices | None], None]
"""Takes what a call of a model used: the model's name, the tokens, and what they cost (None: not known)."""

Part = Literal["day", "person", "channel", "guild", "model"]
"""Dimension by which use is added up."""

Scope = Literal["person", "channel", "guild"]
"""Scope of a daily limit."""

SCOPES: tuple[Scope, ...] = ("guild", "channel", "person")
"""The widest first."""

Kind = Literal["messages", "tokens", "writes"]
"""Kind of limited use."""

KINDS: tuple[Kind, ...] = ("messages", "tokens", "writes")


def day_of(seconds: float) -> int:
    """Return the day of a moment (seconds since the epoch), counted from 1970, in UTC."""
    return int(seconds // DAY_SECONDS)


def date_of(day: int) -> date:
    """Return the date of a day."""
    return date.fromordinal(_FIRST_DAY + day)


def first_of_month(day: int) -> int:
    """Return the first day of the month in which a day lies."""
    return day - date_of(day).day + 1


def next_month(day: int) -> date:
    """Return the first day after the month in which a day lies."""
    today = date_of(day)
    return date(today.year + today.month // 12, today.month % 12 + 1, 1)


class UsageScope(Struct, frozen=True):
    """Account of a use: who asked, and where; "" for nobody and nowhere.

    Attributes:
        person: id of the author.
        channel: address of the channel, whoever of the personas talks there; a thread counts to its parent.
        guild: as a `Venue` has it.
    """

    person: str = ""
    channel: str = ""
    guild: str = ""

    def name(self, scope: Scope) -> str:
        """Return the id in a scope."""
        name: str = getattr(self, scope)
        return name


class UsageEntry(Struct, frozen=True):
    """Use on a day, by somebody somewhere on a model; or a sum of such.

    Attributes:
        day: counted from 1970, in UTC.
        person: id of the author who asked; "" for whoever was forgotten, and where nobody in particular did.
        channel, guild: where they asked; "" where that is nowhere, and in a sum over all of them.
        turn: the turn in which it was used; 0: in none.
        messages: of the person, that were answered.
        writes: of tools that change something.
        unpriced: tokens and searches whose price is not known.
        cost: of the others, in dollars.
    """

    day: int = 0
    person: str = ""
    channel: str = ""
    guild: str = ""
    model: str = ""
    turn: int = 0
    messages: int = 0
    writes: int = 0
    usage: Usage = field(default_factory=Usage)
    unpriced: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Read and written. Cached ones are among those that were read."""
        return self.usage.prompt_tokens + self.usage.completion_tokens

    @property
    def is_nothing(self) -> bool:
        """True if nothing was used."""
        return not (self.messages or self.writes or self.tokens or self.usage.searches)

    def __add__(self, other: "UsageEntry") -> "UsageEntry":
        """Add another use, on the account of the first."""
        return replace(
            self,
            messages=self.messages + other.messages,
            writes=self.writes + other.writes,
            usage=self.usage + other.usage,
            unpriced=self.unpriced + other.unpriced,
            cost=self.cost + other.cost,
        )

    def __sub__(self, other: "UsageEntry") -> "UsageEntry":
        """Subtract another use."""
        usage = other.usage
        less = Usage(-usage.prompt_tokens, -usage.cached_tokens, -usage.completion_tokens, -usage.searches)
        return self + UsageEntry(
            messages=-other.messages,
            writes=-other.writes,
            usage=less,
            unpriced=-other.unpriced,
            cost=-other.cost,
        )

    def amount(self, kind: Kind) -> int:
        """Return how much was used of what is limited."""
        amount: int = getattr(self, kind)
        return amount


class Allowance(Struct, frozen=True):
    """Daily limits of a person, a channel or a guild; None: as much as they like."""

    messages: int | None = None
    tokens: int | None = None
    writes: int | None = None

    @property
    def is_bounded(self) -> bool:
        """True if there is a limit."""
        return any(self.of(kind) is not None for kind in KINDS)

    def of(self, kind: Kind) -> int | None:
        """Return how much may be used of one kind."""
        limit: int | None = getattr(self, kind)
        return limit


class Budgets(Struct, frozen=True):
    """The limits of use.

    Attributes:
        person, channel, guild: in a day, by each of them.
        month_dollars: in a month, by everybody together; None: as much as it costs.
    """

    person: Allowance = Allowance()
    channel: Allowance = Allowance()
    guild: Allowance = Allowance()
    month_dollars: float | None = None

    def of(self, scope: Scope) -> Allowance:
        """Return the daily limits of a scope."""
        allowance: Allowance = getattr(self, scope)
        return allowance


class QuotaUsage(Struct, frozen=True):
    """Use of a daily limit: by whom, of what, and how much there is."""

    scope: Scope
    kind: Kind
    used: int
    limit: int


class UsageReport(Struct, frozen=True):
    """Use by everybody today and in this month, and the dollars that a month may cost (None: any).

    `searches`: of the month, each way of searching the web by itself.
    """

    today: UsageEntry
    month: UsageEntry
    month_dollars: float | None
    searches: tuple[UsageEntry, ...] = ()


def way_of_searching(name: str) -> str:
    """Return what the searches of one way are recorded as, e.g. `web search (duckduckgo)`."""
    return f"{SEARCH} ({name})"


def search_prices(dollars: float | None) -> Prices | None:
    """Return the prices of a way of searching, by those of one search; None: not known."""
    return None if dollars is None else Prices(0.0, 0.0, 0.0, dollars)


def spent_on(payer: UsageScope, model: str, usage: Usage, prices: Prices | None) -> UsageEntry:
    """Return the ledger's entry for a call of a model, on somebody's account; its day is not set."""
    counted = usage.prompt_tokens + usage.completion_tokens + usage.searches
    return UsageEntry(
        person=payer.person,
        channel=payer.channel,
        guild=payer.guild,
        model=model,
        usage=usage,
        unpriced=counted if prices is None else 0,
        cost=0.0 if prices is None else prices.cost(usage),
    )


def counted(finished: Finished, request: Request, characters: int, *, failed: bool) -> Finished:
    """Return how a call of a model ended, with its use; estimated where the server did not count it.

    Args:
        finished: how it ended, as far as that was heard.
        request: what it was asked.
        characters: how many came back.
        failed: it broke off. Of a request that was refused, nothing was used.
    """
    if finished.usage != Usage() or (failed and not characters):
        return finished
    prompt = estimate_all(request.lines) + estimate_tools(request.tools)
    return replace(finished, usage=Usage(prompt, 0, -(-characters // CHARACTERS_PER_TOKEN)))


def as_row(row: UsageEntry, by: Part) -> dict[str, object]:
    """Return a row of recorded use for programs, under the part that it is added up by."""
    key = date_of(row.day).isoformat() if by == "day" else getattr(row, by) or None
    return {
        by: key,
        "messages": row.messages,
        "writes": row.writes,
        "prompt_tokens": row.usage.prompt_tokens,
        "cached_tokens": row.usage.cached_tokens,
        "completion_tokens": row.usage.completion_tokens,
        "searches": row.usage.searches,
        "unpriced_tokens": row.unpriced,
        "cost": round(row.cost, 9),
    }


def every_day(rows: Sequence[UsageEntry], first: int, last: int) -> list[UsageEntry]:
    """Return one entry for each day in order, also for those on which nothing was used."""
    known = {row.day: row for row in rows}
    return [known.get(day, UsageEntry(day=day)) for day in range(first, last + 1)]


def summed_up(when: str, spent: UsageEntry) -> str:
    """Write one sentence of all that was used."""
    usage = spent.usage
    searches = f"{how_many(usage.searches, 'web search', 'web searches')}, " if usage.searches else ""
    return (
        f"{when}: {how_many(spent.messages, 'message')}, {short(usage.prompt_tokens)} tokens read "
        f"({share(spent)} cached), {short(usage.completion_tokens)} written, "
        f"{how_many(spent.writes, 'change')} by tools, {searches}{cost_of(spent)}."
    )


def of_the_month(month: UsageEntry, stop: float | None) -> str:
    """Write the cost of the month, and its limit in dollars; None: there is no limit."""
    if stop is None:
        return f"This month: {cost_of(month)}, with no limit (month_dollars)."
    return f"This month: {cost_of(month)} of ${stop:,.2f} ({month.cost / stop:.0%})."


def of_searches(ways: Sequence[UsageEntry]) -> str:
    """Write what each way of searching the web came to in the month, a line each; "" where there was none."""
    return "\n".join(f"This month: {way.usage.searches:,} × {way.model}, {cost_of(way)}." for way in ways)


def short(count: int) -> str:
    """Write a number short, e.g. `12.3k`."""
    for unit, size in (("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)):
        if count >= 10 * size or (unit != "k" and count >= size):
            return f"{count / size:.3g}{unit}" if count < 999.5 * size else f"{count / size:,.0f}{unit}"
    return f"{count:,}"


def share(row: UsageEntry) -> str:
    """Write the share of prompt tokens that came out of a cache, e.g. `80%`."""
    read = row.usage.prompt_tokens
    return f"{min(row.usage.cached_tokens, read) / read:.0%}" if read else "–"


def dollars(cost: float) -> str:
    """Write dollars; small sums to the first two digits that count."""
    if 0 < cost < 0.0001:
        return "<$0.0001"
    return f"${cost:.2g}" if 0 < cost < 0.095 else f"${cost:,.2f}"


def cost_of(row: UsageEntry) -> str:
    """Write what was spent; with a question mark where not all of it is known."""
    if row.unpriced and not row.cost:
        return "?"
    return f"{dollars(row.cost)}{'+?' if row.unpriced else ''}"


def how_many(number: int, thing: str, things: str = "") -> str:
    """Write a number with its noun: `1 message`, `2 messages`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def some(names: Sequence[str], most: int = 5) -> str:
    """Write names on one line: the first few of them."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
