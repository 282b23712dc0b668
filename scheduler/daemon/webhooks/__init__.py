"""Telling others of events by HTTP, each at least once and in their order; only the leader does."""
