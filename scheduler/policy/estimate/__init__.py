"""Estimates of a job: its speed, its work left, and the work that stopping or shrinking it loses.

Lives here: the speeds by which jobs grow and shrink (`Job.speed` has the plain means), and everything that reads
declared durations and saved work. Nothing here knows nodes or other
jobs: each function judges one job by itself.
"""
