"""The simulator: the scheduler's own engine, store and planner in virtual time, with jobs that only pretend to work.

A workload (`workload.py`, from files or made up) runs on a simulated cluster (`nodes.py`) in `run.py`; what came of
it is a `Result`, which `summary.py` turns into numbers and `picture.py` into a picture.
"""
