"""Talks on a terminal: line by line on a pipe, and on a screen where somebody sits."""
