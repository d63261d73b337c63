"""The door to Gemini: its own API, through its own package."""
