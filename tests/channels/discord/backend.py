"""A service that only writes down what it is asked: what a bot's parts are tested against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pixi.channels.discord.backend import BotStatus
from pixi.core.channel import Channel, OpenChannel
from pixi.core.llm import Usage
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.spending import QuotaUsage, UsageEntry, UsageScope
from pixi.settings.rules import Rules
from pixi.store.kept import ChannelConfig, Tally, TurnRecord


@dataclass(slots=True)
class RecordingBackend:
    """A `pixi.channels.discord.backend.BotBackend`. What it is told can be read; what it answers can be set.

    Attributes:
        received: messages, with the channels they came by.
        asked: names of the other methods that were called, with their arguments.
    """

    rules: Rules = field(default_factory=Rules)
    personas: Mapping[str, Persona] = field(
        default_factory=lambda: {"pixi": Persona(name="Pixi", prompt="You are Pixi.", summon=("pixi",))}
    )
    default_persona: str = "pixi"
    models: Sequence[str] = ("small", "large")
    seeing: bool = False
    received: list[tuple[Message, Channel]] = field(default_factory=list)
    asked: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    places: dict[str, ChannelConfig] = field(default_factory=dict)
    records: dict[str, TurnRecord] = field(default_factory=dict)
    past: dict[str, list[TurnRecord]] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    changed: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    stops: bool = True
    unfinished: tuple[str, ...] = ()
    month: UsageEntry = field(default_factory=UsageEntry)
    month_dollars: float | None = None
    searches: tuple[UsageEntry, ...] = ()
    shares: tuple[QuotaUsage, ...] = ()

    @property
    def engine(self) -> Any:
        """What a bot asks of the engine is written down here, too."""
        return self

    def obey(self, **rules: Any) -> None:
        """Change the rules, as an operator does while the bot runs."""
        self.rules = replace(self.rules, **rules)

    @property
    def store(self) -> Any:
        """What it keeps, for the asking."""
        return self

    def sees(self, channel: str) -> bool:
        return self.seeing

    async def receive(self, message: Message, channel: Channel) -> None:
        known = {(each.conversation, each.id) for each, _ in self.received}
        if (message.conversation, message.id) not in known:
            self.received.append((message, channel))

    async def edit(self, conversation: str, message_id: str, text: str) -> None:
        self.asked.append(("edit", (conversation, message_id, text)))

    async def withdraw(self, conversation: str, message_id: str) -> None:
        self.asked.append(("withdraw", (conversation, message_id)))

    async def stop(self, conversation: str) -> bool:
        self.asked.append(("stop", (conversation,)))
        return self.stops

    async def reset(self, conversation: str) -> None:
        self.asked.append(("reset", (conversation,)))

    async def resume(self, prefix: str, open_channel: OpenChannel) -> None:
        self.asked.append(("resume", ()))
        for address in self.unfinished:
            self.asked.append(("opened", (address, await open_channel(address))))

    async def drain(self, seconds: float) -> None:
        self.asked.append(("drain", (seconds,)))

    def place(self, channel: str) -> ChannelConfig:
        return self.places.get(channel, ChannelConfig())

    async def set_place(self, channel: str, place: ChannelConfig) -> None:
        self.places[channel] = place

    async def turn_behind(self, prefix: str, platform_id: str) -> TurnRecord | None:
        return self.records.get(platform_id)

    async def turns(self, conversation: str, limit: int) -> Sequence[TurnRecord]:
        return self.past.get(conversation, [])[-limit:]

    async def forget(self, person: str) -> int:
        self.asked.append(("forget", (person,)))
        return self.changed

    async def export(self, person: str) -> dict[str, Any]:
        self.asked.append(("export", (person,)))
        return self.kept

    async def status(self, payer: UsageScope) -> BotStatus:
        self.asked.append(("status", (payer,)))
        return BotStatus(
            version="0",
            up_seconds=90.0,
            talking=1,
            today=Tally(turns=2, usage=Usage(), cost=0.5),
            month=self.month,
            month_dollars=self.month_dollars,
            shares=self.shares,
            searches=self.searches,
        )

    async def watermarks(self, prefix: str) -> dict[str, int]:
        return dict(self.marks)

    async def mark(self, watermarks: Mapping[str, int]) -> None:
        for channel, message_id in watermarks.items():
            self.marks[channel] = max(message_id, self.marks.get(channel, 0))
