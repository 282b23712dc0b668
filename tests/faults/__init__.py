"""Fault simulation: random clusters, workloads and faults against the real engine and store, each from one number.

    python -m tests.faults --seeds 2000                   # many that nobody has tried, in parallel processes
    python -m tests.faults --seed 1234                    # one again, with its story
    python -m tests.faults --seed 1234 --record NAME      # make what fails smaller, and keep it in `cases`
    python -m tests.faults --case NAME                    # play that, whatever seeds mean by then

`plan` is a scenario as data; `draw` makes one of a seed from a random subset of all `features`; `run` plays it;
`inflict` does to the world what it says. Invariants are those of `tests.invariants`, checked after every tick; when
the faults stop, everything must settle (`settle`).

To add a feature: a function in `features` that draws its part into a scenario, and a line in the table of `draw`.
"""
