"""What routes share while the daemon runs: turns for computations, calls to the leader, batches of shards, time."""
