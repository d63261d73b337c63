"""Channels to people: each turns its world into `Message` and performs acts. None knows the engine."""
