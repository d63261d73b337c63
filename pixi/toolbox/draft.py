"""The argument of a command while it is being written, for what is done ahead of the command."""

import asyncio


class Draft:
    """What is there of an argument by now. One task may wait for it.

    Attributes:
        text: so much of it.
        whole: that is all.
    """

    __slots__ = ("_changed", "text", "whole")

    def __init__(self) -> None:
        self.text = ""
        self.whole = False
        self._changed = asyncio.Event()

    def grow(self, text: str) -> None:
        """A piece more of it was written."""
        self.text += text
        self._changed.set()

    def end(self, argument: str) -> None:
        """All of it was written: this is it."""
        self.text, self.whole = argument, True
        self._changed.set()

    async def settled(self, quiet: float) -> str:
        """Wait until it is whole, or something is there and has not grown for so many seconds; gives it."""
        while not self.whole:
            self._changed.clear()
            try:
                async with asyncio.timeout(quiet if self.text.strip() else None):
                    await self._changed.wait()
            except TimeoutError:
                break
        return self.text

    async def ended(self) -> str:
        """Wait until it is whole; gives it."""
        while not self.whole:
            self._changed.clear()
            await self._changed.wait()
        return self.text
