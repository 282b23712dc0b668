"""Time in the daemon: clocks that pass evenly, detection of clocks that were set, threads that repeat, and pauses of
the garbage collector.

Lives here: the only modules of the engine that know of real time.
"""
