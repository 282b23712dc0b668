"""How much of the cluster each queue is entitled to. Knows numbers only: no jobs, nodes or slots in particular."""
