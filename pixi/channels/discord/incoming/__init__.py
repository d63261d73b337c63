"""From a message on Discord to a message for the engine: who is meant, what was said, what was missed."""
