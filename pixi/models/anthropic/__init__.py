"""The door to Anthropic: its Messages API, through its own package."""
