"""The bodies and parameters of requests, with their limits, and the views that answers are made of."""
