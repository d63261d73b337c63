"""The command line: the only place that reads argv."""
