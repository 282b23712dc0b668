"""The bodies and parameters of requests, with their limits, and the views in answers."""
