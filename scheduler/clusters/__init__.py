"""Where workers run: each module implements the engine's Cluster port."""
