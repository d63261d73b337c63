"""An addon: one tool, and one inline command."""

from pixi import ToolError

GRAMS_IN_A_CUP = {"flour": 125, "sugar": 200, "butter": 227}


def setup(addon):
    """Register what the addon brings."""

    @addon.tool
    async def weigh(context, cups: float, of: str) -> str:
        """Turn cups into grams.

        Args:
            cups: how many.
            of: flour, sugar or butter.
        """
        if of not in GRAMS_IN_A_CUP:
            raise ToolError(f"The scales know {', '.join(GRAMS_IN_A_CUP)}, not {of!r}.")
        return f"{cups * GRAMS_IN_A_CUP[of]:.0f} g"

    @addon.command
    async def cheer(context, whom):
        """cheer somebody on"""
        await context.send(f"👏 {whom} 👏")
