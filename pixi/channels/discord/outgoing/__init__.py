"""From what a persona says to what is posted on Discord, and under which name and picture."""
