"""Where moving pictures come from."""
