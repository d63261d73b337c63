"""Readers of the web for tools: pages, searches, wikis and moving pictures, each read into plain values."""
