"""Live updates: the cluster as server-sent events, and notification of waiting requests."""
