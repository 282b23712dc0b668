"""What the engine reads and writes: the lease, the world at its start, and the commit of each tick."""
