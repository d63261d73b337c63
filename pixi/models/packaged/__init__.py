"""What the doors share that ask through a provider's own package."""
