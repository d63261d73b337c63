"""Long random runs of the command language: `python -m tests.fuzz --count 1000000 --seed 1`."""
