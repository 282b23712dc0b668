"""State that routes share while the daemon runs: turns for computations, relay to the leader, shard batches, time."""
