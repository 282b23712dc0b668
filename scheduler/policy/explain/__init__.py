"""Why the planner decided as it did, found by planning again with something changed.

Lives here: what users ask about a plan. No decision depends on it.
"""
