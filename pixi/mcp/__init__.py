"""The only door to MCP servers."""
