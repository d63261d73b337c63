"""Looks at everything that a start needs, and says what is fine and what to mend."""
