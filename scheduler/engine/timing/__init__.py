"""Time in the daemon: clocks that pass evenly, notice of clocks that somebody set, and threads that repeat.

Lives here: the only modules of the engine that know of real time.
"""
