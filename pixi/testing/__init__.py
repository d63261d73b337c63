"""Fakes that ship, for authors of addons and personas."""
