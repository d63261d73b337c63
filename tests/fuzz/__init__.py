"""Long random runs of the command language: `python -m tests.fuzz --seconds 60 --seed 1`."""
