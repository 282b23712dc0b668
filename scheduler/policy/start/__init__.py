"""Which waiting jobs start, in which order and on which nodes, and why the others wait.

Lives here: the pass over the queue, backfill and its promise, and the reasons for waiting.
"""
