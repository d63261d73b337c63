"""Draw the pictures of the README and the docs: `make pictures`, or some of them: `make pictures ARGS=demo`.

The words are scripts, so that the pictures are the same each time. What they show is the real thing: the
engine, the program on a terminal, a bot on the loopback Discord, the pages in a browser.
"""

import asyncio
import sys
from pathlib import Path

from tests.pictures import demo, discord, pages, terminal

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
MAKERS = {"demo": demo.main, "chat": terminal.main, "discord": discord.main, "pages": pages.main}


def main(names: list[str]) -> None:
    """Draw those of the names, or all."""
    if unknown := {*names} - {*MAKERS}:
        sys.exit(f"There is no picture {', '.join(sorted(unknown))}; there are {', '.join(MAKERS)}.")
    for name in names or MAKERS:
        print(f"{name} ...", flush=True)
        asyncio.run(MAKERS[name](FOLDER))


main(sys.argv[1:])
