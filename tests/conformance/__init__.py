"""The command language, as a table of raw replies and what a person would take each of them for."""
