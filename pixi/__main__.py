"""`python -m pixi`, the same as the console script `pixi-persona`."""

import sys

from pixi.cli import main

if __name__ == "__main__":
    sys.exit(main())
