"""The commands of `sched`, one module for each noun."""
