"""The door to chat completions: the API that most servers speak."""
