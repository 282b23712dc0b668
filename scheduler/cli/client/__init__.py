"""The connection to the daemon, and what commands ask over it."""
