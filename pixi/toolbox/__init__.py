"""Functions that a persona can use: inline commands, tools, and the addons that bring them."""
