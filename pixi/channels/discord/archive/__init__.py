"""What was written in a guild before: who may know it, how it is found, how it is told."""
