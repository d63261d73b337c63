"""A channel on Discord, as a place where one persona acts."""

from typing import Protocol

import discord


class Recent(Protocol):
    """What was heard lately, as far as speaking depends on it."""

    def latest_by_others(self, channel_id: int) -> int:
        """The id of the last message there that the bot did not post; 0: unknown."""
        ...

    def author_of(self, channel_id: int, message_id: int) -> discord.abc.Snowflake | None:
        """Who wrote a message there, where that is remembered."""
        ...
