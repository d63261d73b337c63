"""The only door to pages, pictures and services of the web that strangers or their words may name."""
