"""The HTTP server: personas over the web, for programs and pages."""
