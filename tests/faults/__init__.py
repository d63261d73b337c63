"""What can go wrong, and the promise that is kept each time."""
