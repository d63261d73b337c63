"""Keeps what is fetched within limits, and out of networks that are not public."""
