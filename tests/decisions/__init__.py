"""Digests of what the engine decides, to tell whether a change of the code has changed a decision.

    python -m tests.decisions record                      # after a decision was changed on purpose
    python -m tests.decisions compare                     # after code was moved or simplified
    python -m tests.decisions compare --only 'faults/*'   # a part of it
    python -m tests.decisions record FILE --events DIR    # keep the decisions as text beside their digests
    python -m tests.decisions compare FILE --against DIR  # show where they first differ from these

A case is a fault seed, a recorded fault scenario, or a workload that benchmarks play in virtual time (`cases`). What is
decided in it (`decided`) is every event that is stored, and every host list that workers are given.
"""
