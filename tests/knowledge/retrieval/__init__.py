"""Tests of the retrieval agent."""
