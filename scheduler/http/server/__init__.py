"""Connections before any route: their limits, what each caller may send, and the short way for discover_hosts."""
