"""Tests of pixi/models."""
