"""The protocols that events are told in: pure functions from events to bytes."""
