"""Takes text apart for a search: one form of it, its words and terms, and which text a question is about."""
