"""Pixi as an MCP server: its databases and personas, for other programs."""
