"""Searching the web by ourselves."""
