"""The messages that a guild holds already: their visibility, search and form."""
