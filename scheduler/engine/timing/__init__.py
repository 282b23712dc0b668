"""Time in the daemon: clocks that pass evenly, detection of clocks that were set, and threads that repeat.

Lives here: the only modules of the engine that know of real time.
"""
