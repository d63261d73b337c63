"""A companion in an app: finds spots and tricks, keeps lists of tricks, submits spots that people approve."""
