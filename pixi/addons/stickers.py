"""The server's own stickers: `[STICKER: wave]`, where there are any."""

from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context


def setup(addon: Addon) -> None:
    """Register the command."""

    @addon.command(aliases=("stickers",), needs="stickers")
    async def sticker(context: Context, name: str) -> None:
        """a sticker of this server in the chat, by its name"""
        await context.sticker(name)

    @sticker.on_open
    async def typing(context: Context) -> None:
        await context.typing()
