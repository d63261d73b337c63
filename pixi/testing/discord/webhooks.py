"""Webhooks: doors through which messages come under any name."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pixi.testing.discord import writing
from pixi.testing.discord.calls import Json
from pixi.testing.discord.messages import FakeMessage, FileGiven, uploads
from pixi.testing.discord.users import User
from pixi.testing.discord.writing import MessageDraft

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel
    from pixi.testing.discord.world import World

MOST_PER_CHANNEL = 15


@dataclass(eq=False, slots=True)
class Webhook:
    """A webhook of a channel. `owner` made it; `application_id` is set where that is the bot.

    `face` is the author of what comes through it.
    """

    world: World
    id: int
    token: str
    channel: FakeChannel
    name: str
    owner: User | None
    application_id: int | None
    face: User
    avatar: str | None = None

    @property
    def url(self) -> str:
        """Where it is executed."""
        return f"{self.world.origin}/api/v10/webhooks/{self.id}/{self.token}"

    async def say(
        self,
        text: str,
        *,
        name: str | None = None,
        avatar_url: str | None = None,
        attachments: Sequence[FileGiven] = (),
        thread: FakeChannel | None = None,
    ) -> FakeMessage:
        """Something comes through it."""
        draft = MessageDraft(text, files=uploads(attachments))
        return writing.write(
            self.world,
            thread or self.channel,
            self.face,
            draft,
            webhook=self,
            name=name,
            avatar_url=avatar_url,
        )

    def delete(self) -> None:
        """It is taken away."""
        self.world.webhooks.pop(self.id, None)

    def payload(self, *, token: bool = True, user: bool = True) -> Json:
        """As clients see it."""
        payload: Json = {
            "id": str(self.id),
            "type": 1,
            "guild_id": str(self.channel.guild.id) if self.channel.guild else None,
            "channel_id": str(self.channel.id),
            "name": self.name,
            "avatar": self.avatar,
            "application_id": str(self.application_id) if self.application_id else None,
        }
        if user and self.owner:
            payload["user"] = self.owner.payload()
        if token:
            payload |= {"token": self.token, "url": self.url}
        return payload


def new_webhook(world: World, channel: FakeChannel, name: str, owner: User | None) -> Webhook:
    """Make a webhook."""
    hook_id = world.ids.next()
    face = User(hook_id, name, bot=True)
    application = world.application_id if owner is world.bot else None
    hook = Webhook(world, hook_id, secrets.token_urlsafe(48), channel, name, owner, application, face)
    world.webhooks[hook_id] = hook
    return hook


def hooks_of(world: World, channel: FakeChannel) -> list[Webhook]:
    """Those of a channel."""
    return [hook for hook in world.webhooks.values() if hook.channel is channel]
