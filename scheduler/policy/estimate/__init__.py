"""How fast jobs are, how much they have left, and what stopping or shrinking them loses.

Lives here: everything that reads measured speeds, declared durations and saved work. Nothing here knows nodes or other
jobs: each function judges one job by itself.
"""
