"""Wikis that run MediaWiki."""
