"""Who belongs to the job's group: the line to the scheduler, and agreement without it.

Standard library only, so that programs without torch can use it.
"""
