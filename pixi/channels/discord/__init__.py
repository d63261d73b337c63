"""Discord: a bot that hears messages, and channels in which a persona speaks."""
