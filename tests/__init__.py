"""The tests; a package, so that they share their world builder by name."""
