"""The tests: they mirror the package, with the language, properties and end-to-end runs beside it."""
