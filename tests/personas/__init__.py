"""Tests of pixi/personas."""
