"""The pure heart: text and values in, events out, and the ports to the outside. No open, no clock."""
