"""Personas as prompt files: reading them, finding them, naming what is wrong with them."""
