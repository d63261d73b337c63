"""Build the site of the docs into build/docs/site: `make docs`. It opens as a file, too.

The pages are those of docs/, with BENCHMARKS.md and CHANGELOG.md beside them. They stand in the order of
docs/README.md. Zensical turns them into pages; it asks for nothing from the network.
"""

import subprocess
import sys
from pathlib import Path

from tests.site.staging import ROOT, stage


def build(folder: Path) -> Path:
    """Build the site below a folder, which is made anew; return where it is.

    Raises:
        CalledProcessError: a link leads nowhere, or the builder failed otherwise.
    """
    config = stage(folder)
    words = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(config)]
    subprocess.run(words, check=True)
    return folder / "site"


if __name__ == "__main__":
    index = build(ROOT / "build" / "docs") / "index.html"
    print(f"Open {index.relative_to(ROOT)}.")
