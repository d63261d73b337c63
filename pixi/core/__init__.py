"""The pure heart: text and values in, events out. No await, no open, no clock."""
