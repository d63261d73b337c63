"""Kills the bot at every moment that matters, starts it again, and counts what was lost or said twice."""
