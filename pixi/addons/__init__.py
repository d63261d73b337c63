"""The built-in addons, which come through the same door as anybody's."""
