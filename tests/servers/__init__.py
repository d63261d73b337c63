"""Servers that stand at the far end of a real socket."""
