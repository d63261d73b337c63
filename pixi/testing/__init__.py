"""Fakes that ship, for those who write addons and personas: a model with a script, a channel that records."""

from pixi.testing.recording_channel import RecordingChannel
from pixi.testing.scripted_model import ScriptedModel

__all__ = ["RecordingChannel", "ScriptedModel"]
