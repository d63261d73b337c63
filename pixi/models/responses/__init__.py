"""The door to the Responses API, and to those who speak as it does."""
