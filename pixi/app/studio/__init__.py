"""The studio: what operators see and do on pages of the server, as routes over the household."""
