"""Fakes that ship, for those who write addons and personas: a model with a script, a channel that records."""

from pixi.core.llm import ToolCall
from pixi.testing.fakes import RecordingChannel, ScriptedModel

__all__ = ["RecordingChannel", "ScriptedModel", "ToolCall"]
