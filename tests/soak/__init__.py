"""Lets a bot talk for an hour with a town that gives it no rest: nothing may grow, nothing be lost."""
