"""Estimates of a job: its speed, its work left, and the work that stopping or shrinking it loses.

Lives here: everything that reads measured speeds, declared durations and saved work. Nothing here knows nodes or other
jobs: each function judges one job by itself.
"""
