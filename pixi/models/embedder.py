"""The protocol of models that turn text into vectors, near each other where the meaning is."""

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """A model of meanings. `embed` raises `ModelError` alone; retries are its own matter."""

    @property
    def name(self) -> str:
        """Names model and server: vectors of the same name can be compared with each other."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text, in order, all with as many dimensions."""
        ...

    async def close(self) -> None:
        """Give back connections. Calling it twice does no harm."""
        ...
