"""torchrun's rendezvous where the scheduler says who meets."""
