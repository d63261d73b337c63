"""The only door to the database: what arrived, what was said, what was done."""
