"""The only door to addresses that strangers may name, within limits, and never into private networks."""
