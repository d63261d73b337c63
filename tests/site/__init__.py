"""The pages of docs/ as a site that needs no host but its own."""
