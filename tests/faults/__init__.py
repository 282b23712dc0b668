"""Fault simulation: random clusters, workloads and faults against the real engine and store, each from one number.

    python -m tests.faults --seeds 2000          # many, in parallel processes
    python -m tests.faults --seed 1234           # one again, with its story

`plan` is a seed as data, `draw` makes it, `run` plays it, `inflict` does to the world what the plan says. Invariants
are those of `tests.invariants`, checked after every tick; when the faults stop, everything must settle (`settle`).
"""
