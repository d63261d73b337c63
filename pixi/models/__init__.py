"""The only door to model APIs. Everything behind it is the one protocol `Model`."""
