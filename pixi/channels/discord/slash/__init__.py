"""The slash commands, in seven languages."""
