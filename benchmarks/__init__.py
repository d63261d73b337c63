"""The figures of the project: each a command that prints its ratio with a peer and a floor in one run."""
