"""How discord.py is connected, and every place in which it is patched."""
