"""Where people are: each channel turns its world into `Message` and performs acts. None knows the engine."""
