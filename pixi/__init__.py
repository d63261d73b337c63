"""Pixi: a persona chatbot engine with inline streaming commands."""
