"""Folders of documents as knowledge: read, indexed, searched, and read out for a question."""
