"""The commands that every persona knows: send, note, react."""

from pixi.core.language import BUILT_IN, NOTE, REACT, SEND
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context


def setup(addon: Addon) -> None:
    """Register them."""

    @addon.command(aliases=BUILT_IN[SEND], by_acts=True, makes="message")
    async def send(context: Context, message: str, *, to: int = 0) -> None:
        """a message in the chat; write several for several messages, none to stay silent"""
        await context.send(message, to=to)

    @send.on_open
    async def typing(context: Context) -> None:
        await context.typing()

    @addon.command(aliases=BUILT_IN[NOTE], by_acts=True, private=True, makes="note")
    async def note(context: Context, thought: str) -> None:
        """a private thought: how you feel, what you want to do; nobody else reads it"""
        await context.note(thought)

    @addon.command(aliases=BUILT_IN[REACT], by_acts=True, makes="reaction")
    async def react(context: Context, emoji: str, *, to: int = 0) -> None:
        """an emoji put on the message that you answer"""
        await context.react(emoji, to=to)
