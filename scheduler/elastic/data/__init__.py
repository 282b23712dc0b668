"""Data in shards from the scheduler's queue."""
